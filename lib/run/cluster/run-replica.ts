// A run of another process as its readers here see it: a stored log whose head moves when the owner announces more, or a poll finds it.
import type { Store } from '../../store/store.ts'
import { type Run, isInFlight } from '../../base/types.ts'
import { waitWith } from '../../base/waiting.ts'
import { RunLog } from '../log/run-log.ts'
import type { LogStore } from '../log/stored-frames.ts'

export interface ReplicaDeps {
  readonly store: Pick<Store, 'runs'> & LogStore
  /** The last waiter has been told. */
  readonly onIdle: () => void
  readonly onTrouble: (error: unknown) => void
}

export class RunReplica {
  readonly log: RunLog
  readonly #deps: ReplicaDeps
  /** Its row when its frames were last read. */
  #run: Run
  #isGone = false
  /** A read of the store is in progress. */
  #reading: Promise<void> | null = null
  /** What is to be read next. */
  #wanted: { isRowStale: boolean } | null = null
  readonly #waitingForEnd = new Set<(isStored: boolean | null) => void>()
  /** Its owner, as far as known. */
  owner: string | null = null

  private constructor(run: Run, log: RunLog, deps: ReplicaDeps) {
    this.#run = run
    this.log = log
    this.#deps = deps
  }

  static async open(run: Run, deps: ReplicaDeps): Promise<RunReplica> {
    const rowNow = () => deps.store.runs.get(run.run_id, null)
    return new RunReplica(run, await RunLog.replica(run, deps.store, rowNow), deps)
  }

  get run(): Run {
    return this.#run
  }
  get isWanted(): boolean {
    return this.log.readers > 0 || this.#waitingForEnd.size > 0
  }

  /**
   * Resolves with true when the run has ended and all of it is stored; with false when this process will not learn of it; null: `signal`
   * has aborted.
   */
  async ended(signal?: AbortSignal): Promise<boolean | null> {
    if (this.log.isClosed || this.#isGone) return this.log.isClosed
    const isStored = await waitWith(this.#waitingForEnd, signal)
    if (isStored === null && !this.isWanted) this.#deps.onIdle()
    return isStored
  }

  /** Its readers here are reset: they reconnect and find out. */
  drop(): void {
    this.#end(false)
  }

  #end(isStored: boolean): void {
    this.#isGone = true
    this.log.resetReaders()
    this.#tellEnd(isStored)
  }

  #tellEnd(isStored: boolean): void {
    for (const settle of this.#waitingForEnd) settle(isStored)
    if (!this.isWanted) this.#deps.onIdle()
  }

  /** There is more in the store. `isRowStale`: the run may have ended, so that its row is read too. */
  async refresh(isRowStale: boolean): Promise<void> {
    if (this.log.isClosed || this.#isGone) return
    this.#wanted = { isRowStale: isRowStale || this.#wanted?.isRowStale === true }
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = null
    })
    await this.#reading
  }

  async #readAll(): Promise<void> {
    try {
      while (this.#wanted && !this.#isGone) {
        const { isRowStale } = this.#wanted
        this.#wanted = null
        const readsRow = isRowStale || this.#run.status === 'pending'
        // The row before the frames: whatever belongs to its status is stored with it.
        const run = readsRow ? await this.#deps.store.runs.get(this.#run.run_id, null) : this.#run
        // Its thread was deleted: there is nothing to come back to, and no end to wait for.
        if (!run) return this.#end(true)
        await this.log.advance()
        this.#run = run
        if (!isInFlight(run) && !this.#isGone) this.#close(run)
      }
    } catch (error) {
      // The next poll asks again.
      this.#deps.onTrouble(error)
    }
  }

  #close(run: Run): void {
    this.log.close(run)
    this.#tellEnd(true)
  }
}
