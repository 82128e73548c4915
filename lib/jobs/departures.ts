// Departures: removes what somebody has left whose account was removed. A look that finds nothing any more is the last one: what was
// under way when the account went, in whatever process, may still leave something.
import type { Job, NewJob, Op } from '../store/store.ts'
import { type Done, finishOf } from './runner.ts'

/** Threads that are looked up at once. */
const THREADS = 100
/** From one look to the next, in ms: requests that had begun are over by then. */
const AGAIN_MS = 60_000

interface DeparturesDeps {
  /** Ids of threads. */
  readonly threadsOf: (userId: string, limit: number) => Promise<readonly string[]>
  /** Ends the thread's runs and removes it with everything that belongs to it. No-op when it is gone. */
  readonly removeThread: (threadId: string) => Promise<void>
  /** Removes all files; true: there were some. Ends streams, and forgets what is yet to be remembered. */
  readonly forget: (userId: string) => Promise<boolean>
  /** Writes as one group of this owner. null: refused. */
  readonly write: (ops: readonly Op[], owner: string) => Promise<unknown>
}

/** The job of an account that is removed. */
export function departureOf(userId: string): NewJob {
  return { kind: 'departure', key: userId, user_id: userId, thread_id: null, due: 0, payload: '{}' }
}

export function departureDeed({ threadsOf, removeThread, forget, write }: DeparturesDeps): (job: Job) => Promise<Done> {
  return async (job) => {
    const userId = job.key
    let hasFound = false
    for (;;) {
      const threads = await threadsOf(userId, THREADS)
      if (threads.length === 0) break
      hasFound = true
      for (const threadId of threads) await removeThread(threadId)
    }
    hasFound = (await forget(userId)) || hasFound
    const again = hasFound ? ({ due: AGAIN_MS, error: null, isUncounted: true } as const) : null
    await write([{ name: 'user.forget', user_id: userId }, finishOf(job, again)], job.owner ?? '')
    return 'ended'
  }
}
