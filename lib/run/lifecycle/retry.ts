// Reads that a run cannot do without, repeated while the store does not answer.
import { LeaseLost, StoreUnavailable } from '../../store/store.ts'

const RETRY_MS_FIRST = 20
const RETRY_MS_MAX = 1000
/** Attempts for an error that does not say that it passes: real damage, or a store that does not tell the two apart. */
const ATTEMPTS_MAX = 6

/**
 * What `read` answers. It is repeated as long as the store is unavailable, and a few times whatever else fails: an answer that was
 * given up for one failed read is lost for good. `isOver`: nobody needs it any more.
 * @throws what `read` has thrown last: the records are damaged, or it is over.
 */
export async function untilRead<T>(read: () => Promise<T>, isOver: () => boolean = () => false): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      const passes = error instanceof StoreUnavailable && !(error instanceof LeaseLost)
      if (isOver() || (!passes && attempt >= ATTEMPTS_MAX)) throw error
      await pause(Math.min(RETRY_MS_FIRST * 2 ** (attempt - 1), RETRY_MS_MAX))
      if (isOver()) throw error
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
