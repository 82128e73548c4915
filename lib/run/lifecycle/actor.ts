// The live half of a run: takes it from pending to its end, once. The agent's output goes to the recorder without
// passing the actor; the actor decides who may start and end the run, and knows who waits for that.
//
// Whatever ends a run (success, failure, cancel, timeout, shutdown) goes through `#end`, and the table in run-phase.ts
// lets that happen once: hence there is exactly one terminal status.
import { setImmediate as turn } from 'node:timers/promises'
import { type Agent, AgentError, RUN_GOES_ON, RunCut } from '../../agent/runtime.ts'
import { withoutUser } from '../../base/scope.ts'
import { fromOrigin, inSpan } from '../../base/tracing.ts'
import type { Op, Store } from '../../store/store.ts'
import type { JsonObject, Run } from '../../base/types.ts'
import { waitWith } from '../../base/waiting.ts'
import type { Committer } from '../commit/committer.ts'
import type { Journal } from '../log/journal.ts'
import { attemptAfter, type LogBounds, type Position } from '../log/frame.ts'
import type { RunLog } from '../log/run-log.ts'
import type { Snapshot } from '../log/snapshot.ts'
import { type LiveDeps, Recorder, type RecorderEvents, type RecorderOptions } from '../recorder.ts'
import { ASKING, type CancelAction, cancelled, failed, RESTARTED, type RunEnd, SUCCESS, timedOut } from '../run-end.ts'
import { baseOf } from '../run-kwargs.ts'
import type { StateBefore } from '../run-state.ts'
import { DisconnectTimer } from './disconnect-timer.ts'
import { Inbox } from './inbox.ts'
import { untilRead } from './retry.ts'
import { logRefused, writeFirst } from './salvage.ts'
import { ATTEMPTS_MAX, isFinal, type RunPhase, type RunTransition, TRANSITIONS } from './run-phase.ts'
import { warnUnexpected } from '../../base/errors.ts'

export interface ActorOptions extends RecorderOptions {
  /** How long the end of a run may wait for the store before its joiners are reset, in ms. */
  readonly settleTimeoutMs: number
  /** How long the creator of a run with on_disconnect cancel may be away, in ms. */
  readonly disconnectGraceMs: number
  /** Timeout of a run, in ms; 0: none. */
  readonly timeoutMs: number
}

export interface ActorDeps extends LiveDeps {
  readonly store: LiveDeps['store'] & Pick<Store, 'runs'>
  readonly committer: Committer
  readonly agent: Agent
  readonly options: ActorOptions
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void }
  /** Runs an agent, and reports what it has changed beside the conversation, to be recorded under a tag. Absent: nobody looks. */
  readonly changes?: RunChanges | undefined
  /** Records of the run were committed; `isOver`: its end was among them. Absent: nobody waits for that. */
  readonly onStored?: ((isOver: boolean) => void) | undefined
  /** What it has is stored, and it is to go on with another actor, here or in another process. Absent: a cut run ends. */
  readonly onLeft?: ((actor: RunActor) => void) | undefined
  /** Whether it has readers on other processes. */
  readonly isFollowed?: (runId: string) => boolean
}

interface RunChanges {
  during(run: Run, work: () => Promise<void>, report: (tag: string, changes: JsonObject) => void): Promise<void>
}

/** What is stored of a run whose process is gone. */
export interface Earlier {
  readonly journal: Journal
  /** null: it is read as for a first attempt. */
  readonly before: StateBefore | null
}

/** The abort reason agents get. Shared by all runs: creating a stack for each is expensive and says nothing. */
const RUN_IS_OVER = new DOMException('The run is over', 'AbortError')

export class RunActor implements RecorderEvents {
  readonly run: Run
  /** For an agent that takes input. */
  readonly inbox = new Inbox()
  readonly onStored: (() => void) | undefined
  readonly #deps: ActorDeps
  readonly #recorder: Recorder
  readonly #abort = new AbortController()
  readonly #disconnect: DisconnectTimer
  #phase: RunPhase = 'pending'
  #runTimer: NodeJS.Timeout | null = null
  #settleTimer: NodeJS.Timeout | null = null
  /** Waiters for the stored end, with a timeout. */
  readonly #waitingForEnd = new Set<(isStored: boolean | null) => void>()
  #course: Promise<void> | null = null
  /** How often the run was begun, with this time. */
  readonly #attempt: number
  /** What the run starts from, where it was read before. */
  #before: StateBefore | null
  /** Resolves when the end is stored, or the run belongs to another process. */
  readonly closed: Promise<void>
  #resolveClosed: () => void = () => {}
  /** Resolves when nothing more of it will be stored here: it is closed, or was left. */
  readonly atRest: Promise<void>
  #resolveAtRest: () => void = () => {}

  /**
   * `past`: what is already stored of the run's log, when an earlier process admitted it; `earlier`: of all else,
   * when that process started it.
   */
  constructor(run: Run, deps: ActorDeps, past?: LogBounds, earlier?: Earlier) {
    this.run = run
    this.#before = earlier?.before ?? null
    this.#deps = deps
    const { onStored } = deps
    this.onStored = onStored && (() => onStored(false))
    this.#attempt = attemptAfter(run, past)
    this.#recorder = Recorder.begin(run, deps, this, past, earlier?.journal)
    this.#disconnect = new DisconnectTimer(run, deps.options.disconnectGraceMs, () => {
      if (!this.isWatched) this.cancel('interrupt', 'disconnected')
    })
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.atRest = new Promise((resolve) => {
      this.#resolveAtRest = resolve
    })
  }

  get phase(): RunPhase {
    return this.#phase
  }
  /** The log readers see. */
  get log(): RunLog {
    return this.#recorder.log
  }
  /** Somebody reads it or waits for its end, here or on another process. */
  get isWatched(): boolean {
    return this.log.readers > 0 || this.#waitingForEnd.size > 0 || this.#deps.isFollowed?.(this.run.run_id) === true
  }

  /** False: no such transition; nothing changes. */
  #enter(transition: RunTransition): boolean {
    const next = TRANSITIONS[this.#phase][transition]
    if (next) this.#phase = next
    return next !== undefined
  }

  // ---------------------------------------------------------------------------------------- the run's course

  /** Runs it from pending to its end. Resolves when that is stored and the agent has stopped; never rejects. */
  start(): Promise<void> {
    if (this.#enter('start')) this.#course = this.#go()
    return this.finished
  }

  /**
   * Resolves when the run's end is stored and its agent has stopped, which may be later than `closed` when the agent
   * ignores its signal. After that nothing runs in the run's name.
   */
  get finished(): Promise<void> {
    return this.#course ?? this.closed
  }

  async #go(): Promise<void> {
    this.#armTimeout()
    try {
      const before = this.#before ?? (await this.#readBefore())
      this.#before = null
      if (!before) throw new AgentError('CheckpointNotFound', `Checkpoint ${baseOf(this.run)} not found`)
      // Whoever cancelled meanwhile has ended the run.
      if (this.#isOpen()) await this.#work(before)
      if (this.#isOpen()) this.#end(this.#recorder.state.isAsking ? ASKING : SUCCESS)
    } catch (error) {
      this.#fail(error)
    }
    return this.closed
  }

  #readBefore(): Promise<StateBefore | null> {
    return untilRead(
      () => this.#deps.states.before(this.run, this.#abort.signal),
      () => !this.#isOpen()
    )
  }

  #fail(error: unknown): void {
    // An agent that was cut says no more of how its run ends.
    if (!this.#isOpen()) return
    if (!(error instanceof RunCut)) this.#end(failed(error), error)
    else if (error.reason === 'end') this.#end(RESTARTED, error)
    else if (this.#deps.onLeft && (error.reason === 'drain' || this.#attempt < ATTEMPTS_MAX)) this.leave()
    else if (error.reason === 'drain') this.cancel('interrupt', 'shutdown')
    else this.#end(failed(error), error)
  }

  async #work(before: StateBefore): Promise<void> {
    this.#recorder.begin(before, this.#attempt)
    // Its creation has counted the first attempt of a run that starts at once. Any other one must be stored before the agent can end
    // the process, or nobody would know that it has.
    if (this.#attempt > this.run.attempts) await this.#recorder.flushed()
    if (!this.#isOpen()) return
    if (this.#recorder.state.isLong) {
      // Its input has taken long enough this turn; passing the conversation to the agent takes as long again.
      await turn()
      if (!this.#isOpen()) return
    }
    const { agent, changes } = this.#deps
    const input = this.#recorder.input()
    const goesOn = this.#deps.onLeft !== undefined
    const given = { ...input, goesOn, ...(agent.takesInput && { inbox: this.inbox }) }
    const { run_id, thread_id, model_name } = this.run
    const about = { 'colloquy.run_id': run_id, 'colloquy.thread_id': thread_id, 'colloquy.model': model_name }
    const sink = this.#recorder.sink()
    const start = () => agent.start(given, sink, this.#abort.signal)
    const report = (tag: string, content: JsonObject) =>
      void sink.record({ type: 'middleware', tag, content, metadata: {} })
    const work = changes ? () => changes.during(this.run, start, report) : start
    await fromOrigin(this.run, () => inSpan('run', about, work))
  }

  #isOpen(): boolean {
    return this.#phase === 'open'
  }

  #armTimeout(): void {
    const { timeoutMs } = this.#deps.options
    if (timeoutMs > 0) this.#runTimer = setTimeout(() => this.#end(timedOut(timeoutMs)), timeoutMs)
  }

  /** Resolves when all that its agent has recorded is stored, or will never be. */
  flushed(): Promise<void> {
    return this.#recorder.flushed()
  }

  // ------------------------------------------------------------------------------------------------ the end

  /**
   * Cancels the run in any phase before its end. False: it has ended, or its end is being written. `stopReason`: what
   * cancelled it, when it was not a user.
   */
  cancel(action: CancelAction, stopReason: string | null = null): boolean {
    return this.#end(cancelled(action, stopReason))
  }

  /** Stops it to go on elsewhere from what it has stored. False: it has ended, or its end is being written. */
  leave(): boolean {
    if (!this.#enter('leave')) return false
    const stored = this.#recorder.leave()
    this.#stopWork(RUN_GOES_ON)
    this.#armSettleTimeout()
    stored.then(() => this.#left()).catch(warnUnexpected)
    return true
  }

  #left(): void {
    // The store may have refused it, or the lease was lost.
    if (this.#phase !== 'leaving') return
    this.#resolveAtRest()
    this.#deps.onLeft?.(this)
  }

  /** Decides the end. False: already decided. Never throws. */
  #end(end: RunEnd, cause?: unknown): boolean {
    const wasOpen = this.#isOpen() || this.#phase === 'leaving'
    if (!this.#enter('end')) return false
    if (end.failure) this.#logFailure(end.status, end.failure, cause)
    this.#stopWork()
    this.#recorder.close(end, wasOpen)
    this.#armSettleTimeout()
    return true
  }

  /** One log line per run. An agent's own error is a warning; an unexpected one is an error, with its stack. */
  #logFailure(status: string, { kind, message }: NonNullable<RunEnd['failure']>, cause: unknown): void {
    const { run_id, thread_id, user_id } = this.run
    const about = { run_id, thread_id, user_id, model: this.#recorder.modelName, status }
    const isExpected = cause === undefined || cause instanceof AgentError
    if (isExpected) this.#deps.log.warn({ ...about, error_type: kind, error: message }, 'a run has failed')
    else this.#deps.log.error({ ...about, err: cause }, 'a run has failed')
  }

  /** Not only the user can end a run, so the agent is aborted outside any user's scope. */
  #stopWork(reason = RUN_IS_OVER): void {
    withoutUser(() => this.#abort.abort(reason))
    this.inbox.close()
    if (this.#runTimer) clearTimeout(this.#runTimer)
    this.#disconnect.stop()
  }

  #armSettleTimeout(): void {
    this.#settleTimer ??= setTimeout(() => this.#giveUpWaiting(), this.#deps.options.settleTimeoutMs)
  }

  /**
   * The store does not take the end: readers are reset, because an end that could still get lost must not be shown.
   * The committer keeps trying; readers that return wait like the others.
   */
  #giveUpWaiting(): void {
    if (this.log.readers > 0)
      this.#deps.log.error(
        { run_id: this.run.run_id },
        'the end of a run could not be stored in time: its streams are reset'
      )
    this.log.resetReaders()
    this.#tellEnd(false)
    this.#settleTimer = null
    this.#armSettleTimeout()
  }

  /** Resolves with true when the end is stored, with false after the timeout; null: `signal` has aborted. */
  async settled(signal?: AbortSignal): Promise<boolean | null> {
    if (isFinal(this.#phase)) return this.#phase !== 'abandoned'
    return waitWith(this.#waitingForEnd, signal)
  }

  #tellEnd(isStored: boolean): void {
    for (const settle of this.#waitingForEnd) settle(isStored)
  }

  /**
   * The process has lost its lease, or has left the run: it belongs to another one. The agent stops, readers are reset, and nothing more
   * is written.
   */
  abandon(): void {
    if (!this.#enter('lease-lost')) return
    this.#stopWork(RUN_GOES_ON)
    this.#recorder.abandon()
    this.log.resetReaders()
    this.#over(false)
  }

  /** The run's end was committed. */
  onEnd(): void {
    this.#close()
  }

  #close(): void {
    if (!this.#enter('stored')) return
    this.#deps.onStored?.(true)
    this.log.close(this.#recorder.endedRow)
    this.#over(true)
  }

  #over(isStored: boolean): void {
    if (this.#settleTimer) clearTimeout(this.#settleTimer)
    this.#resolveClosed()
    this.#resolveAtRest()
    this.#tellEnd(isStored)
  }

  /**
   * The store has refused this run's records for good. Only this run fails: the refused records are logged, its end is
   * written by itself, and the rest of the batch is not affected.
   */
  onRefused(message: string, ops: readonly Op[]): void {
    if (!this.#enter('refusal')) return
    logRefused(this.run, message, ops, this.#deps).catch(warnUnexpected)
    this.#stopWork()
    this.#armSettleTimeout()
    writeFirst(this.#recorder.closeRefused(ops), this.#deps)
      .then(() => this.#salvaged())
      .catch(warnUnexpected)
  }

  /** What could still be stored of it is: its end, or nothing. */
  #salvaged(): void {
    this.#recorder.giveUpStoring()
    this.#close()
  }

  /**
   * The run is no longer found here. Readers that lag read the store: otherwise one stalled reader would keep the whole
   * ended run, including its state, in memory. Records that could not be stored do stay.
   */
  release(): void {
    if (this.#phase === 'closed-with-loss') return
    const saved = this.#recorder.release()
    if (saved) this.#deps.states.left(this.run.thread_id, saved)
  }

  // ---------------------------------------------------------------------------------------------------- readers

  /**
   * Where a reader at `position` starts: behind it, or with a snapshot if it has seen nothing. Reading the thread's
   * state, for a run that has not begun, is the only await: nothing can change between the state and its position.
   */
  async snapshotFor(position: Position): Promise<Position | Snapshot> {
    if (this.log.place(position) !== 0) return position
    const before = this.#recorder.state.hasBegun ? null : await this.log.valuesStored(baseOf(this.run))
    return this.#recorder.snapshot(before)
  }

  /**
   * A creating request is gone. With on_disconnect cancel, or `isAsked`, the run ends after a grace period, unless somebody watches it
   * then.
   */
  creatorLeft(isAsked = false): void {
    if (this.#phase === 'pending' || this.#phase === 'open') this.#disconnect.left(isAsked)
  }

  /** The creator is back: the grace period restarts at its next departure. */
  creatorCame(): void {
    this.#disconnect.stop()
  }

  /** The process is shutting down: disconnects no longer cancel runs. */
  forgetCreator(): void {
    this.#disconnect.forget()
  }
}
