// What the states of running runs take of the heap. A run passes its whole conversation on, to its model and to its readers: one that is too
// long ends it with an error, and long ones wait until others have ended, or a few threads of one user end the process for everybody.
import { stateTooLong } from '../agent/runtime.ts'
import { Budget, ofHeap, type Share } from '../base/budget.ts'
import { onAbort, unlessAborted } from '../base/waiting.ts'
import type { StateBefore } from './run-state.ts'

/** Memory that a character of a state takes while its run goes on: its text, what the model is sent, what readers are. */
const CHARACTER_BYTES = 4
/** Of the heap: the states of a user, and those of everybody. */
const PARTS = { each: 4, all: 2 }
/** Shorter states, which nearly all are, are not counted: of the longest, this part. */
const SHORT_PART = 256

/** Who takes room: a run's user, until the signal aborts. */
interface Taker {
  readonly userId: string | null
  readonly signal: AbortSignal
  readonly share: Share | null
}

export class StateBudget {
  readonly #most: number
  readonly #short: number
  readonly #budget: Budget

  /**
   * @param most characters of the longest state with which a run begins
   * @param heap bytes; default what this process may have
   */
  constructor(most: number, heap = ofHeap(Number.POSITIVE_INFINITY, 1)) {
    this.#most = most
    this.#short = most / SHORT_PART
    this.#budget = new Budget({ each: heap / PARTS.each, all: heap / PARTS.all })
  }

  /**
   * Resolves with what was read as soon as there is room for it, which it takes until `signal` aborts: at the end of its run.
   * @param share what was taken for it before it was read again; null: nothing yet
   * @param again reads it once more. What was read is dropped: while it waits it takes no room
   * @throws AgentError that the state is too long
   */
  async within(
    before: StateBefore,
    { userId, signal, share }: Taker,
    again: (share: Share) => Promise<StateBefore | null>
  ): Promise<StateBefore | null> {
    const bytes = this.#bytesOf(before)
    if (bytes === 0 && share === null) return before
    signal.throwIfAborted()
    if (share !== null) {
      share.add(bytes - share.held)
      return before
    }
    const own = this.#budget.share(userId ?? '')
    onAbort(signal, () => own.release())
    return own.take(bytes) ? before : this.#later(own, bytes, signal, again)
  }

  /** Takes the room before it is read: all who wait would read at once. */
  async #later(
    share: Share,
    bytes: number,
    signal: AbortSignal,
    again: (share: Share) => Promise<StateBefore | null>
  ): Promise<StateBefore | null> {
    while (!share.take(bytes)) await unlessAborted(this.#budget.whenLess(), signal)
    try {
      return await again(share)
    } catch (error) {
      // Whoever tries it once more has another share.
      share.release()
      throw error
    }
  }

  /** 0: a state that is not counted. @throws AgentError that it is too long */
  #bytesOf({ saved }: StateBefore): number {
    const characters = saved?.characters ?? 0
    if (characters > this.#most) throw stateTooLong(characters, this.#most)
    return characters < this.#short ? 0 : characters * CHARACTER_BYTES
  }
}
