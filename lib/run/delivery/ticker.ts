// The one ticker of the process: decides when appended frames go out to joiners.
//
// A frame goes out at the end of the tick in which it came. Only when deliveries take more than a share of what the loop has left, for one
// run with many readers or for many runs, are frames coalesced, because a write costs the same for one frame as for ten: age grows only
// when the processor is the limit. Few readers never wait. There is one timer for all runs, armed only while one is due.
import { counters } from '../log/counters.ts'
import type { Tickable } from '../log/log-reader.ts'

const COALESCE_MS_MAX = 50
/** Coalescing time when one delivery takes longer than that: thousands of readers would keep the loop busy with nothing else. */
const COALESCE_MS_BURST = 100
/** Share of the time in which the loop has nothing to do that deliveries may take before coalescing grows. */
const SHARE_OF_IDLE = 0.3
/** Share of all time they may take however busy the loop is: it stays mostly free for models and requests. */
const SHARE_MIN = 0.04
/** Minimum time over which the shares are measured. */
const MEASURED_MS = 50

function loopIdleShare(): () => number {
  let before = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    return 1 - utilization
  }
}

export class Ticker {
  #now: Tickable[] = []
  #later: Tickable[] = []
  readonly #coalesceMsMin: number
  readonly #idleShare: () => number
  #coalesceMs: number
  /** When the first due one came, and the first of those due later. */
  #nowSince = 0
  #laterSince = 0
  /** Time spent in deliveries since. */
  #spentMs = 0
  #measuredSince = performance.now()
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null

  /**
   * @param coalesceMs minimum time frames of a busy run are coalesced
   * @param idleShare of the time since it was last asked, how much the loop had nothing to do: 0 to 1
   */
  constructor(coalesceMs = 0, idleShare = loopIdleShare()) {
    this.#idleShare = idleShare
    this.#coalesceMsMin = coalesceMs
    this.#coalesceMs = coalesceMs
  }

  /** `tickable` has appended something. */
  schedule(tickable: Tickable): void {
    if (tickable.isDue) return
    tickable.isDue = true
    const now = performance.now()
    const waitMs = tickable.deliveredAt + this.#coalesceMs - now
    if (waitMs > 0) {
      if (this.#later.length === 0) this.#laterSince = now
      this.#later.push(tickable)
      this.#timer ??= setTimeout(() => this.#coalesced(), waitMs)
      return
    }
    if (this.#now.length === 0) this.#nowSince = now
    this.#now.push(tickable)
    this.#immediate ??= setImmediate(() => this.#turnOver())
  }

  /** Tickables with frames to deliver. */
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
    // Cleared first: if one throws, the others must not stay due for ever.
    for (const tickable of due) tickable.isDue = false
    for (const tickable of due) {
      tickable.deliveredAt = started
      tickable.deliver()
    }
    const ended = performance.now()
    counters.lag.add((ended - since) / 1000)
    this.#adapt(ended - started, ended)
  }

  /** Scales coalescing with the share of time deliveries take, of that which the loop has left. */
  #adapt(deliveryMs: number, now: number): void {
    this.#spentMs += deliveryMs
    const measuredMs = now - this.#measuredSince
    if (measuredMs < MEASURED_MS) return
    const share = this.#spentMs / measuredMs
    const allowed = Math.max(SHARE_MIN, SHARE_OF_IDLE * this.#idleShare())
    const longest = deliveryMs > COALESCE_MS_MAX ? COALESCE_MS_BURST : COALESCE_MS_MAX
    // Starts at a millisecond: zero cannot be scaled. It shrinks only below half the share, so that it does not oscillate.
    if (share > allowed) this.#coalesceMs = Math.min(longest, (Math.max(1, this.#coalesceMs) * share) / allowed)
    else if (share < allowed / 2) this.#coalesceMs *= (2 * share) / allowed
    if (this.#coalesceMs < Math.max(1, this.#coalesceMsMin)) this.#coalesceMs = this.#coalesceMsMin
    this.#spentMs = 0
    this.#measuredSince = now
  }

  stop(): void {
    if (this.#immediate) clearImmediate(this.#immediate)
    if (this.#timer) clearTimeout(this.#timer)
  }
}
