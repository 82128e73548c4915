// The recorder of a run: turns what the agent emits into frames for readers, events for the history, and the state the next run starts
// from. Whatever ends the run, the recorder closes all three; the committer takes from it what is to be stored.
//
// From `emit` to the log there is no await. Until the committer takes them, records stay where they were made: frames in their slabs,
// events in the journal, checkpoints with the state.
import { checkPart, checkRecord } from '../agent/check.ts'
import type { AgentInput, AgentRecord, Sink, StateWrite, StreamPart } from '../agent/runtime.ts'
import type { Group, Op, Outcome, Segment, Settlement, Store } from '../store/store.ts'
import type { TitleOptions } from '../thread/title.ts'
import type { JsonObject, Run } from '../base/types.ts'
import { wellFormed, wellFormedJson } from '../base/json.ts'
import { agentInput, startOf } from './run-kwargs.ts'
import { closed, closeRefused, endedRow, type RunRecords } from './closing.ts'
import { CommitWaits } from './commit-waits.ts'
import type { Source } from './commit/ports.ts'
import type { Committer } from './commit/committer.ts'
import { BudgetShare, PendingBudget } from './commit/pending-budget.ts'
import { Journal, type JournalOptions } from './log/journal.ts'
import { readJournal } from './log/rebuild-partial.ts'
import type { Scheduler } from './log/log-reader.ts'
import { type LogOptions, RunLog } from './log/run-log.ts'
import { type Snapshot, snapshotOf } from './log/snapshot.ts'
import { ShownLog } from './log/shown-log.ts'
import { type LogBounds, Kind } from './log/frame.ts'
import type { SavedState } from '../thread/state.ts'
import type { LogStore } from './log/stored-frames.ts'
import type { RunEnd } from './run-end.ts'
import type { RunState, RunStates, StateBefore, StateRecords } from './run-state.ts'

export interface RecorderOptions extends LogOptions, JournalOptions {
  /** Bytes of unstored frames, events and checkpoints above which the agent pauses; 0: no limit. */
  readonly pendingBytes: number
  readonly recursionLimit: number
  readonly title: TitleOptions
}

interface RecorderDeps {
  readonly options: RecorderOptions
  /** The process that owns the run, where there is more than one [Store 10]. */
  readonly owner?: string | undefined
  readonly states: RunStates
  readonly log: { error(fields: object, text: string): void }
}

/** What a run of this process needs besides. */
export interface LiveDeps extends RecorderDeps {
  readonly store: LogStore
  readonly ticker: Scheduler
  readonly committer: Pick<Committer, 'schedule'>
  readonly budget: PendingBudget
}

/** Callbacks about the outcome of records. */
export interface RecorderEvents {
  /** Records were stored, the run's end not yet. Absent: nobody waits for that. */
  readonly onStored?: (() => void) | undefined
  /** The run's end was stored. */
  onEnd(): void
  /** The store has refused these records for good; none: they could not even be taken. */
  onRefused(message: string, ops: readonly Op[]): void
}

type Feeds = Pick<LiveDeps, 'committer' | 'budget'> & { readonly events: RecorderEvents }

/** For a run that is only closed: the caller takes the records and writes them. */
const NOBODY: Feeds = {
  committer: { schedule: () => {} },
  budget: new PendingBudget(0, { isLate: false }),
  events: { onEnd: () => {}, onRefused: () => {} }
}

/** Records the committer has taken, not answered yet. */
interface InFlightBatch {
  readonly ops: readonly Op[]
  /** n of the last frame; null: no frames. */
  readonly last: number | null
  /** Its bytes, about. */
  readonly bytes: number
  /** It contains the run's end. */
  readonly settles: boolean
}

/** Ops that the committer has not taken yet. */
interface PendingOps {
  ops: Op[]
}

function recordsOf(run: Run, log: RunLog, journal: Journal, pending: PendingOps): StateRecords {
  journal.unstored = log.unstored
  return { run, log, journal, put: (op) => void pending.ops.push(op) }
}

export class Recorder implements Source {
  isWaiting = false
  /** The log readers see. */
  readonly log: RunLog
  /** The state that the run builds, or its graph. */
  readonly state: RunState
  /** Its row at its end, once decided, for webhooks and waiters. Not the settlement, whose texts would keep the whole conversation in memory. */
  endedRow: Run
  readonly #run: Run
  readonly #journal: Journal
  /** What the agent shows itself. */
  readonly #shown: ShownLog
  /** All of these, for what is done once per run. */
  readonly #records: RunRecords
  readonly #deps: RecorderDeps
  readonly #feeds: Feeds
  /** Accepting the agent's records. */
  #isOpen = false
  #isAbandoned = false
  #begun = performance.now()
  /** Events and frames are added when taken. */
  readonly #pending: PendingOps
  #settlement: Settlement | null = null
  /** See Sink.reached; null: as it was stored. */
  #offset: JsonObject | null = null
  /** What was handed to the store, about, without frames. */
  #storedBytes = 0
  #inFlight: InFlightBatch | null = null
  readonly #share: BudgetShare
  /** null: nobody has waited. */
  #waits: CommitWaits | null = null

  private constructor(records: RunRecords, pending: PendingOps, deps: RecorderDeps, feeds: Feeds) {
    const { run, log, journal, state } = records
    this.#run = run
    this.endedRow = run
    this.log = log
    this.#journal = journal
    this.state = state
    this.#records = records
    this.#pending = pending
    this.#shown = new ShownLog(run, log, (op) => void pending.ops.push(op))
    this.#share = new BudgetShare(feeds.budget, deps.options.pendingBytes)
    this.#deps = deps
    this.#feeds = feeds
  }

  /** For a run of this process. `past`: what is already stored of its log, when an earlier process admitted it. */
  static begin(run: Run, deps: LiveDeps, events: RecorderEvents, past?: LogBounds, journal?: Journal): Recorder {
    const { store, options, states, ticker, committer, budget } = deps
    const log = RunLog.begin(run, store, options, past, ticker)
    const feeds = { committer, budget, events }
    const pending: PendingOps = { ops: [] }
    const records = recordsOf(run, log, journal ?? new Journal(options), pending)
    const recorder = new Recorder({ ...records, state: states.of(records) }, pending, deps, feeds)
    const about = { run_id: run.run_id, thread_id: run.thread_id, attempt: log.attempts }
    log.append(Kind.metadata, 'metadata', JSON.stringify(about))
    committer.schedule(recorder, false)
    return recorder
  }

  /** For a run whose process is gone, from all that is stored of it: to be closed, under a new epoch. */
  static async resumed(run: Run, past: LogBounds, store: Store, deps: RecorderDeps): Promise<Recorder> {
    const { options, states } = deps
    const { journal, events } = await readJournal(run, store, options)
    const pending: PendingOps = { ops: [] }
    const log = RunLog.begin(run, { frames: store.frames, states }, options, past)
    const records = recordsOf(run, log, journal, pending)
    const state = await states.resumed(records, store, past.head, events)
    return new Recorder({ ...records, state }, pending, deps, NOBODY)
  }

  get modelName(): string | null {
    return this.#journal.modelName ?? this.#run.model_name
  }

  // ---------------------------------------------------------------------------------------- the agent's output

  /**
   * Starts from a stored state and the run's input: from now on the agent's records are accepted. `attempt`: how often the run
   * was begun, with this time.
   */
  begin(before: StateBefore, attempt = 1): void {
    this.#pending.ops.push(startOf(this.#run, attempt))
    this.#begun = performance.now()
    if (attempt > this.#run.attempts) this.log.beginUncounted()
    this.state.begin(before)
    if (this.#journal.hasBegun && this.log.attempts > 1) this.#journal.beginAttempt(this.log.attempts)
    this.#isOpen = true
    this.#appended()
    this.#feeds.committer.schedule(this, true)
  }

  input(): AgentInput {
    return agentInput(this.#records, this.#deps.options.recursionLimit)
  }

  /** The agent's sink. */
  sink(): Sink {
    return {
      emit: (part) => this.emit(part),
      record: (record) => this.record(record),
      space: () => this.#share.space(),
      keep: (write) => this.#keep(write),
      flushed: () => this.flushed(),
      reached: (offset) => this.#reached(offset)
    }
  }

  #keep(write: StateWrite): void {
    if (!this.#isOpen) return
    this.state.keep(write)
    if (write.name === 'graph.open') this.#shown.open(write.checkpoint)
    else this.#appended()
  }

  #reached(offset: JsonObject): void {
    if (!this.#isOpen) return
    this.#offset = offset
    this.#feeds.committer.schedule(this, false)
  }

  /** Everything so far is stored, or will never be. */
  flushed(): Promise<void> {
    if (!this.#isOpen || this.pendingBytes + this.#pending.ops.length === 0) return Promise.resolve()
    this.#feeds.committer.schedule(this, true)
    this.#waits ??= new CommitWaits()
    return this.#waits.after(this.#inFlight ? 2 : 1)
  }

  /** A part to show. On the live path: encoded once, for every reader and for the disk. */
  emit(part: StreamPart): boolean {
    if (!this.#isOpen) return false
    checkPart(part)
    const { messages } = this.#journal
    if (part.type === 'delta') messages.appendTo(this.log, part.messageId, messages.add(part))
    else if (part.type === 'frame') this.#shown.frame(part, this.state)
    else this.#custom(wellFormed(part))
    return this.#appended()
  }

  #custom({ name, data }: StreamPart & { type: 'custom' }): void {
    if (name !== undefined) this.#journal.custom(name, data)
    this.log.append(Kind.custom, 'custom', JSON.stringify(data))
  }

  /** A record to keep. */
  record(given: AgentRecord): boolean {
    if (!this.#isOpen) return false
    checkRecord(given)
    this.state.record(this.#timed(wellFormed(given)))
    return this.#appended()
  }

  /** The final answer carries its duration in whole seconds: pages show it, and take 0 for an answer still in progress. */
  #timed(record: AgentRecord): AgentRecord {
    if (record.type !== 'llm_response') return record
    const { caller, message } = record
    if (caller !== 'lead_agent' || message.tool_calls.length > 0) return record
    const turn_duration = Math.max(1, Math.round((performance.now() - this.#begun) / 1000))
    return { ...record, message: { ...message, additional_kwargs: { ...message.additional_kwargs, turn_duration } } }
  }

  // --------------------------------------------------------------------------------------------------- its budget

  /** True: there is space for more. */
  #appended(): boolean {
    this.#feeds.committer.schedule(this, false)
    return this.#share.use(this.log.unstored.bytes)
  }

  /** Unstored bytes; events and checkpoints are estimated. */
  get pendingBytes(): number {
    return this.log.unstored.bytes
  }

  // ------------------------------------------------------------------------------------------------------ the end

  /**
   * Closes the records and makes the run's row. Never throws: whatever the agent did, its run reaches one terminal row
   * [design 4, rule 11]. `wasOpen`: it was the thread's active run, so the thread's status follows it.
   */
  close(end: RunEnd, wasOpen: boolean): void {
    const { title } = this.#deps.options
    this.#stopHearing()
    this.#settlement = closed(this.#records, end, wasOpen, title, this.#deps.log)
    this.endedRow = endedRow(this.#run, this.#settlement)
    this.#feeds.committer.schedule(this, true)
  }

  /**
   * Closes a run whose records were refused: it fails, and its pending records are dropped. Returns what to try
   * writing, one after the other until the store accepts one: the end with the frames refused along with other records,
   * or with later frames, or alone, because the thread may be gone.
   */
  closeRefused(refused: readonly Op[]): (readonly Op[])[] {
    this.#pending.ops = []
    this.#settlement = null
    this.#journal.takeEvents()
    this.#stopHearing()
    const { settlement, attempts } = closeRefused(this.#records, this.#deps.options.title, this.#deps.log)
    this.endedRow = endedRow(this.#run, settlement)
    const own: Op[] = []
    this.#addFrames(this.log.take(), own)
    return attempts(refused, own)
  }

  /** Unstored frames stay in memory for current readers; nobody waits for them to be stored. */
  giveUpStoring(): void {
    this.log.commit(this.log.head - 1, this.log.unstored.bytes)
    this.#share.use(0)
  }

  /** Takes nothing more of the agent. Resolves when everything so far is stored; then it is abandoned. */
  async leave(): Promise<void> {
    const stored = this.flushed()
    this.#isOpen = false
    await stored
  }

  /** The run belongs to another process: nothing more is written or counted. */
  abandon(): void {
    this.#isAbandoned = true
    this.#stopHearing()
    this.#share.use(0)
  }

  /** Drops everything from memory. Returns the state the thread is left in; null: none is stored. */
  release(): SavedState | null {
    this.log.release()
    this.#journal.release()
    this.#shown.release()
    return this.state.release()
  }

  #stopHearing(): void {
    this.#isOpen = false
    this.#offset = null
    this.#share.close()
    this.#waits?.end()
  }

  // -------------------------------------------------------------------------------------------------- to the disk

  /** Everything pending, to be written together; null: nothing. */
  take(): Group | null {
    if (this.#isAbandoned) return null
    const { thread_id, run_id, user_id } = this.#run
    // Nothing of it is in flight: the committer takes when it has answered.
    if (this.#offset) this.log.append(Kind.offset, 'offset', wellFormedJson(JSON.stringify(this.#offset)))
    this.#offset = null
    const { bytes } = this.log.unstored
    const { ops } = this.#pending
    this.#pending.ops = []
    const events = this.#journal.takeEvents()
    if (events.length) ops.push({ name: 'events.append', thread_id, run_id, user_id, events })
    const segments = this.log.take()
    const frameBytes = this.#addFrames(segments, ops)
    const settlement = this.#settlement
    this.#settlement = null
    this.#storedBytes += Math.max(0, Math.round(bytes) - frameBytes)
    if (settlement) ops.push({ name: 'run.settle', ...settlement, stored_bytes: this.#storedBytes })
    if (ops.length === 0) {
      // What was in flight when somebody began to wait was all there was.
      this.#waits?.end()
      return null
    }
    this.#inFlight = { ops, last: segments.at(-1)?.last ?? null, bytes, settles: settlement !== null }
    const { owner } = this.#deps
    return { ops, ...(owner !== undefined && { owner }) }
  }

  /** Returns the bytes of the frames. */
  #addFrames(segments: readonly Segment[], ops: Op[]): number {
    const { key, thread_id } = this.#run
    let bytes = 0
    for (const segment of segments) {
      bytes += segment.data.length
      ops.push({ name: 'frames.append', run_key: key, thread_id, segment })
    }
    return bytes
  }

  committed(outcome: Outcome): void {
    const batch = this.#inFlight
    this.#inFlight = null
    if (!outcome.ok) return this.#feeds.events.onRefused(outcome.message, batch?.ops ?? [])
    if (!batch || this.#isAbandoned) return
    if (batch.last === null) this.log.unstored.bytes -= batch.bytes
    else this.log.commit(batch.last, batch.bytes)
    this.#share.use(batch.settles ? 0 : this.log.unstored.bytes)
    this.#waits?.committed()
    if (batch.settles) this.#feeds.events.onEnd()
    else this.#feeds.events.onStored?.()
  }

  // ------------------------------------------------------------------------------------------------------ readers

  /** Snapshot of the run; `before`: the state it starts from, if it has not begun. */
  snapshot(before: string | null): Snapshot {
    const { epoch, head } = this.log
    const partial = this.#journal.messages.chunks()
    return snapshotOf(this.#run, { values: this.state.json ?? before, partial, epoch, n: head - 1 })
  }
}
