// Totals of searches, which would take long to count each time: cached until a write changes them.
import type { Group, OpName } from '../store.ts'

/** Maximum entries: more users than look at lists at once. */
const COUNTS_MAX = 10_000

export class TotalsCache<Key, Count> {
  readonly #known = new Map<Key, Count>()
  readonly #changing: readonly OpName[]
  #version = 0

  /** `changing`: ops that invalidate all totals. */
  constructor(changing: readonly OpName[]) {
    this.#changing = changing
  }

  known(key: Key): Count | undefined {
    return this.#known.get(key)
  }

  /** Changes with every invalidation. */
  get version(): number {
    return this.#version
  }

  /** Caches a total counted at `version`, unless it was invalidated meanwhile. */
  note(key: Key, count: Count, version: number): void {
    if (version !== this.#version) return
    if (this.#known.size >= COUNTS_MAX) this.#known.clear()
    this.#known.set(key, count)
  }

  /** Called after writes, before they are acknowledged [Store 4]. */
  written(groups: readonly Group[]): void {
    if (groups.some(({ ops }) => ops.some(({ name }) => this.#changing.includes(name)))) {
      this.#version++
      this.#known.clear()
    }
  }
}
