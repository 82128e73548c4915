// How many threads each user sees, remembered.
import type { Group, Op } from '../store.ts'

/** Counts that are remembered: more users than these look at lists at one time. */
const COUNTS_MAX = 10_000

/** How many threads each owner sees: counted when it is asked for, and forgotten when a thread comes or goes. */
export class ThreadCounts {
  readonly #known = new Map<string | null, number>()

  of(owner: string | null, count: () => number): number {
    const known = this.#known.get(owner)
    if (known !== undefined) return known
    if (this.#known.size >= COUNTS_MAX) this.#known.clear()
    const counted = count()
    this.#known.set(owner, counted)
    return counted
  }

  /** These were written. To be told before anybody hears of it [Store 4]. */
  written(groups: readonly Group[]): void {
    const changes = ({ name }: Op) => name === 'thread.create' || name === 'thread.remove'
    if (groups.some(({ ops }) => ops.some(changes))) this.#known.clear()
  }
}
