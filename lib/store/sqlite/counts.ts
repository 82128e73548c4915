// Numbers that a search answers and that would take long to count each time: remembered until something is written that changes them.
import type { Group, OpName } from '../store.ts'

/** What is remembered at most: more users than these look at lists at one time. */
const COUNTS_MAX = 10_000

export class Counts<Key, Count> {
  readonly #known = new Map<Key, Count>()
  readonly #changing: readonly OpName[]

  /** `changing`: the ops after which everything is counted again. */
  constructor(changing: readonly OpName[]) {
    this.#changing = changing
  }

  /** What is known of it, or else what is counted now. */
  of(key: Key, count: () => Count): Count {
    const known = this.#known.get(key)
    if (known !== undefined) return known
    if (this.#known.size >= COUNTS_MAX) this.#known.clear()
    const counted = count()
    this.#known.set(key, counted)
    return counted
  }

  /** These were written. To be told before anybody hears of it [Store 4]. */
  written(groups: readonly Group[]): void {
    if (groups.some(({ ops }) => ops.some(({ name }) => this.#changing.includes(name)))) this.#known.clear()
  }
}
