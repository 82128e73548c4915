// The live half of a run: takes it from pending to its end, once. What the agent tells goes by way of its recorder, which the actor is
// no part of; here is who may begin it, who may end it, and who waits for that.
//
// Whatever ends a run, success, failure, cancel, timeout or shutdown, goes through `#end`, and by the table in run-phase.ts it does so
// once: that is why there is one terminal status, ever.
import { type Agent, AgentError } from '../../agent/runtime.ts'
import { withoutUser } from '../../scope.ts'
import type { Op } from '../../store/store.ts'
import type { Run } from '../../types.ts'
import type { Committer } from '../commit/committer.ts'
import type { Journal } from '../log/journal.ts'
import type { RunLog } from '../log/run-log.ts'
import type { Snapshot } from '../log/snapshot.ts'
import type { LogBounds, Position } from '../log/sse.ts'
import type { SavedState, StateCache } from '../log/state-cache.ts'
import { type LiveDeps, Recorder, type RecorderEvents, type RecorderOptions } from '../recorder.ts'
import { ASKING, type CancelAction, cancelled, failed, type RunEnd, SUCCESS, timedOut } from '../run-end.ts'
import { baseOf } from '../run-kwargs.ts'
import { DisconnectTimer } from './disconnect-timer.ts'
import { untilRead } from './retry.ts'
import { isFinal, type RunPhase, type RunTransition, TRANSITIONS } from './run-phase.ts'

export interface ActorOptions extends RecorderOptions {
  /** How long the end of a run may wait for the store before its joiners are reset, in ms. */
  readonly settleTimeoutMs: number
  /** How long the creator of a run with on_disconnect cancel may be away, in ms. */
  readonly disconnectGraceMs: number
  /** How long a run may take, in ms; 0: for ever. */
  readonly timeoutMs: number
}

export interface ActorDeps extends LiveDeps {
  readonly states: StateCache
  readonly committer: Committer
  readonly agent: Agent
  readonly options: ActorOptions
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void }
  /** Something of the run was committed; it has ended with it, or not. */
  readonly onStored?: (runId: string, isOver: boolean) => void
  /** Whether it has readers on another process. */
  readonly isFollowed?: (runId: string) => boolean
}

/** What agents are told at the end. One for all runs: the stack of one of its own says nothing, and is dear. */
const RUN_IS_OVER = new DOMException('The run is over', 'AbortError')

export class RunActor implements RecorderEvents {
  readonly run: Run
  readonly #deps: ActorDeps
  readonly #recorder: Recorder
  readonly #abort = new AbortController()
  readonly #disconnect: DisconnectTimer
  #phase: RunPhase = 'pending'
  #runTimer: NodeJS.Timeout | null = null
  #settleTimer: NodeJS.Timeout | null = null
  /** Who waits for the end to be stored, but not for ever. */
  #waitingForEnd: ((isStored: boolean) => void)[] = []
  #course: Promise<void> | null = null
  /** Resolves when the end is stored, or the run is another process's. */
  readonly closed: Promise<void>
  #resolveClosed: () => void = () => {}

  /**
   * `past`: what is stored of the run's log already, when an earlier process had admitted it; `journal`: of its events, when that had
   * begun it.
   */
  constructor(run: Run, deps: ActorDeps, past?: LogBounds, journal?: Journal) {
    this.run = run
    this.#deps = deps
    this.#recorder = Recorder.begin(run, deps, this, past, journal)
    this.#disconnect = new DisconnectTimer(run, deps.options.disconnectGraceMs, () => {
      if (!this.isWatched) this.cancel('interrupt', 'disconnected')
    })
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
  }

  get phase(): RunPhase {
    return this.#phase
  }
  /** What readers see of it. */
  get log(): RunLog {
    return this.#recorder.log
  }
  /** Of its frames; undefined: not all of them are in memory. */
  get bytes(): number | undefined {
    return this.log.wholeBytes
  }
  /** Somebody reads it, here or on another process. */
  get isWatched(): boolean {
    return this.log.readers > 0 || this.#deps.isFollowed?.(this.run.run_id) === true
  }

  /** False: the table has nothing for that here, and nothing changes. */
  #enter(transition: RunTransition): boolean {
    const next = TRANSITIONS[this.#phase][transition]
    if (next) this.#phase = next
    return next !== undefined
  }

  // ---------------------------------------------------------------------------------------- the run's course

  /** Takes the run from pending to its end. Resolves when that is stored and the agent has let go; never rejects. */
  start(): Promise<void> {
    if (this.#enter('start')) this.#course = this.#go()
    return this.finished
  }

  /**
   * Resolves when the run's end is stored and its agent has let go: later than `closed` when that does not listen to its signal.
   * Nothing is done in the run's name any more.
   */
  get finished(): Promise<void> {
    return this.#course ?? this.closed
  }

  async #go(): Promise<void> {
    this.#armTimeout()
    try {
      const base = this.#deps.keepsStates ? null : baseOf(this.run)
      const saved = await untilRead(
        () => (this.#deps.keepsStates ? Promise.resolve(null) : this.#savedState(base)),
        () => !this.#isOpen()
      )
      if (base !== null && !saved) throw new AgentError('CheckpointNotFound', `Checkpoint ${base} not found`)
      // The ONLY await before the agent: whoever cancelled meanwhile has ended the run.
      if (this.#isOpen()) await this.#work(saved)
      this.#end(this.#recorder.isAsking ? ASKING : SUCCESS)
    } catch (error) {
      this.#end(failed(error), error)
    }
    return this.closed
  }

  #savedState(base: string | null): Promise<SavedState | null> {
    const { states } = this.#deps
    return base === null ? states.newest(this.run.thread_id) : states.at(this.run.thread_id, base)
  }

  async #work(saved: SavedState | null): Promise<void> {
    this.#recorder.begin(saved)
    await this.#deps.agent.start(this.#recorder.input(), this.#recorder.sink(), this.#abort.signal)
  }

  #isOpen(): boolean {
    return this.#phase === 'open'
  }

  #armTimeout(): void {
    const { timeoutMs } = this.#deps.options
    if (timeoutMs > 0) this.#runTimer = setTimeout(() => this.#end(timedOut(timeoutMs)), timeoutMs)
  }

  // ------------------------------------------------------------------------------------------------ the end

  /**
   * Cancels the run, wherever it is before its end. False: it has ended already, or is just being written.
   * `stopReason` tells who did it when it was not a user.
   */
  cancel(action: CancelAction, stopReason: string | null = null): boolean {
    return this.#end(cancelled(action, stopReason))
  }

  /** Decides the end. False: it is decided already. Never throws: who ends it hears nothing of what is broken. */
  #end(end: RunEnd, cause?: unknown): boolean {
    const wasOpen = this.#isOpen()
    if (!this.#enter('end')) return false
    if (end.failure) this.#logFailure(end.status, end.failure, cause)
    this.#stopWork()
    this.#recorder.close(end, wasOpen)
    this.#armSettleTimeout()
    return true
  }

  /** One line a run. An agent's words are a warning; what nobody expected is an error, with its stack. */
  #logFailure(status: string, { kind, message }: NonNullable<RunEnd['failure']>, cause: unknown): void {
    const { run_id, thread_id, user_id } = this.run
    const about = { run_id, thread_id, user_id, model: this.#recorder.modelName, status }
    const isExpected = cause === undefined || cause instanceof AgentError
    if (isExpected) this.#deps.log.warn({ ...about, error_type: kind, error: message }, 'a run has failed')
    else this.#deps.log.error({ ...about, err: cause }, 'a run has failed')
  }

  /** Who ends a run need not be who started it: the agent hears of it as nobody. */
  #stopWork(): void {
    withoutUser(() => this.#abort.abort(RUN_IS_OVER))
    if (this.#runTimer) clearTimeout(this.#runTimer)
    this.#disconnect.stop()
  }

  #armSettleTimeout(): void {
    this.#settleTimer ??= setTimeout(() => this.#giveUpWaiting(), this.#deps.options.settleTimeoutMs)
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
    this.#settleTimer = null
    this.#armSettleTimeout()
  }

  /** Resolves when the end is stored, with true; with false when it could not be stored in time. */
  settled(): Promise<boolean> {
    if (isFinal(this.#phase)) return Promise.resolve(this.#phase !== 'abandoned')
    return new Promise((resolve) => this.#waitingForEnd.push(resolve))
  }

  #tellEnd(isStored: boolean): void {
    for (const resolve of this.#waitingForEnd.splice(0)) resolve(isStored)
  }

  /**
   * The lease of this process was lost: the run is another process's, which ends it. Its agent stops, its readers come back to
   * where it is, and nothing of it is written any more.
   */
  abandon(): void {
    if (!this.#enter('lease-lost')) return
    this.#stopWork()
    this.#recorder.abandon()
    this.log.resetReaders()
    this.#over(false)
  }

  /** Something of the run was committed. */
  onStored(isOver: boolean): void {
    if (isOver) this.#close()
    else this.#deps.onStored?.(this.run.run_id, false)
  }

  #close(): void {
    if (!this.#enter('stored')) return
    this.#deps.onStored?.(this.run.run_id, true)
    this.log.close(this.#recorder.endedRow)
    this.#over(true)
  }

  #over(isStored: boolean): void {
    if (this.#settleTimer) clearTimeout(this.#settleTimer)
    this.#resolveClosed()
    this.#tellEnd(isStored)
  }

  /**
   * The store has refused this run's records, not for a moment but for what they are. The run fails alone: what was refused is
   * named in the log file, its end is written by itself, and the other runs of the batch have not noticed.
   */
  onRefused(message: string, ops: readonly Op[]): void {
    if (!this.#enter('refusal')) return
    const { run_id, thread_id } = this.run
    this.#deps.log.error(
      { run_id, thread_id, refused: message, records: ops.map(loggable) },
      'the store refuses the records of a run'
    )
    this.#stopWork()
    this.#armSettleTimeout()
    void this.#salvage(this.#recorder.closeRefused(ops))
  }

  async #salvage(attempts: readonly (readonly Op[])[]): Promise<void> {
    const { committer, owner } = this.#deps
    for (const ops of attempts) {
      const isWritten = await committer.writeAll(ops, 'endless', owner).then(
        () => true,
        () => false
      )
      if (isWritten) break
    }
    this.#recorder.giveUpStoring()
    this.#close()
  }

  /**
   * Nobody finds it any more. What its readers have not taken yet is in the store, and read from there: with one that stalls a run
   * that is over would else stay whole in memory, its state included. What could not be stored does stay.
   */
  release(): void {
    if (this.#phase === 'closed-with-loss') return
    const saved = this.#recorder.release()
    if (saved) this.#deps.states.left(this.run.thread_id, saved)
  }

  // ---------------------------------------------------------------------------------------------------- readers

  /**
   * Where a reader begins that has seen all up to `position`: behind that, or with a snapshot if it has seen nothing. The state of a
   * run that has not begun is that of its thread, and the only await: nothing can come between a state and its position.
   */
  async snapshotFor(position: Position): Promise<Position | Snapshot> {
    if (this.log.place(position) !== 0) return position
    const before = this.#recorder.hasBegun ? null : await this.log.valuesStored(baseOf(this.run))
    return this.#recorder.snapshot(before)
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

/** A refused op for the log file: frames as the text they are. */
function loggable(op: Op): object {
  if (op.name !== 'frames.append') return op
  const { first, last, data } = op.segment
  return { ...op, segment: { first, last, data: Buffer.from(data).toString('utf8') } }
}
