// Departures: removes what somebody has left whose account was removed. A look that finds nothing any more is the last one: what was
// under way when the account went, in whatever process, may still leave something.
import type { Job, NewJob, Op } from '../store/store.ts'
import { isObject, type JsonObject } from '../base/types.ts'
import { type Done, finishOf } from './runner.ts'

/** Threads that are looked up at once. */
const THREADS = 100
/** From one look to the next, in ms: requests that had begun are over by then. */
const AGAIN_MS = 60_000
/** The same of an erasure, for which somebody waits: streams and runs of who is gone have ended by then. */
const ERASED_AGAIN_MS = 30_000

/** Who has asked for an erasure: a line of the audit says when it is done. */
interface Erasure {
  readonly actor: string
  readonly request_id: string | null
}

interface DeparturesDeps {
  /** Whether a legal hold keeps something that they have left. */
  readonly isHeld: (userId: string) => Promise<boolean>
  /** Ids of threads. */
  readonly threadsOf: (userId: string, limit: number) => Promise<readonly string[]>
  /** Ends the thread's runs and removes it with everything that belongs to it. No-op when it is gone. */
  readonly removeThread: (threadId: string) => Promise<void>
  /** Names of agents that are no user's: sums of usage keep them. */
  readonly agents: () => readonly string[]
  /** Removes all files; true: there were some. Ends streams, and forgets what is yet to be remembered. */
  readonly forget: (userId: string) => Promise<boolean>
  /** Writes as one group of this owner. null: refused. */
  readonly write: (ops: readonly Op[], owner: string) => Promise<unknown>
  /** Resolves when what was deleted is in no log of the store any more. */
  readonly purge: () => Promise<void>
  /** The line of the audit that says that nothing is left. */
  readonly erased: (userId: string, by: Erasure) => Op
  /** From one look to the next, in ms. Default: as long as requests may take. */
  readonly againMs?: number
}

/** The job of an account that is removed. `erasure`: its end is recorded, and logs of the store are emptied. */
export function departureOf(userId: string, erasure: Erasure | null = null): NewJob {
  const payload = JSON.stringify(erasure === null ? {} : { erasure })
  return { kind: 'departure', key: userId, user_id: userId, thread_id: null, due: 0, payload }
}

export function departureDeed(deps: DeparturesDeps): (job: Job) => Promise<Done> {
  const { isHeld, threadsOf, removeThread, agents, forget, write, purge, erased } = deps
  return async (job) => {
    const erasure = erasureIn(job)
    const againMs = deps.againMs ?? (erasure ? ERASED_AGAIN_MS : AGAIN_MS)
    const userId = job.key
    // Held since the account went: it goes on when the hold is lifted.
    if (await isHeld(userId)) return { due: againMs, error: 'a legal hold keeps some of it', isUncounted: true }
    let hasFound = false
    for (;;) {
      const threads = await threadsOf(userId, THREADS)
      if (threads.length === 0) break
      hasFound = true
      for (const threadId of threads) await removeThread(threadId)
    }
    hasFound = (await forget(userId)) || hasFound
    const again = hasFound ? ({ due: againMs, error: null, isUncounted: true } as const) : null
    const isErased = again === null && erasure !== null
    // Rows of long threads go step by step.
    if (isErased) await purge()
    const line = isErased ? [erased(userId, erasure)] : []
    const forgotten: Op = { name: 'user.forget', user_id: userId, agents: agents() }
    await write([forgotten, ...line, finishOf(job, again)], job.owner ?? '')
    // The job has named who is gone.
    if (isErased) await purge()
    return 'ended'
  }
}

/** null: the account was deleted, and nobody waits for the last byte. */
function erasureIn({ payload }: Job): Erasure | null {
  // Written by departureOf.
  const { erasure } = JSON.parse(payload) as JsonObject
  if (!isObject(erasure)) return null
  const { actor, request_id } = erasure
  return { actor: String(actor), request_id: typeof request_id === 'string' ? request_id : null }
}
