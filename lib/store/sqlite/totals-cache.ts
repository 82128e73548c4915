// Totals of searches, which would take long to count each time: cached until a write changes them.
import type { Group, OpName } from '../store.ts'

/** Maximum entries: more users than look at lists at once. */
const COUNTS_MAX = 10_000

export class TotalsCache<Key, Count> {
  readonly #known = new Map<Key, Count>()
  #version = 0

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

  /** Drops all totals: what they count has changed. */
  clear(): void {
    this.#version++
    this.#known.clear()
  }
}

const CHANGES: readonly OpName[] = ['thread.create', 'thread.patch', 'thread.remove']

/** How groups change the threads that are searched: nearly all are frames, which change nothing. */
export function threadChanges(groups: readonly Group[]): Set<OpName> {
  const found = new Set<OpName>()
  for (const { ops } of groups) for (const { name } of ops) if (CHANGES.includes(name)) found.add(name)
  return found
}
