// The logs of ended runs, as long as somebody reads them: who comes meanwhile shares what was read of the store, and translated, for others.
import type { Run } from '../../base/types.ts'
import { RunLog } from './run-log.ts'
import type { LogStore } from './stored-frames.ts'

export class EndedLogs {
  readonly #store: LogStore
  /** By run. Weak: nothing is kept for a run that nobody reads any more. */
  readonly #logs = new Map<string, WeakRef<RunLog>>()
  readonly #collected = new FinalizationRegistry<string>((runId) => {
    if (!this.#logs.get(runId)?.deref()) this.#logs.delete(runId)
  })

  constructor(store: LogStore) {
    this.#store = store
  }

  /** @param run its row as it is now */
  async of(run: Run): Promise<RunLog> {
    const known = this.#known(run)
    if (known) return known
    const log = await RunLog.ended(run, this.#store)
    // Somebody else may have been first.
    const others = this.#known(run)
    if (others) return others
    this.#logs.set(run.run_id, new WeakRef(log))
    this.#collected.register(log, run.run_id)
    return log
  }

  #known({ run_id, updated_at, last_cursor }: Run): RunLog | undefined {
    const log = this.#logs.get(run_id)?.deref()
    return log?.run.updated_at === updated_at && log.run.last_cursor === last_cursor ? log : undefined
  }
}
