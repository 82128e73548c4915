// Numbers that a search answers and that would take long to count each time: remembered until something is written that changes them.
import type { Group, OpName } from '../store.ts'

/** What is remembered at most: more users than these look at lists at one time. */
const COUNTS_MAX = 10_000

export class TotalsCache<Key, Count> {
  readonly #known = new Map<Key, Count>()
  readonly #changing: readonly OpName[]
  #version = 0

  /** `changing`: the ops after which everything is counted again. */
  constructor(changing: readonly OpName[]) {
    this.#changing = changing
  }

  known(key: Key): Count | undefined {
    return this.#known.get(key)
  }

  /** Changes with every write after which all is counted again. */
  get version(): number {
    return this.#version
  }

  /** What was counted since the version was `version`: it holds if nothing was written meanwhile. */
  note(key: Key, count: Count, version: number): void {
    if (version !== this.#version) return
    if (this.#known.size >= COUNTS_MAX) this.#known.clear()
    this.#known.set(key, count)
  }

  /** These were written. To be told before anybody hears of it [Store 4]. */
  written(groups: readonly Group[]): void {
    if (groups.some(({ ops }) => ops.some(({ name }) => this.#changing.includes(name)))) {
      this.#version++
      this.#known.clear()
    }
  }
}
