// Ends of runs, whichever process has them: who cancels one, and who waits until its end is stored.
import { isVisible } from '../../base/scope.ts'
import { isInFlight } from '../../base/types.ts'
import { withTimeout } from '../../base/waiting.ts'
import type { Store } from '../../store/store.ts'
import type { RemoteRuns } from '../cluster/remote-runs.ts'
import type { CancelAction } from '../run-end.ts'
import type { RunStates } from '../run-state.ts'
import type { RunActor } from './actor.ts'
import type { LeftBehind } from './run-queues.ts'

interface RunEndsDeps {
  readonly store: Pick<Store, 'runs'>
  readonly states: Pick<RunStates, 'forget'>
  /** Live runs of this process, by id. */
  readonly actors: ReadonlyMap<string, RunActor>
  readonly leftBehind: LeftBehind
  /** null: there is no other process. */
  readonly remoteRuns: RemoteRuns | null
  /** Resolves when a run being admitted can be found, or was refused. */
  readonly admitted: (runId: string) => Promise<void>
  /** A run could not be cancelled. */
  readonly onTrouble: (error: unknown, runId: string) => void
}

export class RunEnds {
  readonly #deps: RunEndsDeps

  constructor(deps: RunEndsDeps) {
    this.#deps = deps
  }

  /** A run of this user ends those admitted before it, by its strategy. */
  endEarlier(runIds: readonly string[], userId: string | null, strategy: CancelAction): void {
    for (const runId of runIds)
      this.#endEarlier(runId, userId, strategy).catch((error: unknown) => this.#deps.onTrouble(error, runId))
  }

  /**
   * In a shared thread, another user's run is not touched: the new one waits behind it. A run admitted by another
   * process may not have arrived yet.
   */
  async #endEarlier(runId: string, userId: string | null, strategy: CancelAction): Promise<void> {
    const { store, actors, remoteRuns } = this.#deps
    const actor = actors.get(runId)
    if (actor && isVisible(actor.run, userId)) actor.cancel(strategy)
    if (actor || !remoteRuns || !(await store.runs.get(runId, userId))) return
    await remoteRuns.cancel(runId, strategy)
  }

  /**
   * Cancels a run of this process. False: it has ended, its end is being written, or another process owns it. `stopReason`: what
   * cancelled it, when it was not a user.
   */
  cancel(runId: string, action: CancelAction, stopReason: string | null = null): boolean {
    return this.#deps.actors.get(runId)?.cancel(action, stopReason) ?? false
  }

  /** Asks the owning process to cancel a run, until it has ended. False: no such run in flight. */
  async cancelElsewhere(runId: string, action: CancelAction): Promise<boolean> {
    if (!this.#deps.remoteRuns || this.#deps.actors.has(runId)) return false
    return this.#deps.remoteRuns.cancel(runId, action)
  }

  /** Resolves when the run's end is stored; immediately if it is not live. */
  async ended(runId: string): Promise<void> {
    await this.#deps.admitted(runId)
    await this.#deps.actors.get(runId)?.closed
  }

  /** The same with a timeout: resolves with false if the store does not take the end in time, or when `signal` aborts. */
  async settled(runId: string, signal?: AbortSignal): Promise<boolean> {
    for (;;) {
      const actor = this.#deps.actors.get(runId)
      if (await actor?.settled(signal)) return true
      if (signal?.aborted) return false
      await this.#deps.leftBehind.queued(runId)
      // It was left, and goes on here.
      if (this.#deps.actors.has(runId) && this.#deps.actors.get(runId) !== actor) continue
      if (actor || !this.#deps.remoteRuns) return !actor
      const run = await this.#deps.store.runs.get(runId, null)
      if (!run || !isInFlight(run) || (await this.#deps.remoteRuns.ended(run, signal))) return true
      // It was taken over by this process meanwhile.
      if (signal?.aborted || !this.#deps.actors.has(runId)) return false
    }
  }

  /** The creator waits for the end of the run again. */
  creatorCame(runId: string): void {
    this.#deps.actors.get(runId)?.creatorCame()
    this.#deps.remoteRuns?.creatorCame(runId)
  }

  /** A creating request that waited for the end has gone. */
  creatorLeft(runId: string, isAsked = false): void {
    const actor = this.#deps.actors.get(runId)
    if (actor) actor.creatorLeft(isAsked)
    else this.#deps.remoteRuns?.creatorLeft(runId, isAsked)
  }

  /**
   * Cancels every run of a thread and waits, `timeoutMs` at most, until their last records are written and their agents
   * have stopped: one still working might leave a file.
   */
  async cancelThread(threadId: string, timeoutMs: number): Promise<void> {
    await Promise.all([this.cancelThreadHere(threadId, timeoutMs), this.#cancelThreadElsewhere(threadId, timeoutMs)])
  }

  async #cancelThreadElsewhere(threadId: string, timeoutMs: number): Promise<void> {
    if (!this.#deps.remoteRuns) return
    const runs = await this.#deps.store.runs.inFlight(threadId)
    const others = runs.map(({ run_id }) => run_id).filter((id) => !this.#deps.actors.has(id))
    if (others.length) await this.#deps.remoteRuns.clear(threadId, others, timeoutMs)
  }

  /** The same for this process's runs. Returns whether there were any. */
  async cancelThreadHere(threadId: string, timeoutMs: number): Promise<boolean> {
    const actors = [...this.#deps.actors.values()].filter((actor) => actor.run.thread_id === threadId)
    for (const actor of actors) actor.cancel('interrupt', 'thread_deleted')
    if (actors.length) await withTimeout(Promise.all(actors.map((actor) => actor.finished)), timeoutMs)
    this.#deps.states.forget(threadId)
    return actors.length > 0
  }
}
