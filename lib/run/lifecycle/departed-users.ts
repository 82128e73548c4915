// Ends the runs of users who are gone: nothing may be done any longer in the name of somebody whose account was removed or disabled.
import { setImmediate as turn } from 'node:timers/promises'
import { Poller } from '../../base/poller.ts'
import type { Run } from '../../base/types.ts'

/** Lookups per batch; other work has a turn in between. */
const AT_ONCE = 64

interface DepartedUsersDeps {
  readonly everyMs: number
  /** Runs of this process that have not ended. */
  readonly runs: () => Iterable<Run>
  /** Whether nobody knows the run's user any more. */
  readonly isGone: (run: Run) => Promise<boolean>
  /** False: its end was decided already. */
  readonly end: (runId: string) => boolean
  readonly log: { warn(fields: object, text: string): void }
}

export class DepartedUsers {
  readonly #deps: DepartedUsersDeps
  readonly #poller: Poller

  constructor(deps: DepartedUsersDeps) {
    this.#deps = deps
    this.#poller = new Poller({
      everyMs: deps.everyMs,
      work: () => this.#look(),
      onError: (error) =>
        deps.log.warn({ err: error }, 'the users of runs could not be looked up; the next look tries again')
    })
  }

  /** Looks at once: runs of the previous process may have outlived their user. */
  start(): void {
    this.#poller.start(0)
  }

  /** Looks now: an account may be gone. */
  lookNow(): void {
    this.#poller.wakeIn(0)
  }

  stop(): Promise<void> {
    return this.#poller.stop()
  }

  /** One lookup a user, however many runs are theirs. */
  async #look(): Promise<void> {
    const byUser = new Map<string, Run>()
    for (const run of this.#deps.runs()) if (run.user_id !== null) byUser.set(run.user_id, run)
    const all = [...byUser.values()]
    for (let from = 0; from < all.length; from += AT_ONCE) {
      if (from > 0) await turn()
      await Promise.all(all.slice(from, from + AT_ONCE).map((run) => this.#endIfGone(run)))
    }
  }

  async #endIfGone(run: Run): Promise<void> {
    const { isGone, runs, end, log } = this.#deps
    if (!(await isGone(run))) return
    const theirs = [...runs()].filter(({ user_id }) => user_id === run.user_id)
    for (const { run_id, thread_id, user_id } of theirs)
      if (end(run_id)) log.warn({ run_id, thread_id, user_id }, 'a run was ended: its user is gone')
  }
}
