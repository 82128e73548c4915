// The live half of a run: owns its frame log, its joiners and its journal, and takes it from pending to its end.
//
// Phases: `pending` (stored, waits for its turn in the thread) -> `open` (the agent works) -> `settling` (the end is decided, and
// being written) -> `closed` (the end is stored; joiners are told). Whatever ends a run, success, failure, cancel or shutdown,
// goes through `#settle`, which leaves `pending` or `open` exactly once: that is why there is one terminal status, ever.
//
// From `emit` to the log there is no await, and nothing here waits for a joiner.
import { type Agent, AgentError, type Fact, type Piece, type Sink } from '../agent/runtime.ts'
import type { Group, Op, Outcome, Segment, Settlement } from '../store/store.ts'
import { checkpointId } from '../thread/ids.ts'
import { type InputMessage, readMessages } from '../thread/message.ts'
import { State } from '../thread/state.ts'
import { displayName, type TitleOptions, titleOf } from '../thread/title.ts'
import type { HumanMessage, Json, JsonObject, Message, Run, RunStatus, ThreadStatus } from '../types.ts'
import { timestamp } from '../types.ts'
import { deltaJson, lastChunkJson, wholeJson } from './chunk.ts'
import type { Committer, Source } from './committer.ts'
import { bit, extraKinds, type Filter, Kind } from './filter.ts'
import { FrameLog, newEpoch, type RawFrame, type Slice } from './frames.ts'
import { Joiner, type Leaving, type LogView, type Reader } from './joiner.ts'
import type { Wire } from '../wire.ts'
import { Journal } from './journal.ts'
import { cursorText, type Extent, nextAfter, type Position } from './sse.ts'
import type { Tickable, Ticker } from './ticker.ts'
import { gapBytes, type LogStore, readStored, valuesStored } from './view.ts'

export type Phase = 'pending' | 'open' | 'settling' | 'closed'
export type CancelAction = 'interrupt' | 'rollback'

export interface ActorOptions {
  /** Stored frames that stay in memory, in bytes. */
  readonly windowBytes: number
  /** Frames that are not stored yet, in bytes, above which the agent pauses. */
  readonly pendingBytes: number
  /** How long the end of a run may wait for the store before its joiners are reset, in ms. */
  readonly settleTimeoutMs: number
  /** How long the creator of a run with on_disconnect cancel may be away, in ms. */
  readonly disconnectGraceMs: number
  /** How long a run may take, in ms; 0: for ever. */
  readonly timeoutMs: number
  readonly recursionLimit: number
  readonly maxTraceContent: number
  readonly trackTokens: boolean
  readonly title: TitleOptions
}

export interface ActorDeps {
  readonly store: LogStore
  readonly committer: Committer
  readonly ticker: Ticker
  readonly agent: Agent
  readonly options: ActorOptions
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void }
  readonly onJoinerLeft: (joiner: Joiner) => void
}

/** How a run ends, before it is written down. */
interface Ending {
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  /** For joiners and the run's row; the frame is left out when null. */
  readonly failure: { readonly kind: string; readonly message: string } | null
  readonly error: string | null
  readonly stopReason: string | null
  /** The state goes back to what it was before the run. */
  readonly rollback: boolean
}

/** Bytes of one write to a joiner that catches up from memory. */
const SLICE_BYTES = 128 * 1024
const ROLLED_BACK = 'Rolled back by user'

export class RunActor implements Source, Tickable, LogView {
  readonly run: Run
  deliveredAt = 0
  readonly #deps: ActorDeps
  readonly #frames: FrameLog
  readonly #journal: Journal
  readonly #joiners = new Set<Joiner>()
  readonly #abort = new AbortController()
  readonly #extras: number
  readonly #isSync: boolean
  #phase: Phase = 'pending'

  #state: State = State.empty
  /** The state of the newest checkpoint. */
  #saved: State = State.empty
  /** Where the run began: what a rollback goes back to. */
  #before: { state: State; checkpointId: string | null } | null = null
  #checkpointId: string | null = null
  #step = -1
  /** States of the values frames in memory, in the order of their frames. */
  readonly #values = new Map<string, { n: number; state: State }>()

  /** Writes that wait for the committer, in order; events and frames are added when it takes them. */
  #ops: Op[] = []
  #settlement: Settlement | null = null
  /** What the committer has taken and not answered yet. */
  #flight: {
    readonly ops: readonly Op[]
    readonly last: number | null
    readonly bytes: number
    readonly settles: boolean
  } | null = null
  #waitingForSpace: (() => void)[] = []

  #slice: { from: number; head: number; filter: Filter; slice: Slice } | null = null
  #settleTimer: NodeJS.Timeout | null = null
  #runTimer: NodeJS.Timeout | null = null
  #graceTimer: NodeJS.Timeout | null = null
  /** Resolves when the end is stored. */
  readonly closed: Promise<void>
  #resolveClosed: () => void = () => {}
  readonly #extent: Extent['epochs']

  /** `past`: what is stored of the run's log already, when an earlier process had admitted it. */
  constructor(run: Run, deps: ActorDeps, past: Extent = { epochs: [], head: 0 }) {
    this.run = run
    this.#deps = deps
    this.#frames = new FrameLog(newEpoch(), deps.options.windowBytes, past.head)
    this.#extent = [...past.epochs, { epoch: this.#frames.epoch, first: past.head }]
    this.#journal = new Journal({
      maxTraceContent: deps.options.maxTraceContent,
      trackTokens: deps.options.trackTokens
    })
    this.#extras = extraKinds(modesOf(run))
    this.#isSync = run.kwargs.durability === 'sync'
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.#frames.append(
      Kind.metadata,
      'metadata',
      JSON.stringify({ run_id: run.run_id, thread_id: run.thread_id, attempt: this.#extent.length })
    )
    deps.committer.due(this, false)
  }

  get phase(): Phase {
    return this.#phase
  }
  /** Its readers: those that are still catching up outlive the run. */
  get joiners(): ReadonlySet<Joiner> {
    return this.#joiners
  }

  // ---------------------------------------------------------------------------------------- the run's course

  /** Takes the run from pending to its end. Resolves when that is stored; never rejects. */
  async start(): Promise<void> {
    if (this.#phase !== 'pending') return this.closed
    this.#phase = 'open'
    this.#armTimeout()
    try {
      await this.#load()
      // The ONLY await before the agent: whoever cancelled meanwhile has settled the run.
      if (this.#isOpen()) await this.#work()
      this.#settle({ status: 'success', failure: null, error: null, stopReason: null, rollback: false })
    } catch (error) {
      this.#failed(error)
    }
    return this.closed
  }

  async #load(): Promise<void> {
    const { thread_id, kwargs } = this.run
    const base = typeof kwargs.checkpoint_id === 'string' ? kwargs.checkpoint_id : null
    const stored = await this.#deps.store.checkpoints.load(thread_id, base)
    if (base !== null && !stored) throw new AgentError('CheckpointNotFound', `Checkpoint ${base} not found`)
    if (!stored) return
    this.#state = State.fromStored(stored)
    this.#saved = this.#state
    this.#checkpointId = stored.checkpoint_id
    if (typeof stored.metadata.step === 'number') this.#step = stored.metadata.step
  }

  async #work(): Promise<void> {
    const { run } = this
    this.#before = { state: this.#state, checkpointId: this.#checkpointId }
    const input = inputOf(run)
    this.#ops.push({ name: 'run.start', run_id: run.run_id, thread_id: run.thread_id, now: timestamp() })
    this.#journal.begin(lastHuman(input.messages), run.follow_up_to_run_id)
    this.#state = this.#state.withMessages(input.messages).withChannels(input.channels)
    this.#closeStep('__start__', ['agent'], 'input')
    this.#deps.committer.due(this, true)
    await this.#deps.agent.start(
      {
        threadId: run.thread_id,
        runId: run.run_id,
        userId: run.user_id,
        assistantId: run.assistant_id ?? 'lead_agent',
        messages: this.#state.messages(),
        channels: this.#state.channels(),
        context: contextOf(run),
        modelName: run.model_name,
        recursionLimit: recursionLimitOf(run, this.#deps.options.recursionLimit)
      },
      this.#sink(),
      this.#abort.signal
    )
  }

  #isOpen(): boolean {
    return this.#phase === 'open'
  }

  #armTimeout(): void {
    const { timeoutMs } = this.#deps.options
    if (timeoutMs === 0) return
    const message = `The run took longer than ${timeoutMs / 1000} s`
    const ending: Ending = {
      status: 'timeout',
      failure: { kind: 'RunTimeout', message },
      error: message,
      stopReason: 'timeout',
      rollback: false
    }
    this.#runTimer = setTimeout(() => this.#settle(ending), timeoutMs)
  }

  #failed(error: unknown): void {
    if (!(error instanceof AgentError) && this.#isOpen())
      this.#deps.log.error({ run_id: this.run.run_id, err: error }, 'a run has failed')
    const kind = error instanceof AgentError ? error.kind : 'InternalError'
    const message = error instanceof AgentError ? error.message : 'The agent failed unexpectedly'
    const stopReason = error instanceof AgentError ? error.stopReason : null
    this.#settle({ status: 'error', failure: { kind, message }, error: message, stopReason, rollback: false })
  }

  /**
   * Cancels the run, wherever it is before its end. False: it has ended already, or is just being written.
   * `stopReason` tells who did it when it was not a user.
   */
  cancel(action: CancelAction, stopReason: string | null = null): boolean {
    const rollback = action === 'rollback'
    return this.#settle({
      status: rollback ? 'error' : 'interrupted',
      failure: null,
      error: rollback ? ROLLED_BACK : null,
      stopReason,
      rollback
    })
  }

  // ------------------------------------------------------------------------------------------- what the agent tells

  #sink(): Sink {
    return {
      emit: (piece) => (this.#isOpen() ? this.#emit(piece) : false),
      record: (fact) => (this.#isOpen() ? this.#record(fact) : false),
      space: () => this.#space()
    }
  }

  #emit(piece: Piece): boolean {
    if (piece.type === 'delta') {
      this.#journal.fold(piece)
      this.#frames.append(Kind.messages, 'messages', deltaJson(piece))
    } else {
      if (piece.name !== undefined) this.#journal.custom(piece.name, piece.data)
      this.#frames.append(Kind.custom, 'custom', JSON.stringify(piece.data))
    }
    return this.#appended()
  }

  #record(fact: Fact): boolean {
    this.#journal.record(fact)
    if (fact.type === 'llm_response' && fact.caller === 'lead_agent') {
      this.#frames.append(Kind.messages, 'messages', lastChunkJson(fact.message))
      this.#state = this.#state.withMessages([fact.message])
    } else if (fact.type === 'tool_end') this.#addWhole(fact.message)
    else if (fact.type === 'update') this.#state = this.#state.withChannels(fact.channels)
    else if (fact.type === 'step') this.#closeStep(fact.node, this.#nextAfter(fact.node), 'loop')
    return this.#appended()
  }

  #addWhole(message: Message): void {
    this.#frames.append(Kind.messages, 'messages', wholeJson(message))
    this.#state = this.#state.withMessages([message])
  }

  /** True: there is space for more. */
  #appended(): boolean {
    if (this.#joiners.size) this.#deps.ticker.due(this)
    this.#deps.committer.due(this, false)
    return this.#hasSpace()
  }

  #hasSpace(): boolean {
    const { pendingBytes } = this.#deps.options
    return pendingBytes === 0 || this.#frames.pendingBytes < pendingBytes
  }

  #space(): Promise<void> {
    if (!this.#isOpen() || this.#hasSpace()) return Promise.resolve()
    return new Promise((resolve) => this.#waitingForSpace.push(resolve))
  }

  #tellSpace(): void {
    if (this.#isOpen() && !this.#hasSpace()) return
    for (const resolve of this.#waitingForSpace.splice(0)) resolve()
  }

  // -------------------------------------------------------------------------------------------------- state

  #nextAfter(node: string): string[] {
    if (node === 'tools') return ['agent']
    return this.#journal.hasOpenCalls ? ['tools'] : []
  }

  /** What joined the state since the last step becomes a checkpoint, and a values frame that refers to it. */
  #closeStep(node: string, next: readonly string[], source: string): void {
    const { run } = this
    const id = checkpointId()
    const metadata: JsonObject = { source, step: ++this.#step, parents: {}, run_id: run.run_id }
    const before = this.#saved
    const { checkpoint, saved } = this.#state.toCheckpoint({
      thread_id: run.thread_id,
      checkpoint_id: id,
      parent_checkpoint_id: this.#checkpointId,
      run_id: run.run_id,
      created_at: timestamp(),
      metadata,
      next
    })
    this.#state = saved
    this.#saved = saved
    this.#checkpointId = id
    this.#ops.push({ name: 'checkpoint.put', ...checkpoint })
    this.#appendExtras(node, next, metadata, before)
    this.#values.set(id, { n: this.#frames.head, state: saved })
    this.#frames.appendValues(id)
    this.#deps.ticker.due(this)
    this.#deps.committer.due(this, false)
  }

  /** Frames of the modes that are logged only when the creator asked for them. */
  #appendExtras(node: string, next: readonly string[], metadata: JsonObject, before: State): void {
    if (this.#extras === 0) return
    const wants = (kind: Kind) => (this.#extras & bit(kind)) !== 0
    const writes = `{"messages":[${this.#state.messagesSince(before).join(',')}]}`
    const isStart = node === '__start__'
    if (wants(Kind.updates) && !isStart)
      this.#frames.append(Kind.updates, 'updates', `{${JSON.stringify(node)}:${writes}}`)
    if (wants(Kind.tasks) && !isStart) {
      const head = JSON.stringify({ id: this.#checkpointId, name: node, interrupts: [] }).slice(0, -1)
      this.#frames.append(Kind.tasks, 'tasks', `${head},"result":${writes}}`)
    }
    const payload = `{"values":${this.#state.json()},"metadata":${JSON.stringify(metadata)},"next":${JSON.stringify(next)}}`
    if (wants(Kind.checkpoints)) this.#frames.append(Kind.checkpoints, 'checkpoints', payload)
    if (wants(Kind.debug)) {
      const head = JSON.stringify({ step: this.#step, type: 'checkpoint', timestamp: timestamp() }).slice(0, -1)
      this.#frames.append(Kind.debug, 'debug', `${head},"payload":${payload}}`)
    }
  }

  // ------------------------------------------------------------------------------------------------ the end

  /** Decides the end. False: it is decided already. */
  #settle(ending: Ending): boolean {
    if (this.#phase === 'settling' || this.#phase === 'closed') return false
    const hasStarted = this.#phase === 'open' && this.#before !== null
    this.#phase = 'settling'
    this.#abort.abort()
    this.#clearTimers()
    this.#tellSpace()
    if (hasStarted) this.#closeState(ending)
    if (ending.failure) {
      const { kind, message } = ending.failure
      this.#frames.append(Kind.error, 'error', JSON.stringify({ error: kind, name: kind, message }))
    }
    this.#settlement = this.#settlementOf(ending, hasStarted)
    this.#deps.ticker.due(this)
    this.#deps.committer.due(this, true)
    this.#settleTimer = setTimeout(() => this.#giveUpWaiting(), this.#deps.options.settleTimeoutMs)
    return true
  }

  /** Leaves a state that the next run can go on from: whatever was broken off is made whole, or undone. */
  #closeState(ending: Ending): void {
    if (ending.rollback) this.#restore()
    else this.#keepBroken(ending)
    if (ending.status === 'success' || ending.status === 'interrupted') this.#giveTitle()
    if (ending.failure) this.#journal.fail(ending.failure.kind, ending.failure.message)
    else this.#journal.end(ending.status)
  }

  #restore(): void {
    this.#journal.breakOff('interrupted')
    this.#state = this.#before!.state.following(this.#state)
    this.#closeStep('rollback', [], 'update')
  }

  /**
   * Keeps the part of an answer that came, valid for every model server: fragments of calls are marked as invalid, calls without
   * a result are answered. Otherwise every later run of the thread would be refused.
   */
  #keepBroken(ending: Ending): void {
    const reason = ending.status === 'success' ? 'stop' : ending.status
    for (const message of this.#journal.breakOff(reason)) this.#addBroken(message)
    if (this.#state.hasFresh) this.#closeStep('agent', [], 'loop')
  }

  #addBroken(message: Message): void {
    // Its deltas went out before; what is missing is that no more will come.
    if (message.type === 'ai') this.#frames.append(Kind.messages, 'messages', lastChunkJson(message))
    else this.#frames.append(Kind.messages, 'messages', wholeJson(message))
    this.#state = this.#state.withMessages([message])
  }

  #giveTitle(): void {
    const { title } = this.#deps.options
    if (!title.enabled || displayName(this.#state.channel('title')) !== null) return
    const made = titleOf(this.#state.messages(), title)
    if (made === null) return
    this.#state = this.#state.withChannels({ title: made })
    this.#closeStep('title', [], 'loop')
  }

  #settlementOf(ending: Ending, hasStarted: boolean): Settlement {
    const { run } = this
    const head = this.#frames.head
    return {
      ...this.#journal.totals,
      run_id: run.run_id,
      thread_id: run.thread_id,
      status: ending.status,
      thread_status: hasStarted ? threadStatusAfter(ending.status) : null,
      title: hasStarted ? displayName(this.#state.channel('title')) : null,
      error: ending.error,
      stop_reason: ending.stopReason,
      model_name: this.#journal.modelName,
      last_cursor: cursorText(this.#frames.epoch, head - 1),
      final_checkpoint_id: this.#checkpointId,
      first_human_message: this.#journal.firstHumanMessage,
      last_ai_message: this.#journal.lastAiMessage,
      now: timestamp()
    }
  }

  /** The store does not take the end: nobody is told an end that may still get lost. The committer keeps trying. */
  #giveUpWaiting(): void {
    this.#deps.log.error(
      { run_id: this.run.run_id },
      'the end of a run could not be stored in time: its streams are reset'
    )
    this.resetJoiners()
  }

  #close(): void {
    this.#phase = 'closed'
    if (this.#settleTimer) clearTimeout(this.#settleTimer)
    for (const joiner of [...this.#joiners]) joiner.pump()
    this.#resolveClosed()
  }

  #clearTimers(): void {
    if (this.#runTimer) clearTimeout(this.#runTimer)
    if (this.#graceTimer) clearTimeout(this.#graceTimer)
  }

  // ------------------------------------------------------------------------------------------------ to the disk

  take(): Group | null {
    const { run } = this
    const ops = this.#ops
    this.#ops = []
    const events = this.#journal.takeEvents()
    if (events.length)
      ops.push({ name: 'events.append', thread_id: run.thread_id, run_id: run.run_id, user_id: run.user_id, events })
    const segment = this.#frames.take()
    if (segment) ops.push({ name: 'frames.append', run_key: run.key, thread_id: run.thread_id, segment })
    const settlement = this.#settlement
    this.#settlement = null
    if (settlement) ops.push({ name: 'run.settle', ...settlement })
    if (ops.length === 0) return null
    this.#flight = { ops, last: segment?.last ?? null, bytes: segment?.data.length ?? 0, settles: settlement !== null }
    return { ops }
  }

  committed(outcome: Outcome): void {
    const flight = this.#flight
    this.#flight = null
    if (!flight) return
    if (flight.last !== null) this.#frames.commit(flight.last, flight.bytes)
    if (!outcome.ok) {
      this.#refused(outcome.message, flight.ops)
      return
    }
    this.#forgetValues()
    this.#tellSpace()
    if (this.#isSync && this.#joiners.size) this.#deps.ticker.due(this)
    if (flight.settles) this.#close()
  }

  /** The states of values frames that have left memory are read from the store from now on. */
  #forgetValues(): void {
    const { first } = this.#frames
    for (const [id, { n }] of this.#values) {
      if (n >= first) return
      this.#values.delete(id)
    }
  }

  /**
   * The store has refused this run's records, not for a moment but for what they are. The run fails alone: what was refused is
   * named in the log file, its end is written by itself, and the other runs of the batch have not noticed.
   */
  #refused(message: string, ops: readonly Op[]): void {
    const { run_id, thread_id } = this.run
    this.#deps.log.error(
      { run_id, thread_id, refused: message, records: ops.map(loggable) },
      'the store refuses the records of a run'
    )
    this.#phase = 'settling'
    this.#abort.abort()
    this.#clearTimers()
    this.#tellSpace()
    this.#ops = []
    this.#journal.takeEvents()
    this.#frames.take()
    const failure = { kind: 'StorageRefused', message: 'The records of this run could not be stored' }
    this.#frames.append(
      Kind.error,
      'error',
      JSON.stringify({ error: failure.kind, name: failure.kind, message: failure.message })
    )
    this.#deps.ticker.due(this)
    const ending: Ending = {
      status: 'error',
      failure,
      error: failure.message,
      stopReason: 'storage_refused',
      rollback: false
    }
    void this.#settleAlone({ name: 'run.settle', ...this.#settlementOf(ending, true), final_checkpoint_id: null })
  }

  /** Writes the end with its frame, or without it, or not at all: the thread may be gone. */
  async #settleAlone(settle: Op): Promise<void> {
    const { committer } = this.#deps
    const segment = this.#frames.take()
    const { key, thread_id } = this.run
    const frames: Op[] = segment ? [{ name: 'frames.append', run_key: key, thread_id, segment }] : []
    await committer.writeAll([...frames, settle]).catch(() => committer.writeAll([settle]).catch(() => null))
    this.#close()
  }

  // ---------------------------------------------------------------------------------------------------- joiners

  /** Attaches a reader after `position`. `isCreator`: its going away may cancel the run (on_disconnect). */
  join(wire: Wire, filter: Filter, position: Position, reader: Reader, isCreator = false): Joiner {
    const extent = { epochs: this.#extent, head: this.head }
    const left = (joiner: Joiner, why: Leaving) => {
      this.#joiners.delete(joiner)
      this.#deps.onJoinerLeft(joiner)
      if (isCreator && why === 'left') this.creatorLeft()
    }
    const joiner = new Joiner(wire, this, filter, nextAfter(position, extent), reader, left)
    this.#joiners.add(joiner)
    joiner.pump()
    return joiner
  }

  /** The creating request is gone. With on_disconnect cancel the run ends after a grace, unless somebody watches it then. */
  creatorLeft(): void {
    if (this.run.kwargs.on_disconnect !== 'cancel' || this.#phase === 'settling' || this.#phase === 'closed') return
    this.#graceTimer ??= setTimeout(() => {
      if (this.#joiners.size === 0) this.cancel('interrupt', 'disconnected')
    }, this.#deps.options.disconnectGraceMs)
  }

  /** Sends what is new to every joiner at the tail. Joiners with one filter at one place share the bytes. */
  deliver(): void {
    for (const joiner of this.#joiners) joiner.pump()
  }

  beat(stallMs: number): void {
    for (const joiner of this.#joiners) joiner.beat(stallMs)
  }

  resetJoiners(isMeant: (reader: Reader) => boolean = () => true): void {
    for (const joiner of [...this.#joiners]) if (isMeant(joiner.reader)) joiner.reset()
  }

  /** With durability sync nothing is shown that is not stored. */
  get head(): number {
    return this.#isSync ? this.#frames.committed : this.#frames.head
  }
  get first(): number {
    return this.#frames.first
  }
  get isClosed(): boolean {
    return this.#phase === 'closed'
  }

  slice(from: number, filter: Filter): Slice {
    const known = this.#slice
    const { head } = this
    if (known && known.from === from && known.filter === filter && known.head === head) return known.slice
    const slice = this.#frames.slice(from, filter, (id) => this.valuesInMemory(id), SLICE_BYTES, head)
    this.#slice = { from, head, filter, slice }
    return slice
  }

  frames(from: number): Iterable<RawFrame> {
    return this.#frames.frames(from, this.head)
  }

  valuesInMemory(id: string): string | null {
    return this.#values.get(id)?.state.json() ?? null
  }

  readStored(from: number): Promise<readonly Segment[]> {
    return readStored(this.#deps.store, this.run, from)
  }

  async valuesStored(id: string): Promise<string | null> {
    return this.valuesInMemory(id) ?? (await valuesStored(this.#deps.store, this.run, id))
  }

  gapBytes(from: number): Promise<Buffer> {
    return gapBytes(this.#deps.store, this.run, from)
  }
}

// ------------------------------------------------------------------------------------------- what a run was asked for

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The stream modes of the run: what a joiner gets that names none. */
export function modesOf(run: Run): string[] {
  const modes = run.kwargs.stream_mode
  return Array.isArray(modes) ? modes.filter((mode) => typeof mode === 'string') : ['values']
}

/** The input as messages and channel values. It was read once at creation; ids are in it since then. */
function inputOf(run: Run): { messages: InputMessage[]; channels: Record<string, Json> } {
  const { input } = run.kwargs
  if (!isObject(input)) return { messages: [], channels: {} }
  const { messages, ...channels } = input
  return { messages: readMessages(messages), channels }
}

function lastHuman(messages: readonly InputMessage[]): HumanMessage | null {
  return messages.findLast((message): message is HumanMessage => message.type === 'human') ?? null
}

/** What the caller passed along, without what speaks for a user: that is the run's own. */
function contextOf(run: Run): JsonObject {
  const { config, context } = run.kwargs
  const configurable = isObject(config) && isObject(config.configurable) ? config.configurable : {}
  const configured = isObject(config) && isObject(config.context) ? config.context : {}
  const {
    user_id: _,
    is_internal: __,
    langgraph_auth_user_id: ___,
    ...passed
  } = {
    ...(isObject(context) ? context : {}),
    ...configurable,
    ...configured
  }
  return passed
}

function recursionLimitOf(run: Run, fallback: number): number {
  const limit = isObject(run.kwargs.config) ? run.kwargs.config.recursion_limit : undefined
  return typeof limit === 'number' && Number.isInteger(limit) && limit > 0 ? Math.min(limit, 1000) : fallback
}

/** [States]: idle after a run that ended without failure, error after one that failed. A user's cancel is no failure. */
function threadStatusAfter(status: Ending['status']): ThreadStatus {
  return status === 'success' || status === 'interrupted' ? 'idle' : 'error'
}

/** A refused op for the log file: frames as the text they are. */
function loggable(op: Op): object {
  if (op.name !== 'frames.append') return op
  const { first, last, data } = op.segment
  return { ...op, segment: { first, last, data: Buffer.from(data).toString('utf8') } }
}
