// Retries reads a run cannot do without.
import { setTimeout as pause } from 'node:timers/promises'
import { backoffMs } from '../../base/waiting.ts'
import { AgentError } from '../../agent/runtime.ts'
import { LeaseLost, StoreUnavailable } from '../../store/store.ts'

const RETRY_MS = { first: 20, most: 1000 }
/** Attempts for errors not known to be temporary: real damage, or a store that cannot tell. */
const ATTEMPTS_MAX = 6

/**
 * Result of `read`. Repeated as long as the store is unavailable, and a few times for other errors: an answer given up
 * for one failed read is lost for good. `isOver`: nobody needs it any more.
 * @throws the last error of `read`, when records are damaged or it is over; what is meant for the user at once
 */
export async function untilRead<T>(read: () => Promise<T>, isOver: () => boolean = () => false): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      const passes = error instanceof StoreUnavailable && !(error instanceof LeaseLost)
      const isForUser = error instanceof AgentError
      if (isForUser || isOver() || (!passes && attempt >= ATTEMPTS_MAX)) throw error
      await pause(backoffMs(attempt - 1, RETRY_MS))
      if (isOver()) throw error
    }
  }
}
