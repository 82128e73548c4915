// The recorder of a run: what its agent tells becomes frames for those who watch, events for those who ask later, and the state that
// the next run goes on from. Whatever ends the run, the recorder closes all three; the committer takes from it what is to be stored.
//
// From `emit` to the log there is no await. Until it is taken everything stays where it was made: frames in their slabs, events in the
// journal, checkpoints with the state.
import { checkPart, checkRecord } from '../agent/check.ts'
import type { AgentInput, AgentRecord, Frame, Sink, StateWrite, StreamPart } from '../agent/runtime.ts'
import type { Group, Op, Outcome, Settlement, Store } from '../store/store.ts'
import { openCallsIn } from '../thread/interrupts.ts'
import { displayName, type TitleOptions, titleOf } from '../thread/title.ts'
import {
  type AiMessage,
  type HumanMessage,
  type Interrupt,
  type Message,
  NO_TOTALS,
  type Run,
  type RunTotals,
  timestamp,
  type ToolMessage
} from '../types.ts'
import { wellFormed, wellFormedJson } from '../well-formed.ts'
import type { Committer, Source } from './commit/committer.ts'
import { PendingBudget } from './commit/pending-budget.ts'
import { extraKinds, Kind } from './log/filter.ts'
import { Journal, type JournalOptions } from './log/journal.ts'
import { errorJson, lastChunkJson, shortChunk, shortWhole, wholeJson } from './log/message.ts'
import { rebuildPartial } from './log/rebuild-partial.ts'
import { KeptState } from './log/kept-state.ts'
import { type LogOptions, RunLog, type Scheduler } from './log/run-log.ts'
import { type Snapshot, snapshotOf } from './log/snapshot.ts'
import type { LogBounds } from './log/sse.ts'
import { StateBuilder } from './log/state-builder.ts'
import { type SavedState, savedState } from './log/state-cache.ts'
import type { LogStore } from './log/stored-frames.ts'
import { ASKING, failed, REFUSED, type RunEnd, threadStatusAfter } from './run-end.ts'
import { contextOf, graphOf, inputOf, lastHuman, modesOf, recursionLimitOf, resumeOf } from './run-kwargs.ts'

export interface RecorderOptions extends LogOptions, JournalOptions {
  /** Bytes of one frame on the wire; a larger one is cut there and kept whole; 0: no limit. */
  readonly eventBytes: number
  /** Frames, events and checkpoints that are not stored yet, in bytes, above which the agent pauses; 0: no limit. */
  readonly pendingBytes: number
  readonly recursionLimit: number
  readonly title: TitleOptions
  /** A message that is sent while a question waits is its answer. */
  readonly replyAnswers: boolean
}

export interface RecorderDeps {
  readonly options: RecorderOptions
  /** In whose name the run is written, where there is more than one process [Store 10]. */
  readonly owner?: string | undefined
  /** The agent keeps the states of its threads itself: of them the recorder knows what it is told. */
  readonly keepsStates?: boolean | undefined
  readonly log: { error(fields: object, text: string): void }
}

/** What a run of this process needs beside that. */
export interface LiveDeps extends RecorderDeps {
  readonly store: LogStore
  readonly ticker: Scheduler
  readonly committer: Pick<Committer, 'schedule'>
  readonly budget: PendingBudget
}

/** Who is told what became of the records. */
export interface RecorderEvents {
  /** Some were stored; `isOver`: the run's end is among them. */
  onStored(isOver: boolean): void
  /** The store has refused these, for what they are; none: they could not even be taken. */
  onRefused(message: string, ops: readonly Op[]): void
}

type Feeds = Pick<LiveDeps, 'committer' | 'budget'> & RecorderEvents

/** Of a run that is only closed: whoever does it takes the records and writes them. */
const NOBODY: Feeds = {
  committer: { schedule: () => {} },
  budget: new PendingBudget(0, { isLate: false }),
  onStored: () => {},
  onRefused: () => {}
}

/** What the committer has taken and not answered for yet. */
interface InFlightBatch {
  readonly ops: readonly Op[]
  /** n of its last frame; null: it has none. */
  readonly last: number | null
  /** Of its frames. */
  readonly bytes: number
  /** Of its events and checkpoints, about. */
  readonly recordBytes: number
  /** The run's end is in it. */
  readonly settles: boolean
}

export class Recorder implements Source {
  isWaiting = false
  /** What readers see of the run. */
  readonly log: RunLog
  readonly #run: Run
  readonly #journal: Journal
  readonly #state: StateBuilder
  /** In its place, of an agent that keeps its states itself. */
  readonly #kept: KeptState | null
  readonly #deps: RecorderDeps
  readonly #feeds: Feeds
  /** The agent is heard. */
  #isOpen = false
  #isAbandoned = false
  #asks = false
  #begun = performance.now()
  /** Writes that wait; events and frames are added when they are taken. */
  #ops: Op[] = []
  #settlement: Settlement | null = null
  /** How its row ends, as soon as that is decided. Not the whole settlement: its texts are parts of all that was said. */
  #ended: Partial<Run> = {}
  #inFlight: InFlightBatch | null = null
  /** What of the process's budget is this run's. */
  #budgeted = 0
  #waitingForSpace: (() => void)[] = []
  readonly #waitingForCommit: { commits: number; readonly resolve: () => void }[] = []

  private constructor(run: Run, log: RunLog, journal: Journal, deps: RecorderDeps, feeds: Feeds) {
    this.#run = run
    this.log = log
    this.#journal = journal
    this.#state = new StateBuilder(run, log, extraKinds(modesOf(run)))
    this.#kept = deps.keepsStates ? new KeptState(run) : null
    this.#deps = deps
    this.#feeds = feeds
  }

  /** Of a run of this process. `past`: what is stored of its log already, when an earlier process had admitted it. */
  static begin(run: Run, deps: LiveDeps, events: RecorderEvents, past?: LogBounds, journal?: Journal): Recorder {
    const { store, options, ticker, committer, budget } = deps
    const log = RunLog.begin(run, store, options, past, ticker)
    const onStored = (isOver: boolean) => events.onStored(isOver)
    const onRefused = (message: string, ops: readonly Op[]) => events.onRefused(message, ops)
    const recorder = new Recorder(run, log, journal ?? new Journal(options), deps, {
      committer,
      budget,
      onStored,
      onRefused
    })
    const about = { run_id: run.run_id, thread_id: run.thread_id, attempt: log.attempts }
    log.append(Kind.metadata, 'metadata', JSON.stringify(about))
    committer.schedule(recorder, false)
    return recorder
  }

  /** Of a run whose process is gone, with all that is stored of it: to be closed, under an epoch of its own. */
  static async resumed(run: Run, past: LogBounds, store: Store, deps: RecorderDeps): Promise<Recorder> {
    const { thread_id, run_id } = run
    const events = await store.events.listEvents(thread_id, run_id, { limit: Number.MAX_SAFE_INTEGER }, null)
    const journal = Journal.resumed(deps.options, events, await store.events.lastK(thread_id, run_id))
    const recorder = new Recorder(run, RunLog.begin(run, store, deps.options, past), journal, deps, NOBODY)
    if (recorder.#kept) {
      recorder.#kept.checkpointId = (await store.graphStates.load(thread_id, '', null))?.checkpoint_id ?? null
      return recorder
    }
    const stored = await store.checkpoints.load(thread_id, null)
    recorder.#state.open(stored && savedState(stored))
    recorder.#state.add((await rebuildPartial(store, run, past.head, journal, events)).whole)
    // Also those that an earlier run has left open for its user, and this one was to close.
    journal.owe(openCallsIn(recorder.#state.state.messages()))
    return recorder
  }

  /** The agent has asked its user something, and ends with that. */
  get isAsking(): boolean {
    return this.#asks
  }
  get hasBegun(): boolean {
    return (this.#kept ?? this.#state).hasBegun
  }
  get modelName(): string | null {
    return this.#journal.modelName ?? this.#run.model_name
  }

  // ------------------------------------------------------------------------------------------ what the agent tells

  /** Goes on from a stored state, or from none, with what the run was given: from now on its agent is heard. */
  begin(saved: SavedState | null): void {
    const { run_id, thread_id, follow_up_to_run_id } = this.#run
    this.#ops.push({ name: 'run.start', run_id, thread_id, now: timestamp() })
    if (this.#kept) return this.#open()
    const input = inputOf(this.#run)
    const human = lastHuman(input.messages)
    this.#begun = performance.now()
    this.#state.open(saved)
    // Before what is said now, in the state as among the events.
    const results = this.#closeAsked(human)
    this.#journal.begin(human, follow_up_to_run_id)
    this.#state.begin({ ...input, messages: [...results, ...input.messages] })
    this.#open()
  }

  #open(): void {
    if (this.#kept) this.#kept.hasBegun = true
    if (this.#journal.hasBegun && this.log.attempts > 1) this.#journal.goOn(this.log.attempts)
    this.#isOpen = true
    this.#appended()
    this.#feeds.committer.schedule(this, true)
  }

  /**
   * The run before this one has asked its user. A message answers as well as a resume: the question is the call's result then, and
   * what is said stands behind it. What has no answer is interrupted.
   */
  #closeAsked(human: HumanMessage | null): ToolMessage[] {
    const { openCalls } = this.#state.askedBefore
    const isAnswered = (asked: string | null) => asked !== null && human !== null && this.#deps.options.replyAnswers
    const isResumed = resumeOf(this.#run) !== null
    this.#journal.owe(isResumed ? openCalls : openCalls.filter(({ asked }) => !isAnswered(asked)))
    return isResumed ? [] : this.#journal.closeCalls()
  }

  /** What the agent is given. */
  input(): AgentInput {
    const run = this.#run
    const { state, askedBefore } = this.#state
    return {
      threadId: run.thread_id,
      runId: run.run_id,
      userId: run.user_id,
      assistantId: run.assistant_id ?? 'lead_agent',
      resume: resumeOf(run),
      messages: state.messages(),
      inputIds: this.#kept ? [] : inputOf(run).messages.map(({ id }) => id),
      channels: state.channels(),
      context: contextOf(run),
      modelName: run.model_name,
      recursionLimit: recursionLimitOf(run, this.#deps.options.recursionLimit),
      graphId: graphOf(run),
      request: { ...run.kwargs, metadata: run.metadata },
      attempt: this.log.attempts,
      interrupts: askedBefore.interrupts,
      openCalls: askedBefore.openCalls.map(({ call }) => call)
    }
  }

  /** What the agent tells it to. */
  sink(): Sink {
    return {
      emit: (part) => this.emit(part),
      record: (record) => this.record(record),
      space: () => this.space(),
      keep: (write) => this.#keep(write),
      flushed: () => this.#flushed()
    }
  }

  /** Part of a state that the agent keeps itself. */
  #keep(write: StateWrite): void {
    if (!this.#isOpen || !this.#kept) return
    this.#ops.push(write)
    this.#kept.written(write)
    this.#appended()
  }

  /** All that there is now is stored. */
  #flushed(): Promise<void> {
    if (!this.#isOpen || this.pendingBytes + this.#ops.length === 0) return Promise.resolve()
    const commits = this.#inFlight ? 2 : 1
    this.#feeds.committer.schedule(this, true)
    return new Promise((resolve) => this.#waitingForCommit.push({ commits, resolve }))
  }

  #tellCommitted(all: boolean): void {
    for (const waiting of this.#waitingForCommit.splice(0)) {
      waiting.commits--
      if (all || waiting.commits === 0) waiting.resolve()
      else this.#waitingForCommit.push(waiting)
    }
  }

  /** Something to show. On the live path: encoded once, for everybody and for the disk. */
  emit(part: StreamPart): boolean {
    if (!this.#isOpen) return false
    checkPart(part)
    if (part.type === 'frame') this.#frame(part)
    else if (part.type === 'delta') this.#show(part.messageId, this.#journal.messages.say(part))
    else this.#custom(wellFormed(part))
    return this.#appended()
  }

  #show(id: string, chunks: readonly string[]): void {
    for (const json of chunks) this.log.append(Kind.messages, 'messages', json, shortChunk({ id }))
  }

  #frame({ mode, event, json }: Frame): void {
    const text = wellFormedJson(json)
    if (mode !== 'values') this.log.append(Kind[mode], event, text)
    else this.log.appendWhole(Kind.state, event, text)
    if (event === 'values') this.#kept?.shown(text)
  }

  #custom({ name, data }: StreamPart & { type: 'custom' }): void {
    if (name !== undefined) this.#journal.custom(name, data)
    this.log.append(Kind.custom, 'custom', JSON.stringify(data))
  }

  /** Something to keep. */
  record(given: AgentRecord): boolean {
    if (!this.#isOpen) return false
    checkRecord(given)
    const record = this.#timed(wellFormed(given))
    if (this.#kept) return this.#recordKept(record)
    const isReply = record.type === 'llm_response' && record.caller === 'lead_agent'
    if (isReply) this.#show(record.message.id, this.#journal.messages.complete(record.message.id))
    this.#journal.record(record)
    if (isReply) this.#addReply(record.message)
    else if (record.type === 'tool_end') this.#addWhole(record.message)
    else if (record.type === 'messages') this.#state.add(record.messages)
    else if (record.type === 'update') this.#state.set(record.channels)
    else if (record.type === 'interrupt') this.#ask(record.interrupt, record.asked)
    else if (record.type === 'step') this.#state.close(record.node, record.next ?? this.#nextAfter(record.node), 'loop')
    return this.#appended()
  }

  /** The final answer says how long its turn took, in whole seconds: pages show it, and take 0 for an answer that is still coming. */
  #timed(record: AgentRecord): AgentRecord {
    if (record.type !== 'llm_response') return record
    const { caller, message } = record
    if (caller !== 'lead_agent' || message.tool_calls.length > 0) return record
    const turn_duration = Math.max(1, Math.round((performance.now() - this.#begun) / 1000))
    return { ...record, message: { ...message, additional_kwargs: { ...message.additional_kwargs, turn_duration } } }
  }

  /** Frames and state are the agent's own: what is left are events. */
  #recordKept(record: AgentRecord): boolean {
    if (record.type === 'heard') this.#journal.begin(record.message, this.#run.follow_up_to_run_id)
    else if (record.type === 'interrupt') this.#asks = true
    else this.#journal.record(record)
    return this.#appended()
  }

  /** Its deltas went out before; what is missing is that no more will come. */
  #addReply(message: AiMessage): void {
    this.log.append(Kind.messages, 'messages', lastChunkJson(message), shortChunk(message, 'last'))
    this.#state.add([message])
  }

  #addWhole(message: Message): void {
    // Made once: a tool's result may be large.
    const json = JSON.stringify(message)
    this.log.append(Kind.messages, 'messages', wholeJson(message, json), shortWhole(message))
    this.#state.add([message], [json])
  }

  #ask(interrupt: Interrupt, asked?: ToolMessage): void {
    this.#asks = true
    if (asked) this.#addWhole(asked)
    this.#state.ask(interrupt)
  }

  /** Nodes that would go on after a step of this one. */
  #nextAfter(node: string): string[] {
    // The step is not over before it has its answers.
    if (this.#asks) return [node]
    if (node === 'tools') return ['agent']
    return this.#journal.hasOpenCalls ? ['tools'] : []
  }

  // --------------------------------------------------------------------------------------------------- its budget

  /** True: there is space for more. */
  #appended(): boolean {
    this.#feeds.committer.schedule(this, false)
    this.#budget(this.pendingBytes)
    return this.#hasSpace()
  }

  #hasSpace(): boolean {
    const { pendingBytes } = this.#deps.options
    return (pendingBytes === 0 || this.#budgeted < pendingBytes) && this.#feeds.budget.hasSpace
  }

  #budget(bytes: number): void {
    const more = bytes - this.#budgeted
    this.#budgeted = bytes
    if (more !== 0) this.#feeds.budget.add(more)
  }

  /** What is not stored yet, in bytes; of events and checkpoints about. */
  get pendingBytes(): number {
    return this.log.pendingBytes + this.#recordBytes() + (this.#inFlight?.recordBytes ?? 0)
  }

  /** No getter: one that is private costs a call into the engine, and this is asked for every delta. */
  #recordBytes(): number {
    return this.#journal.pendingBytes + this.#state.pendingBytes + (this.#kept?.pendingBytes ?? 0)
  }

  space(): Promise<void> {
    if (!this.#isOpen || this.#hasSpace()) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waitingForSpace.push(resolve)
      this.#feeds.budget.whenSpace(this.#tellSpace)
    })
  }

  readonly #tellSpace = (): void => {
    if (this.#isOpen && !this.#hasSpace()) {
      // Others were told before it, and have taken it again.
      if (this.#waitingForSpace.length > 0) this.#feeds.budget.whenSpace(this.#tellSpace)
      return
    }
    for (const resolve of this.#waitingForSpace.splice(0)) resolve()
  }

  // ------------------------------------------------------------------------------------------------------ the end

  /**
   * Closes the records and makes the run's row. Never throws: whatever an agent has handed over, its run reaches one terminal row
   * [design 4, rule 11]. `wasOpen`: it was the thread's turn, so that the thread ends as the run does.
   */
  close(end: RunEnd, wasOpen: boolean): void {
    this.#settlement = this.#closed(wasOpen, () => {
      if (this.#kept) this.#closeKept(this.#kept, end)
      else if (this.#state.hasBegun) this.#closeState(end)
      else if (end.failure) this.#failToBegin(end.failure)
      this.#tellFailure(end)
      return this.#settlementOf(end, wasOpen)
    })
    this.#ended = endOf(this.#settlement)
    this.#feeds.committer.schedule(this, true)
  }

  /**
   * Closes a run whose records were refused: it fails, and what waited is not written any more. Answers what is to be written, one
   * after the other until the store takes one: the end with the frames that were refused beside other records, or with those that came
   * later, or by itself, for the thread may be gone.
   */
  closeRefused(refused: readonly Op[]): (readonly Op[])[] {
    this.#ops = []
    this.#settlement = null
    this.#state.takeOps()
    this.#journal.takeEvents()
    const settlement = this.#closed(true, () => {
      this.#tellFailure(REFUSED)
      // Its last state may not be there.
      return { ...this.#settlementOf(REFUSED, true), final_checkpoint_id: null }
    })
    this.#ended = endOf(settlement)
    const settle: Op = { name: 'run.settle', ...settlement }
    const frames = refused.filter((op) => op.name === 'frames.append')
    const own = this.#frameOps(this.log.take())
    return [[...frames, ...own, settle], [...own, settle], [settle]]
  }

  /** What could not be stored stays in memory for those who watch now; nobody waits for it any more. */
  giveUpStoring(): void {
    this.log.commit(this.log.head - 1, this.log.pendingBytes)
    this.#budget(0)
  }

  /** The run is another process's: nothing more is written, and nothing counted. */
  abandon(): void {
    this.#isAbandoned = true
    this.#stopHearing()
    this.#budget(0)
  }

  /** Nothing is kept in memory any more. Answers the state that the thread is left in; null: none is stored. */
  release(): SavedState | null {
    const { saved } = this.#state
    this.log.release()
    this.#state.release()
    this.#journal.release()
    return saved
  }

  #stopHearing(): void {
    this.#isOpen = false
    this.#tellSpace()
    this.#tellCommitted(true)
  }

  /** What is kept when the records cannot be closed: that the run has failed. */
  #closed(wasOpen: boolean, close: () => Settlement): Settlement {
    this.#stopHearing()
    try {
      return close()
    } catch (error) {
      const { run_id, thread_id } = this.#run
      this.#deps.log.error({ err: error, run_id, thread_id }, 'the records of a run could not be closed: it fails')
      const failure = failed(error)
      this.#tellFailure(failure)
      return { ...this.#rowOf(failure, wasOpen), ...this.#journal.totals }
    }
  }

  #tellFailure({ failure }: RunEnd): void {
    if (failure) this.log.append(Kind.error, 'error', errorJson(failure.kind, failure.message))
  }

  /**
   * Its state could not be read: there is nothing to go on from, and nothing to add to. What the human said is kept as an event
   * all the same, before the failure [contract 3.5, 4.3].
   */
  #failToBegin({ kind, message }: NonNullable<RunEnd['failure']>): void {
    this.#journal.hear(lastHuman(inputOf(this.#run).messages), this.#run.follow_up_to_run_id)
    this.#journal.fail(kind, message)
  }

  /** Leaves a state that the next run can go on from: whatever was broken off is made whole, or undone. */
  #closeState(end: RunEnd): void {
    if (end.rollback) this.#undo()
    else if (end !== ASKING) this.#keepBroken(end)
    if (!end.rollback) this.#giveTitle()
    if (end.failure) this.#journal.fail(end.failure.kind, end.failure.message)
    else this.#journal.end(end.status)
  }

  /** The state is the agent's: of what it had not written nothing is added, and all of it is taken back with a rollback. */
  #closeKept(kept: KeptState, end: RunEnd): void {
    const { run_id, thread_id } = this.#run
    if (kept.hasBegun && !this.#journal.hasBegun) this.#journal.begin(null, this.#run.follow_up_to_run_id)
    if (end.rollback) this.#ops.push({ name: 'graph.removeRun', thread_id, run_id })
    for (const _ of this.#journal.breakOff(end.status));
    if (end.failure) this.#journal.fail(end.failure.kind, end.failure.message)
    else this.#journal.end(end.status)
  }

  #undo(): void {
    this.#journal.breakOff('interrupted')
    this.#state.rollBack()
  }

  /**
   * Keeps the part of an answer that came, valid for every model server: fragments of calls are marked as invalid, calls without
   * a result are answered. Otherwise every later run of the thread would be refused.
   */
  #keepBroken(end: RunEnd): void {
    const reason = end.status === 'success' ? 'stop' : end.status
    for (const message of this.#journal.breakOff(reason)) {
      if (message.type === 'ai') this.#addReply(message)
      else this.#addWhole(message)
    }
    this.#state.unask()
    if (this.#state.state.hasFresh) this.#state.close('agent', [], 'loop')
  }

  #giveTitle(): void {
    const { title } = this.#deps.options
    const { state } = this.#state
    if (!title.enabled || displayName(state.channel('title')) !== null) return
    const made = titleOf(state.messages(), title)
    if (made === null) return
    this.#state.set({ title: made })
    // A run that waits for its user goes on where it was.
    this.#state.close('title', this.#asks ? this.#state.next : [], 'loop')
  }

  #settlementOf(end: RunEnd, wasOpen: boolean): Settlement {
    return {
      ...this.#rowOf(end, wasOpen),
      title: this.#kept ? this.#kept.title(this.#deps.options.title) : displayName(this.#state.state.channel('title')),
      // Last: members behind a spread are added one by one, which costs more than all the rest of an end.
      ...this.#journal.totals
    }
  }

  #rowOf(end: RunEnd, wasOpen: boolean): Omit<Settlement, keyof RunTotals> {
    return rowOf(this.#run, end, wasOpen, {
      model_name: this.#journal.modelName,
      last_cursor: this.log.lastCursor,
      final_checkpoint_id: (this.#kept ?? this.#state).checkpointId,
      first_human_message: this.#journal.firstHumanMessage,
      last_ai_message: this.#journal.lastAiMessage
    })
  }

  // -------------------------------------------------------------------------------------------------- to the disk

  /** All that there is, to be written together; null: there is nothing. */
  take(): Group | null {
    if (this.#isAbandoned) return null
    const { thread_id, run_id, user_id } = this.#run
    const recordBytes = this.#recordBytes()
    const ops = [...this.#ops, ...this.#state.takeOps()]
    this.#ops = []
    this.#kept?.taken()
    const events = this.#journal.takeEvents()
    if (events.length) ops.push({ name: 'events.append', thread_id, run_id, user_id, events })
    const segments = this.log.take()
    ops.push(...this.#frameOps(segments))
    const settlement = this.#settlement
    this.#settlement = null
    if (settlement) ops.push({ name: 'run.settle', ...settlement })
    if (ops.length === 0) return null
    const bytes = segments.reduce((sum, segment) => sum + segment.data.length, 0)
    this.#inFlight = { ops, last: segments.at(-1)?.last ?? null, bytes, recordBytes, settles: settlement !== null }
    const { owner } = this.#deps
    return { ops, ...(owner !== undefined && { owner }) }
  }

  #frameOps(segments: ReturnType<RunLog['take']>): Op[] {
    const { key, thread_id } = this.#run
    return segments.map((segment) => ({ name: 'frames.append', run_key: key, thread_id, segment }))
  }

  committed(outcome: Outcome): void {
    const batch = this.#inFlight
    this.#inFlight = null
    if (!outcome.ok) return this.#feeds.onRefused(outcome.message, batch?.ops ?? [])
    if (!batch || this.#isAbandoned) return
    if (batch.last !== null) this.log.commit(batch.last, batch.bytes)
    this.#budget(batch.settles ? 0 : this.pendingBytes)
    this.#tellSpace()
    this.#tellCommitted(false)
    this.#feeds.onStored(batch.settles)
  }

  /** The run as its row stands when its end is stored: for those who are told how it has ended. */
  get endedRow(): Run {
    return { ...this.#run, ...this.#ended }
  }

  // ------------------------------------------------------------------------------------------------------ readers

  /** How the run stands; `before`: the state that it goes on from, if it has not begun. */
  snapshot(before: string | null): Snapshot {
    const { hasBegun, state } = this.#state
    const values = this.#kept ? this.#kept.json : hasBegun ? state.json() : before
    const { epoch, head } = this.log
    return snapshotOf(this.#run, { values, partial: this.#journal.messages.chunks(), epoch, n: head - 1 })
  }
}

/** The journal of a run whose process is gone, for the attempt that goes on with it. */
export async function journalOf({ thread_id, run_id }: Run, store: Store, options: JournalOptions): Promise<Journal> {
  const events = await store.events.listEvents(thread_id, run_id, { limit: Number.MAX_SAFE_INTEGER }, null)
  return Journal.resumed(options, events, await store.events.lastK(thread_id, run_id))
}

/** The end of a run of which nothing can be read: its log stops where it is. */
export function bareEnd(run: Run, end: RunEnd): Op {
  const { last_cursor, final_checkpoint_id } = run
  const nothing = { model_name: null, first_human_message: null, last_ai_message: null }
  const row = rowOf(run, end, run.status !== 'pending', { ...nothing, last_cursor, final_checkpoint_id })
  return { name: 'run.settle', ...row, ...NO_TOTALS }
}

/** A run that only waited leaves the thread alone: another one may be running. */
function rowOf(
  { run_id, thread_id }: Run,
  end: RunEnd,
  wasOpen: boolean,
  known: Pick<
    Settlement,
    'model_name' | 'last_cursor' | 'final_checkpoint_id' | 'first_human_message' | 'last_ai_message'
  >
): Omit<Settlement, keyof RunTotals> {
  return {
    run_id,
    thread_id,
    status: end.status,
    thread_status: wasOpen ? threadStatusAfter(end) : null,
    title: null,
    error: end.error,
    stop_reason: end.stopReason,
    ...known,
    now: timestamp()
  }
}

function endOf(settlement: Settlement | null): Partial<Run> {
  if (!settlement) return {}
  const { status, error, stop_reason, last_cursor, final_checkpoint_id, now } = settlement
  return { status, error, stop_reason, last_cursor, final_checkpoint_id, updated_at: now }
}
