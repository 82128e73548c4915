// The state of a thread that a run builds from what its agent records: messages and channels, a checkpoint a step, kept by our store.
import type { Agent, AgentRecord, EarlierAttempts, HalfAnswer, ShownBesides } from '../agent/runtime.ts'
import { lastChunkJson, shortChunk, shortWhole, wholeJson } from '../conversation/wire.ts'
import type { Store } from '../store/store.ts'
import type { Share } from '../base/budget.ts'
import { INTERRUPTS, type OpenCall, openCallsIn } from '../conversation/interrupts.ts'
import type { StatePort } from '../agent/states.ts'
import { type SavedState, State, streamedJson } from '../thread/state.ts'
import { displayName, type TitleOptions, titleOf } from '../thread/title.ts'
import type { AiMessage, HumanMessage, Interrupt, Message, Run, RunEvent, ToolMessage } from '../base/types.ts'
import { Kind } from './log/frame.ts'
import { extraKinds } from './log/filter.ts'
import { rebuildPartial } from './log/rebuild-partial.ts'
import { StateBuilder } from './log/state-builder.ts'
import { ASKING, type RunEnd } from './run-end.ts'
import { baseOf, inputOf, isEdit, lastHuman, modesOf, resumeOf } from './run-kwargs.ts'
import { StateBudget } from './state-budget.ts'
import { StateCache } from './state-cache.ts'
import type {
  RunState,
  RunStates,
  RunTail,
  StateBefore,
  StateInput,
  StateRecords,
  StoredAttempts
} from './run-state.ts'

export interface BuiltStateOptions {
  /** A message sent while a question is open answers it. */
  readonly replyAnswers: boolean
  /** Of the longest state with which a run begins. */
  readonly stateCharacters: number
}

/** What the agent of these states has of its own. */
interface AgentStates extends Pick<Agent, 'showsDetails' | 'canRejoin'>, Pick<StatePort, 'elsewhere'> {}

const LONG_MESSAGES = 1_000
/** Checkpoints read at a time. */
const CHECKPOINTS_READ = 100

class BuiltState implements RunState {
  isAsking = false
  #earlier: StoredAttempts | null = null
  /** What is kept of the answer that an earlier attempt had in progress. */
  #half: HalfAnswer | null = null
  readonly #canRejoin: boolean
  readonly #records: StateRecords
  readonly #options: BuiltStateOptions
  readonly #builder: StateBuilder

  constructor(records: StateRecords, options: BuiltStateOptions, agent: AgentStates) {
    const { run, log } = records
    const { showsDetails = false, canRejoin = false } = agent
    this.#canRejoin = canRejoin
    this.#records = records
    this.#options = options
    const made = modesOf(run).filter((mode) => mode === 'updates' || !showsDetails)
    this.#builder = new StateBuilder(run, log, extraKinds(made), records.put)
  }

  get hasBegun(): boolean {
    return this.#builder.hasBegun
  }
  get isLong(): boolean {
    return this.#builder.state.length > LONG_MESSAGES
  }
  get checkpointId(): string | null {
    return this.#builder.checkpointId
  }
  get json(): string | null {
    return this.hasBegun ? this.#builder.state.json() : null
  }

  begin({ saved, newest, earlier }: StateBefore): void {
    const { run, journal } = this.#records
    const input = inputOf(run)
    const human = lastHuman(input.messages)
    this.#builder.open(saved, newest)
    if (earlier) return this.#resumeAttempt(earlier)
    // Before the new messages, both in the state and among the events.
    const results = this.#closeAsked(human)
    journal.begin(human, run.follow_up_to_run_id)
    this.#builder.begin({ ...input, messages: [...results, ...input.messages] })
  }

  #resumeAttempt(earlier: StoredAttempts): void {
    this.#earlier = earlier
    this.#builder.restore(earlier.newest)
    this.#builder.add(earlier.whole)
    this.#records.journal.expectResults(this.#openCalls(earlier))
    this.isAsking = this.#builder.isAsking
    // Who rejoins gets the rest of what was in progress.
    if (!this.#canRejoin) this.#dropHalves(earlier.whole.some(({ type }) => type === 'ai'))
  }

  /** What is dropped is seen to be gone by a step, which an answer has as well. None of them may stand behind half a text, which it would end. */
  #dropHalves(hasReply: boolean): void {
    const { half, hasDropped } = this.#records.journal.keepHalf()
    this.#half = half
    if (half || !(hasDropped || hasReply)) return
    this.#builder.close('agent', hasReply ? this.#nextAfter('agent') : ['agent'], 'loop')
  }

  /** Calls without a result, and questions of the previous run that this one has not answered. */
  #openCalls({ begun }: StoredAttempts): OpenCall[] {
    const { state, askedBefore } = this.#builder
    const questions = resumeOf(this.#records.run) ? askedBefore.interrupts : []
    const messages = state.messages()
    const textIn = (list: readonly Message[], id: string) => JSON.stringify(list.find((one) => one.id === id) ?? null)
    return openCallsIn(messages, questions).filter(
      ({ asked }) => asked === null || textIn(messages, asked) === textIn(begun.state.messages(), asked)
    )
  }

  /** Continues from what a process that is gone has stored of the run. `newest`: see `begin`. */
  resume(saved: SavedState | null, whole: readonly Message[], newest: SavedState | null): void {
    this.#builder.open(saved, newest)
    this.#builder.add(whole)
    // Including calls an earlier run left open for its user that this one was to close.
    this.#records.journal.expectResults(openCallsIn(this.#builder.state.messages()))
  }

  /**
   * The previous run asked its user. A message answers as well as a resume: the question becomes the call's result, and
   * the message follows. Calls without an answer are interrupted.
   */
  #closeAsked(human: HumanMessage | null): ToolMessage[] {
    const { run, journal } = this.#records
    const { openCalls } = this.#builder.askedBefore
    const isAnswered = ({ asked }: OpenCall) => asked !== null && human !== null && this.#options.replyAnswers
    const isResumed = resumeOf(run) !== null
    journal.expectResults(isResumed ? openCalls : openCalls.filter((call) => !isAnswered(call)))
    return isResumed ? [] : journal.closeCalls()
  }

  input(): StateInput {
    const { state, askedBefore } = this.#builder
    const earlier = this.#earlier
    const begun = earlier?.begun.state ?? state
    return {
      messages: begun.messages(),
      inputIds: inputOf(this.#records.run).messages.map(({ id }) => id),
      channels: begun.channels(),
      interrupts: askedBefore.interrupts,
      openCalls: askedBefore.openCalls.map(({ call }) => call),
      ...(earlier && { earlier: this.#recorded(earlier) })
    }
  }

  #recorded(earlier: StoredAttempts): EarlierAttempts {
    const { state } = this.#builder
    const openCalls = this.#openCalls(earlier).map(({ call }) => call)
    const { begunCalls } = this.#records.journal
    return {
      messages: state.messages(),
      channels: state.channels(),
      offset: earlier.offset,
      half: this.#half,
      isAsking: this.isAsking,
      openCalls,
      begunCalls: openCalls.flatMap(({ id }) => (begunCalls.has(id) ? id : []))
    }
  }

  record(record: AgentRecord): void {
    const { log, journal } = this.#records
    const isReply = record.type === 'llm_response' && record.caller === 'lead_agent'
    if (isReply) journal.messages.appendTo(log, record.message.id, journal.messages.complete(record.message.id))
    journal.record(record)
    if (isReply) this.#addReply(record.message, record.shown)
    else if (record.type === 'tool_end') this.#addWhole(record.message, record.shown)
    else if (record.type === 'input') for (const message of record.messages) this.#addWhole(message)
    else if (record.type === 'messages') this.#change(record.messages)
    else if (record.type === 'update') this.#builder.set(record.channels)
    else if (record.type === 'interrupt') this.#ask(record.interrupt, record.asked, record.hasUpdates)
    else if (record.type === 'step')
      this.#builder.close(record.node, record.next ?? this.#nextAfter(record.node), 'loop', record.hasUpdates)
  }

  #change(messages: (AgentRecord & { type: 'messages' })['messages']): void {
    for (const { type, id } of messages) if (type === 'remove') this.#records.journal.messages.drop(id)
    this.#builder.add(messages)
  }

  /** A reply whose deltas were sent: only its completion is missing. */
  #addReply(message: AiMessage, shown?: ShownBesides): void {
    const json = shown !== 'frames' && lastChunkJson(message, shown?.metadata)
    if (json) this.#records.log.append(Kind.messages, 'messages', json, shortChunk(message, 'last'))
    this.#builder.add([message])
  }

  #addWhole(message: Message, shown?: ShownBesides): void {
    // Encoded once: a tool's result may be large.
    const json = JSON.stringify(message)
    const whole = shown !== 'frames' && wholeJson(message, json, shown?.metadata)
    if (whole) this.#records.log.append(Kind.messages, 'messages', whole, shortWhole(message))
    this.#builder.add([message], [json])
  }

  #ask(interrupt: Interrupt, asked?: ToolMessage, hasUpdates = false): void {
    this.isAsking = true
    if (asked) this.#addWhole(asked)
    this.#builder.ask(interrupt, hasUpdates)
  }

  #nextAfter(node: string): string[] {
    // The step ends when all its calls are answered.
    if (this.isAsking) return [node]
    if (node === 'tools') return ['agent']
    return this.#records.journal.hasOpenCalls ? ['tools'] : []
  }

  /** Only graphs write states. */
  keep(): void {}
  shown(): void {}

  close(end: RunEnd, title: TitleOptions): void {
    if (!this.hasBegun) return this.#failToBegin(end)
    const { journal } = this.#records
    if (end.rollback) {
      journal.breakOff(end.failure ? end.status : 'interrupted')
      this.#builder.rollBack()
    } else {
      if (end === ASKING) this.#keepQuestion()
      else this.#keepBroken(end)
      this.#giveTitle(title)
    }
    journal.close(end)
  }

  /**
   * Its state could not be read: nothing to start from or add to. The user's message is still kept as an event, before
   * the failure [contract 3.5, 4.3].
   */
  #failToBegin(end: RunEnd): void {
    if (!end.failure) return
    const { run, journal } = this.#records
    journal.hear(lastHuman(inputOf(run).messages), run.follow_up_to_run_id)
    journal.close(end)
  }

  /**
   * Keeps a partial answer in a form every model server accepts: call fragments become invalid calls, open calls get a
   * result. Otherwise every later run of the thread would be refused.
   */
  #keepBroken({ status }: RunEnd): void {
    for (const message of this.#records.journal.breakOff(status === 'success' ? 'stop' : status)) {
      if (message.type === 'ai') this.#addReply(message)
      else this.#addWhole(message)
    }
    this.#builder.unask()
    if (this.#builder.state.hasFresh) this.#builder.close('agent', [], 'loop')
  }

  /** The agent may have ended right behind its question: without a checkpoint of its own nobody would see or answer it. */
  #keepQuestion(): void {
    for (const message of this.#records.journal.breakOffMessages('stop')) this.#addReply(message)
    if (this.#builder.state.hasFresh || this.#builder.next.length === 0) this.#builder.close('agent', ['agent'], 'loop')
  }

  #giveTitle(title: TitleOptions): void {
    const { state } = this.#builder
    if (!title.enabled || displayName(state.channel('title')) !== null) return
    const made = titleOf(state.eachMessage(), title)
    if (made === null) return
    this.#builder.set({ title: made })
    // A run that waits for its user continues where it was.
    this.#builder.close('title', this.isAsking ? this.#builder.next : [], 'loop')
  }

  title(): string | null {
    return displayName(this.#builder.state.channel('title'))
  }

  release(): SavedState | null {
    const { saved } = this.#builder
    this.#builder.release()
    return saved
  }
}

/** The states of all threads, from our checkpoints. */
export class BuiltStates implements RunStates {
  readonly #store: Pick<Store, 'checkpoints' | 'graphStates'>
  readonly #options: BuiltStateOptions
  readonly #cache: StateCache
  readonly #budget: StateBudget
  readonly #agent: AgentStates

  constructor(store: Pick<Store, 'checkpoints' | 'graphStates'>, options: BuiltStateOptions, agent: AgentStates = {}) {
    this.#store = store
    this.#options = options
    this.#agent = agent
    this.#cache = new StateCache(store, options.stateCharacters)
    this.#budget = new StateBudget(options.stateCharacters)
  }

  async shown(threadId: string, checkpointId: string | null): Promise<string | null> {
    const stored = await this.#store.checkpoints.load(threadId, checkpointId)
    return stored && streamedJson(stored)
  }

  bodies: RunStates['bodies'] = (...of) => this.#store.graphStates.bodies(...of)

  /** @param share see StateBudget */
  async before(run: Run, signal: AbortSignal, share: Share | null = null): Promise<StateBefore | null> {
    const base = baseOf(run)
    const newest = await this.#cache.newest(run.thread_id)
    const saved = base === null ? newest : await this.#base(run.thread_id, base, newest)
    if (!saved?.characters) return saved || base === null ? { saved, newest } : null
    const taker = { userId: run.user_id, signal, share }
    return this.#budget.within({ saved, newest }, taker, (own) => this.before(run, signal, own))
  }

  async beforeNext(...[run, store, head, given]: Parameters<RunStates['beforeNext']>): Promise<StateBefore | null> {
    const { newest, first, last } = await this.#checkpointsOf(run)
    if (first === null || last === null) return null
    const base = baseOf(run) ?? newest
    const begun = await this.#cache.at(run.thread_id, first)
    const reached = await this.#cache.at(run.thread_id, last)
    if (!begun || !reached) return null
    const { whole, offset } = await rebuildPartial(store, run, head, given.journal, given.events)
    return {
      saved: base === null ? null : await this.#base(run.thread_id, base, reached),
      newest: newest === null ? null : await this.#cache.at(run.thread_id, newest),
      earlier: { begun, newest: reached, whole, offset }
    }
  }

  /** The state a run starts from, ours or not; its texts are numbered behind those of `newest`. */
  async #base(threadId: string, id: string, newest: SavedState | null): Promise<SavedState | null> {
    const own = await this.#cache.at(threadId, id)
    const other = own ? null : await this.#agent.elsewhere?.(threadId, id)
    if (!other) return own
    const { messages, channels, interrupts, next } = other
    const asked = interrupts.map((one) => ({ ...one }))
    const state = State.empty
      .following(newest?.state ?? State.empty)
      .withMessages(messages)
      .withChannels({ ...channels, ...other.own, [INTERRUPTS]: asked })
    return { state, checkpointId: newest?.checkpointId ?? id, step: newest?.step ?? -1, next }
  }

  /** The first and the last of a run that has not ended, and the thread's newest before it. */
  async #checkpointsOf({ thread_id, run_id }: Run): Promise<Record<'newest' | 'first' | 'last', string | null>> {
    let first: string | null = null
    let last: string | null = null
    for (;;) {
      const page = await this.#store.checkpoints.history(thread_id, {
        limit: CHECKPOINTS_READ,
        ...(first !== null && { before: first })
      })
      for (const { checkpoint_id, run_id: its } of page) {
        if (its !== run_id) return { newest: checkpoint_id, first, last }
        last ??= checkpoint_id
        first = checkpoint_id
      }
      if (page.length < CHECKPOINTS_READ) return { newest: null, first, last }
    }
  }

  async #newestBefore(run: Run): Promise<SavedState | null> {
    const { newest } = await this.#checkpointsOf(run)
    return newest === null ? null : this.#cache.at(run.thread_id, newest)
  }

  of(records: StateRecords): RunState {
    return new BuiltState(records, this.#options, this.#agent)
  }

  async resumed(
    records: StateRecords,
    store: Pick<Store, 'frames'>,
    head: number,
    events: readonly RunEvent[]
  ): Promise<RunState> {
    const { run, journal } = records
    const state = new BuiltState(records, this.#options, this.#agent)
    const reached = await this.#cache.at(run.thread_id, null)
    const { whole } = await rebuildPartial(store, run, head, journal, events)
    state.resume(reached, whole, isEdit(run) ? await this.#newestBefore(run) : reached)
    return state
  }

  async followed(run: Run): Promise<(tail: RunTail) => Promise<string>> {
    const before = await this.#store.checkpoints.load(run.thread_id, baseOf(run))
    return async ({ checkpointId, whole }) => {
      const stored = checkpointId === null ? before : await this.#store.checkpoints.load(run.thread_id, checkpointId)
      return (stored ? State.fromStored(stored) : State.empty).withMessages(whole).json()
    }
  }

  left: RunStates['left'] = (...of) => this.#cache.left(...of)

  forget: RunStates['forget'] = (...of) => this.#cache.forget(...of)
}
