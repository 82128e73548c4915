// The state of a thread as one run changes it. Changes are collected until a step is closed: then they become a
// checkpoint for the store, and a values frame that refers to it.
import type { Op } from '../../store/store.ts'
import { checkpointId } from '../../thread/thread.ts'
import type { InputMessage } from '../../conversation/message.ts'
import { INTERRUPTS, interruptsIn, type OpenCall, openCallsIn } from '../../conversation/interrupts.ts'
import { State, type SavedState } from '../../thread/state.ts'
import { type Interrupt, type Json, type JsonObject, type Run, timestamp } from '../../base/types.ts'
import { bit, Kind } from './frame.ts'
import type { RunLog } from './run-log.ts'

/** One text in a state's list. */
const POINTER_BYTES = 8

export class StateBuilder {
  readonly #run: Run
  readonly #log: RunLog
  /** Extra kinds of frames the creator asked for. */
  readonly #extras: number
  /** Takes checkpoints for the store. */
  readonly #put: (op: Op) => void
  #state: State = State.empty
  /** The state of the newest checkpoint. */
  #saved: State = State.empty
  /** The state the run began with. Null: it has not begun. */
  #before: State | null = null
  /** The thread's newest state before the run, which a rollback restores; null: there was none. */
  #newestBefore: Pick<SavedState, 'state' | 'next'> | null = null
  #checkpointId: string | null = null
  #step = -1
  #next: readonly string[] = []

  constructor(run: Run, log: RunLog, extras: number, put: (op: Op) => void) {
    this.#run = run
    this.#log = log
    this.#extras = extras
    this.#put = put
  }

  /** The current state, including changes no checkpoint holds yet. */
  get state(): State {
    return this.#state
  }
  get hasBegun(): boolean {
    return this.#before !== null
  }
  get checkpointId(): string | null {
    return this.#checkpointId
  }
  /** Nodes that would run next from the newest checkpoint. */
  get next(): readonly string[] {
    return this.#next
  }

  /** Starts from a stored state, or none. `newest`: the thread's newest, where that is another one. */
  open(saved: SavedState | null, newest = saved): void {
    if (saved) this.restore(saved)
    this.#newestBefore = newest
    this.#before = this.#state
  }

  /** Goes on from a stored state, where the run began with another one. */
  restore({ state, checkpointId, step, next }: SavedState): void {
    this.#state = state
    this.#saved = state
    this.#checkpointId = checkpointId
    this.#step = step
    this.#next = next
  }

  /** The state of the newest checkpoint; null: there is none. */
  get saved(): SavedState | null {
    return this.#checkpointId === null
      ? null
      : { state: this.#saved, checkpointId: this.#checkpointId, step: this.#step, next: this.#next }
  }

  /** Starts the run with its input as the first step. */
  begin(input: { messages: readonly InputMessage[]; channels: Readonly<Record<string, Json>> }): void {
    this.add(input.messages)
    this.set(input.channels)
    // Questions are answered by this run, or not at all.
    this.unask()
    this.close('__start__', ['agent'], 'input')
  }

  /** `texts`: the messages as JSON, as far as the caller has it. */
  add(messages: readonly InputMessage[], texts: readonly string[] = []): void {
    this.#state = this.#state.withMessages(messages, texts)
  }

  set(channels: Readonly<Record<string, Json>>): void {
    this.#state = this.#state.withChannels(channels)
  }

  /** The run has asked its user. */
  get isAsking(): boolean {
    return interruptsIn(this.#state.channel(INTERRUPTS)).length > 0
  }

  /** The questions the previous run ended with, and its calls that wait for the answers. */
  get askedBefore(): { interrupts: Interrupt[]; openCalls: OpenCall[] } {
    const interrupts = interruptsIn(this.#before?.channel(INTERRUPTS))
    return { interrupts, openCalls: interrupts.length ? openCallsIn(this.#before!.messages(), interrupts) : [] }
  }

  /** The run waits for its user. `hasUpdates`: its agent has said so in a frame of its own. */
  ask({ id, value }: Interrupt, hasUpdates = false): void {
    const others = interruptsIn(this.#state.channel(INTERRUPTS)).filter((one) => one.id !== id)
    const asked = [...others, { id, value }].map((one) => ({ ...one }))
    this.set({ [INTERRUPTS]: asked })
    if ((this.#extras & bit(Kind.updates)) !== 0 && !hasUpdates)
      this.#log.append(Kind.updates, 'updates', JSON.stringify({ [INTERRUPTS]: [{ id, value }] }))
  }

  /** Nobody waits for the user any more. */
  unask(): void {
    if (interruptsIn(this.#state.channel(INTERRUPTS)).length) this.set({ [INTERRUPTS]: [] })
  }

  /** Restores the thread's state from before the run, with the questions that were open in it. */
  rollBack(): void {
    const { state, next } = this.#newestBefore ?? { state: State.empty, next: [] }
    this.#state = state.following(this.#state)
    this.close('rollback', next, 'update')
  }

  /** Closes a step of `node`; `next` names the nodes that would run next. `hasUpdates`: its agent has shown its nodes' updates. */
  close(node: string, next: readonly string[], source: string, hasUpdates = false): void {
    const { thread_id, run_id } = this.#run
    const id = checkpointId(this.#checkpointId)
    const before = this.#saved
    const metadata: JsonObject = { source, step: ++this.#step, parents: {}, run_id }
    const parent = this.#checkpointId
    const { checkpoint, saved } = this.#state.toCheckpoint({
      thread_id,
      checkpoint_id: id,
      parent_checkpoint_id: parent,
      run_id,
      created_at: timestamp(),
      metadata,
      next
    })
    this.#state = saved
    this.#saved = saved
    this.#checkpointId = id
    this.#next = next
    this.#put({ name: 'checkpoint.put', ...checkpoint })
    let bytes = 0
    for (const { json } of checkpoint.bodies) bytes += json.length
    this.#log.unstored.bytes += bytes
    if (this.#extras !== 0) this.#appendExtras(node, next, metadata, before, hasUpdates)
    // Shares its texts with the previous state, except new ones; has its own list of them.
    const interrupts = interruptsIn(saved.channel(INTERRUPTS))
    const about = { parent_id: parent, step: this.#step, source, ...(interrupts.length > 0 && { interrupts }) }
    this.#log.appendValues(id, saved, bytes + saved.size.texts * POINTER_BYTES, about)
  }

  /** Frames of modes that are logged only when the creator asked for them. */
  #appendExtras(node: string, next: readonly string[], metadata: JsonObject, before: State, hasUpdates: boolean): void {
    const wants = (kind: Kind) => (this.#extras & bit(kind)) !== 0
    const writes = `{"messages":[${this.#state.messagesSince(before).join(',')}]}`
    const isInput = node === '__start__'
    if (wants(Kind.updates) && !isInput && !hasUpdates)
      this.#log.append(Kind.updates, 'updates', `{${JSON.stringify(node)}:${writes}}`)
    if (wants(Kind.tasks) && !isInput) {
      const task = { id: this.#checkpointId, name: node, interrupts: [] }
      this.#log.append(Kind.tasks, 'tasks', withMember(task, 'result', writes))
    }
    const payload = withMember({ metadata, next }, 'values', this.#state.json())
    if (wants(Kind.checkpoints)) this.#log.append(Kind.checkpoints, 'checkpoints', payload)
    if (wants(Kind.debug)) {
      const about = { step: this.#step, type: 'checkpoint', timestamp: timestamp() }
      this.#log.append(Kind.debug, 'debug', withMember(about, 'payload', payload))
    }
  }

  /** The run is over and stored: drops the state. */
  release(): void {
    this.#state = State.empty
    this.#saved = State.empty
    this.#before = State.empty
    this.#newestBefore = null
  }
}

/** Adds a member, given as JSON text, to the JSON of an object. */
function withMember(fields: object, name: string, json: string): string {
  return `${JSON.stringify(fields).slice(0, -1)},${JSON.stringify(name)}:${json}}`
}
