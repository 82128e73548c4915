// The one ticker of the process: decides when what a run has appended goes out to its joiners.
//
// A run that was quiet is delivered at the end of the turn in which its frame came. Under load what is due is gathered for 10 to
// 50 ms, because a write costs the same for one frame as for ten. There is one timer for all runs, armed only while one is due.
const QUIET_MS = 10
const GATHER_MS_MIN = 10
const GATHER_MS_MAX = 50
/** A gathering lasts at least this many times as long as the last delivery took: the loop stays mostly free. */
const GATHER_TO_DELIVERY = 4

/** Who has something to deliver: a run actor. */
export interface Tickable {
  /** When it delivered last, by `performance.now()`. */
  deliveredAt: number
  deliver(): void
}

export class Ticker {
  readonly #now = new Set<Tickable>()
  readonly #later = new Set<Tickable>()
  #gatherMs = GATHER_MS_MIN
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null

  /** `tickable` has appended something. */
  due(tickable: Tickable): void {
    if (this.#now.has(tickable) || this.#later.has(tickable)) return
    if (performance.now() - tickable.deliveredAt < QUIET_MS) {
      this.#later.add(tickable)
      this.#timer ??= setTimeout(() => this.#gathered(), this.#gatherMs)
      return
    }
    this.#now.add(tickable)
    this.#immediate ??= setImmediate(() => this.#turnOver())
  }

  /** Who has something to deliver. */
  get size(): number {
    return this.#now.size + this.#later.size
  }

  #turnOver(): void {
    this.#immediate = null
    this.#deliver(this.#now)
  }

  #gathered(): void {
    this.#timer = null
    const took = this.#deliver(this.#later)
    this.#gatherMs = Math.min(GATHER_MS_MAX, Math.max(GATHER_MS_MIN, took * GATHER_TO_DELIVERY))
  }

  #deliver(due: Set<Tickable>): number {
    const started = performance.now()
    const all = [...due]
    due.clear()
    for (const tickable of all) {
      tickable.deliveredAt = started
      tickable.deliver()
    }
    return performance.now() - started
  }

  stop(): void {
    if (this.#immediate) clearImmediate(this.#immediate)
    if (this.#timer) clearTimeout(this.#timer)
  }
}
