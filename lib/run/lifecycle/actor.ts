// The live half of a run: owns its frame log, its joiners and its journal, and takes it from pending to its end.
//
// Phases: `pending` (stored, waits for its turn in the thread) -> `open` (the agent works) -> `settling` (the end is decided, and
// being written) -> `closed` (the end is stored; joiners are told). Whatever ends a run, success, failure, cancel or shutdown,
// goes through `#settle`, which leaves `pending` or `open` exactly once: that is why there is one terminal status, ever.
//
// From `emit` to the log there is no await, and nothing here waits for a joiner.
import { checkPart, checkRecord } from '../../agent/check.ts'
import { type Agent, AgentError, type Sink } from '../../agent/runtime.ts'
import { withoutUser } from '../../scope.ts'
import type { Group, Op, Outcome, Settlement } from '../../store/store.ts'
import type { TitleOptions } from '../../thread/title.ts'
import { type Run, timestamp } from '../../types.ts'
import { wellFormed } from '../../well-formed.ts'
import { Account } from './account.ts'
import type { Committer, Source } from '../commit/committer.ts'
import { ASKING, type CancelAction, cancelled, type RunEnd, failed, SUCCESS, timedOut } from './run-end.ts'
import { extraKinds, Kind } from '../log/filter.ts'
import { DisconnectTimer } from './disconnect-timer.ts'
import { Handover } from './handover.ts'
import type { PendingBudget } from '../commit/pending-budget.ts'
import { Journal } from '../log/journal.ts'
import { RunLog, type Scheduler } from '../log/run-log.ts'
import type { Snapshot } from '../log/snapshot.ts'
import type { LogBounds, Position } from '../log/sse.ts'
import { StateBuilder } from '../log/state-builder.ts'
import type { SavedState, StateCache } from '../log/state-cache.ts'
import type { LogStore } from '../log/stored-frames.ts'
import { untilRead } from './retry.ts'
import { baseOf, modesOf } from '../run-kwargs.ts'

export type Phase = 'pending' | 'open' | 'settling' | 'closed'

export interface ActorOptions {
  /** Stored frames that stay in memory, in bytes. */
  readonly windowBytes: number
  /** Frames, events and checkpoints that are not stored yet, in bytes, above which the agent pauses. */
  readonly pendingBytes: number
  /** Bytes of one frame on the wire; a larger one is cut there and kept whole; 0: no limit. */
  readonly eventBytes: number
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
  readonly states: StateCache
  readonly committer: Committer
  readonly budget: PendingBudget
  readonly ticker: Scheduler
  readonly agent: Agent
  readonly options: ActorOptions
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void }
  /** In whose name the run is written, where there is more than one process [Store 10]. */
  readonly owner?: string | undefined
  /** Something of the run was committed; it has ended with it, or not. */
  readonly onStored?: (runId: string, isOver: boolean) => void
  /** Whether it has readers on another process. */
  readonly isFollowed?: (runId: string) => boolean
}

/** What agents are told at the end. One for all runs: the stack of one of its own says nothing, and is dear. */
const RUN_IS_OVER = new DOMException('The run is over', 'AbortError')

export class RunActor implements Source {
  readonly run: Run
  isWaiting = false
  readonly #deps: ActorDeps
  /** What readers see of it. */
  readonly log: RunLog
  readonly #journal: Journal
  readonly #abort = new AbortController()
  #phase: Phase = 'pending'

  readonly #steps: StateBuilder
  readonly #account: Account
  readonly #handover: Handover
  readonly #disconnect: DisconnectTimer
  /** What of the process's budget is this run's. */
  #budgeted = 0
  #waitingForSpace: (() => void)[] = []

  #settleTimer: NodeJS.Timeout | null = null
  /** Who waits for the end to be stored, but not for ever. */
  #waitingForEnd: ((isStored: boolean) => void)[] = []
  #runTimer: NodeJS.Timeout | null = null
  /** The run is another process's. */
  #isAbandoned = false
  /** The store has refused some of its records. */
  #hasLost = false
  #course: Promise<void> | null = null
  /** Resolves when the end is stored. */
  readonly closed: Promise<void>
  #resolveClosed: () => void = () => {}

  /** `past`: what is stored of the run's log already, when an earlier process had admitted it. */
  constructor(run: Run, deps: ActorDeps, past?: LogBounds) {
    this.run = run
    this.#deps = deps
    this.log = RunLog.begin(run, deps.store, deps.options, past, deps.ticker)
    this.#journal = new Journal(deps.options)
    this.#steps = new StateBuilder(run, this.log, extraKinds(modesOf(run)))
    const sources = { frames: this.log, journal: this.#journal, steps: this.#steps }
    this.#account = new Account(run, sources, deps.options)
    this.#handover = new Handover(run, sources, deps.owner)
    this.#disconnect = new DisconnectTimer(run, deps.options.disconnectGraceMs, () => {
      if (!this.isWatched) this.cancel('interrupt', 'disconnected')
    })
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    const about = { run_id: run.run_id, thread_id: run.thread_id, attempt: this.log.attempts }
    this.log.append(Kind.metadata, 'metadata', JSON.stringify(about))
    deps.committer.schedule(this, false)
  }

  get phase(): Phase {
    return this.#phase
  }
  /** Of its frames; undefined: not all of them are in memory. */
  get bytes(): number | undefined {
    return this.log.wholeBytes
  }

  /** Somebody reads it, here or on another process. */
  get isWatched(): boolean {
    return this.log.readers > 0 || this.#deps.isFollowed?.(this.run.run_id) === true
  }

  // ---------------------------------------------------------------------------------------- the run's course

  /** Takes the run from pending to its end. Resolves when that is stored and the agent has let go; never rejects. */
  start(): Promise<void> {
    if (this.#phase !== 'pending') return this.finished
    this.#course = this.#go()
    return this.#course
  }

  /**
   * Resolves when the run's end is stored and its agent has let go: later than `closed` when that does not listen to its signal.
   * Nothing is done in the run's name any more.
   */
  get finished(): Promise<void> {
    return this.#course ?? this.closed
  }

  async #go(): Promise<void> {
    this.#phase = 'open'
    this.#armTimeout()
    try {
      const base = baseOf(this.run)
      const saved = await untilRead(
        () => this.#savedState(base),
        () => !this.#isOpen()
      )
      if (base !== null && !saved) throw new AgentError('CheckpointNotFound', `Checkpoint ${base} not found`)
      // The ONLY await before the agent: whoever cancelled meanwhile has settled the run.
      if (this.#isOpen()) await this.#work(saved)
      this.#settle(this.#account.isAsking ? ASKING : SUCCESS)
    } catch (error) {
      this.#failed(error)
    }
    return this.closed
  }

  #savedState(base: string | null): Promise<SavedState | null> {
    const { states } = this.#deps
    return base === null ? states.newest(this.run.thread_id) : states.at(this.run.thread_id, base)
  }

  async #work(saved: SavedState | null): Promise<void> {
    const { run } = this
    this.#handover.add({ name: 'run.start', run_id: run.run_id, thread_id: run.thread_id, now: timestamp() })
    this.#account.begin(saved)
    this.#appended()
    this.#deps.committer.schedule(this, true)
    await this.#deps.agent.start(this.#account.input(), this.#sink(), this.#abort.signal)
  }

  #isOpen(): boolean {
    return this.#phase === 'open'
  }

  #armTimeout(): void {
    const { timeoutMs } = this.#deps.options
    if (timeoutMs === 0) return
    this.#runTimer = setTimeout(() => this.#settle(timedOut(timeoutMs)), timeoutMs)
  }

  #failed(error: unknown): void {
    this.#settle(failed(error), error)
  }

  /**
   * Cancels the run, wherever it is before its end. False: it has ended already, or is just being written.
   * `stopReason` tells who did it when it was not a user.
   */
  cancel(action: CancelAction, stopReason: string | null = null): boolean {
    return this.#settle(cancelled(action, stopReason))
  }

  // ------------------------------------------------------------------------------------------- what the agent tells

  #sink(): Sink {
    return {
      emit: (piece) => {
        if (!this.#isOpen()) return false
        checkPart(piece)
        this.#account.emit(piece.type === 'custom' ? wellFormed(piece) : piece)
        return this.#appended()
      },
      record: (fact) => {
        if (!this.#isOpen()) return false
        checkRecord(fact)
        this.#account.record(wellFormed(fact))
        return this.#appended()
      },
      space: () => this.#space()
    }
  }

  /** True: there is space for more. */
  #appended(): boolean {
    this.#deps.committer.schedule(this, false)
    this.#budget(this.pendingBytes)
    return this.#hasSpace()
  }

  #hasSpace(): boolean {
    const { options, budget } = this.#deps
    return (options.pendingBytes === 0 || this.#budgeted < options.pendingBytes) && budget.hasSpace
  }

  /** What is not stored yet, in bytes; of events and checkpoints about. */
  get pendingBytes(): number {
    return this.#handover.pendingBytes
  }

  #budget(bytes: number): void {
    const more = bytes - this.#budgeted
    this.#budgeted = bytes
    if (more !== 0) this.#deps.budget.add(more)
  }

  #space(): Promise<void> {
    if (!this.#isOpen() || this.#hasSpace()) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waitingForSpace.push(resolve)
      this.#deps.budget.whenSpace(this.#tellSpace)
    })
  }

  readonly #tellSpace = (): void => {
    if (this.#isOpen() && !this.#hasSpace()) {
      // Others were told before it, and have taken it again.
      if (this.#waitingForSpace.length > 0) this.#deps.budget.whenSpace(this.#tellSpace)
      return
    }
    for (const resolve of this.#waitingForSpace.splice(0)) resolve()
  }

  // ------------------------------------------------------------------------------------------------ the end

  /** Who ends a run need not be who started it: the agent hears of it as nobody. */
  #stopAgent(): void {
    withoutUser(() => this.#abort.abort(RUN_IS_OVER))
  }

  /**
   * Decides the end. False: it is decided already. Never throws: whatever an agent has handed over, its run reaches one terminal
   * row, and who ends it (a request, a timer, a signal) hears nothing of what is broken [design 4, rule 11].
   */
  #settle(ending: RunEnd, cause?: unknown): boolean {
    if (this.#phase === 'settling' || this.#phase === 'closed') return false
    const wasOpen = this.#phase === 'open'
    this.#phase = 'settling'
    if (ending.failure) this.#logFailure(ending.status, ending.failure, cause)
    this.#stopAgent()
    this.#clearTimers()
    this.#tellSpace()
    this.#handover.settle(this.#closeAccount(wasOpen, () => this.#account.close(ending, wasOpen)))
    this.#deps.committer.schedule(this, true)
    this.#armSettleTimeout()
    return true
  }

  /** One line a run. An agent's words are a warning; what nobody expected is an error, with its stack. */
  #logFailure(status: string, { kind, message }: NonNullable<RunEnd['failure']>, cause: unknown): void {
    const { run_id, thread_id, user_id, model_name } = this.run
    const about = { run_id, thread_id, user_id, model: this.#journal.modelName ?? model_name, status }
    const isExpected = cause === undefined || cause instanceof AgentError
    if (isExpected) this.#deps.log.warn({ ...about, error_type: kind, error: message }, 'a run has failed')
    else this.#deps.log.error({ ...about, err: cause }, 'a run has failed')
  }

  /** What is kept when the records cannot be closed: that the run has failed. */
  #closeAccount(wasOpen: boolean, close: () => Settlement): Settlement {
    try {
      return close()
    } catch (error) {
      const { run_id, thread_id } = this.run
      this.#deps.log.error({ err: error, run_id, thread_id }, 'the records of a run could not be closed: it fails')
      return this.#account.closeBroken(failed(error), wasOpen)
    }
  }

  /**
   * The store does not take the end: nobody is told an end that may still get lost. The committer keeps trying, and who comes
   * back meanwhile waits no longer than the others did.
   */
  #giveUpWaiting(): void {
    if (this.log.readers > 0)
      this.#deps.log.error(
        { run_id: this.run.run_id },
        'the end of a run could not be stored in time: its streams are reset'
      )
    this.log.resetReaders()
    this.#tellEnd(false)
    this.#armSettleTimeout()
  }

  /** Resolves when the end is stored, with true; with false when it could not be stored in time. */
  settled(): Promise<boolean> {
    if (this.#phase === 'closed') return Promise.resolve(!this.#isAbandoned)
    return new Promise((resolve) => this.#waitingForEnd.push(resolve))
  }

  #tellEnd(isStored: boolean): void {
    for (const resolve of this.#waitingForEnd.splice(0)) resolve(isStored)
  }

  #armSettleTimeout(): void {
    this.#settleTimer = setTimeout(() => this.#giveUpWaiting(), this.#deps.options.settleTimeoutMs)
  }

  /**
   * The lease of this process was lost: the run is another process's, which ends it. Its agent stops, its readers come back to
   * where it is, and nothing of it is written any more.
   */
  abandon(): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#isAbandoned = true
    this.#budget(0)
    this.#stopAgent()
    this.#clearTimers()
    if (this.#settleTimer) clearTimeout(this.#settleTimer)
    this.#tellSpace()
    this.log.resetReaders()
    this.#resolveClosed()
    this.#tellEnd(false)
  }

  #close(): void {
    if (this.#isAbandoned) return
    this.#phase = 'closed'
    this.#budget(0)
    this.#deps.onStored?.(this.run.run_id, true)
    if (this.#settleTimer) clearTimeout(this.#settleTimer)
    this.log.close()
    this.#resolveClosed()
    this.#tellEnd(true)
  }

  /**
   * Nobody finds it any more. What its readers have not taken yet is in the store, and read from there: with one that stalls a run
   * that is over would else stay whole in memory, its state included. What could not be stored does stay.
   */
  release(): void {
    if (this.#hasLost) return
    const { saved } = this.#steps
    if (saved) this.#deps.states.left(this.run.thread_id, saved)
    this.log.release()
    this.#steps.release()
    this.#journal.release()
  }

  #clearTimers(): void {
    if (this.#runTimer) clearTimeout(this.#runTimer)
    this.#disconnect.stop()
  }

  // ------------------------------------------------------------------------------------------------ to the disk

  take(): Group | null {
    return this.#isAbandoned ? null : this.#handover.take()
  }

  committed(outcome: Outcome): void {
    const flight = this.#handover.acknowledge()
    if (!outcome.ok) {
      // Without a flight: the records could not even be taken.
      if (this.#phase !== 'closed') this.#refused(outcome.message, flight?.ops ?? [])
      return
    }
    if (!flight) return
    if (flight.last !== null) this.log.commit(flight.last, flight.bytes)
    this.#budget(this.pendingBytes)
    this.#tellSpace()
    if (flight.settles) this.#close()
    else this.#deps.onStored?.(this.run.run_id, false)
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
    this.#hasLost = true
    this.#stopAgent()
    this.#clearTimers()
    this.#tellSpace()
    if (!this.#settleTimer) this.#armSettleTimeout()
    this.#handover.drop()
    const settlement = this.#closeAccount(true, () => this.#account.refuse())
    void this.#settleAlone(framesIn(ops), { name: 'run.settle', ...settlement })
  }

  /** Writes the end with the frames that were refused beside other records, or with its own, or by itself: the thread may be gone. */
  async #settleAlone(refused: readonly Op[], settle: Op): Promise<void> {
    const own = this.#handover.takeFrames()
    for (const ops of [[...refused, ...own, settle], [...own, settle], [settle]]) {
      const isWritten = await this.#deps.committer.writeAll(ops, 'endless', this.#deps.owner).then(
        () => true,
        () => false
      )
      if (isWritten) break
    }
    // What could not be stored stays in memory for those who watch now; nobody waits for it any more.
    this.log.commit(this.log.head - 1, this.log.pendingBytes)
    this.#close()
  }

  // ---------------------------------------------------------------------------------------------------- readers

  /**
   * Where a reader begins that has seen all up to `position`: behind that, or with a snapshot if it has seen nothing. The state of a
   * run that has not begun is that of its thread, and the only await: nothing can come between a state and its position.
   */
  async snapshotFor(position: Position): Promise<Position | Snapshot> {
    if (this.log.place(position) !== 0) return position
    const before = this.#steps.hasBegun ? null : await this.log.valuesStored(baseOf(this.run))
    return this.#account.snapshot(before)
  }

  /**
   * A creating request is gone. With on_disconnect cancel the run ends after a grace, unless somebody watches it then.
   */
  creatorLeft(): void {
    if (this.#phase === 'pending' || this.#phase === 'open') this.#disconnect.left()
  }

  /** It is back: the grace counts from its next departure. */
  creatorCame(): void {
    this.#disconnect.stop()
  }

  /** The process ends: whose creator goes away now goes on in the next one. */
  forgetCreator(): void {
    this.#disconnect.forget()
  }
}

function framesIn(ops: readonly Op[]): Op[] {
  return ops.filter((op) => op.name === 'frames.append')
}

/** A refused op for the log file: frames as the text they are. */
function loggable(op: Op): object {
  if (op.name !== 'frames.append') return op
  const { first, last, data } = op.segment
  return { ...op, segment: { first, last, data: Buffer.from(data).toString('utf8') } }
}
