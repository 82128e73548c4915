// The one ticker of the process: decides when what a run has appended goes out to its joiners.
//
// A frame goes out at the end of the turn in which it came. Only when deliveries take more than a small share of the time, of one run
// with many readers or of many runs, are frames coalesced, because a write costs the same for one frame as for ten: few readers never
// wait. There is one timer for all runs, armed only while one is due.
import { counters } from '../log/counters.ts'

const COALESCE_MS_MAX = 50
/** What it is when one delivery takes longer than that: thousands of readers, who would keep the loop busy with nothing else. */
const COALESCE_MS_BURST = 100
/** Of the time, what deliveries may take before more is coalesced: the loop stays mostly free, for models that speak and for requests. */
const SHARE_MAX = 0.04
/** Less is coalesced only below this, so that what helped is not taken back because it helped. */
const SHARE_MIN = SHARE_MAX / 2
/** For how long that share is measured, at least. */
const MEASURED_MS = 50

/** What has something to deliver: the log of a run. Its two fields are the ticker's: flags are cheaper than a set made anew every tick. */
export interface Tickable {
  /** When it delivered last, by `performance.now()`. */
  deliveredAt: number
  isDue: boolean
  deliver(): void
}

export class Ticker {
  #now: Tickable[] = []
  #later: Tickable[] = []
  readonly #coalesceMsMin: number
  #coalesceMs: number
  /** When the first of those came that are due now, and of those that are due later. */
  #nowSince = 0
  #laterSince = 0
  /** What deliveries have taken since. */
  #spentMs = 0
  #measuredSince = performance.now()
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null

  /** @param coalesceMs for how long the frames of a busy run wait for others, at least */
  constructor(coalesceMs = 0) {
    this.#coalesceMsMin = coalesceMs
    this.#coalesceMs = coalesceMs
  }

  /** `tickable` has appended something. */
  schedule(tickable: Tickable): void {
    if (tickable.isDue) return
    tickable.isDue = true
    const now = performance.now()
    if (now - tickable.deliveredAt < this.#coalesceMs) {
      if (this.#later.length === 0) this.#laterSince = now
      this.#later.push(tickable)
      this.#timer ??= setTimeout(() => this.#coalesced(), this.#coalesceMs)
      return
    }
    if (this.#now.length === 0) this.#nowSince = now
    this.#now.push(tickable)
    this.#immediate ??= setImmediate(() => this.#turnOver())
  }

  /** Who has something to deliver. */
  get size(): number {
    return this.#now.length + this.#later.length
  }

  #turnOver(): void {
    this.#immediate = null
    const due = this.#now
    this.#now = []
    this.#deliver(due, this.#nowSince)
  }

  #coalesced(): void {
    this.#timer = null
    const due = this.#later
    this.#later = []
    this.#deliver(due, this.#laterSince)
  }

  #deliver(due: readonly Tickable[], since: number): void {
    const started = performance.now()
    // All of them first: should one throw, the others are not taken for due for ever.
    for (const tickable of due) tickable.isDue = false
    for (const tickable of due) {
      tickable.deliveredAt = started
      tickable.deliver()
    }
    const ended = performance.now()
    counters.lag.add((ended - since) / 1000)
    this.#adapt(ended - started, ended)
  }

  /** Coalesces as much longer as deliveries take more than their share; shorter when they take much less. */
  #adapt(deliveryMs: number, now: number): void {
    this.#spentMs += deliveryMs
    const measuredMs = now - this.#measuredSince
    if (measuredMs < MEASURED_MS) return
    const share = this.#spentMs / measuredMs
    const longest = deliveryMs > COALESCE_MS_MAX ? COALESCE_MS_BURST : COALESCE_MS_MAX
    // From a millisecond on: nothing times anything is nothing.
    if (share > SHARE_MAX) this.#coalesceMs = Math.min(longest, (Math.max(1, this.#coalesceMs) * share) / SHARE_MAX)
    else if (share < SHARE_MIN) this.#coalesceMs *= share / SHARE_MIN
    if (this.#coalesceMs < Math.max(1, this.#coalesceMsMin)) this.#coalesceMs = this.#coalesceMsMin
    this.#spentMs = 0
    this.#measuredSince = now
  }

  stop(): void {
    if (this.#immediate) clearImmediate(this.#immediate)
    if (this.#timer) clearTimeout(this.#timer)
  }
}
