// The one ticker of the process: decides when what a run has appended goes out to its joiners.
//
// A run that was quiet is delivered at the end of the turn in which its frame came. Under load what is due is gathered, because a
// write costs the same for one frame as for ten: the more of the time deliveries take, of one run with many readers or of many
// runs, the longer. There is one timer for all runs, armed only while one is due.
import { counters } from '../log/counters.ts'

const GATHER_MS_MIN = 10
const GATHER_MS_MAX = 50
/** What it is when a delivery takes longer than that: thousands of readers, who would keep the loop busy with nothing else. */
const GATHER_MS_CROWD = 100
/** Of the time, what deliveries may take before more is gathered: the loop stays mostly free, for models that speak and for requests. */
const SHARE_MAX = 0.04
/** For how long that share is measured, at least. */
const MEASURED_MS = 50

/** Who has something to deliver: a run actor. Its two fields are the ticker's: a set of hundreds, made anew for every tick, is dearer. */
export interface Tickable {
  /** When it delivered last, by `performance.now()`. */
  deliveredAt: number
  isDue: boolean
  deliver(): void
}

export class Ticker {
  #now: Tickable[] = []
  #later: Tickable[] = []
  readonly #gatherMsMin: number
  #gatherMs: number
  /** When the first of those came that are due now, and of those that are due later. */
  #nowSince = 0
  #laterSince = 0
  /** What deliveries have taken since. */
  #spentMs = 0
  #measuredSince = performance.now()
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null

  /** @param gatherMs for how long the frames of a busy run are gathered, at least; a run that was silent for as long is quiet */
  constructor(gatherMs = GATHER_MS_MIN) {
    this.#gatherMsMin = gatherMs
    this.#gatherMs = gatherMs
  }

  /** `tickable` has appended something. */
  schedule(tickable: Tickable): void {
    if (tickable.isDue) return
    tickable.isDue = true
    const now = performance.now()
    if (now - tickable.deliveredAt < this.#gatherMs) {
      if (this.#later.length === 0) this.#laterSince = now
      this.#later.push(tickable)
      this.#timer ??= setTimeout(() => this.#gathered(), this.#gatherMs)
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

  #gathered(): void {
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

  /** Gathers as much longer as deliveries take more than their share, and as much shorter as they take less. */
  #adapt(deliveryMs: number, now: number): void {
    this.#spentMs += deliveryMs
    const measuredMs = now - this.#measuredSince
    if (measuredMs < MEASURED_MS) return
    const longest = deliveryMs > GATHER_MS_MAX ? GATHER_MS_CROWD : GATHER_MS_MAX
    const toShare = this.#spentMs / measuredMs / SHARE_MAX
    // From a millisecond on: a server that gathers nothing would never begin to.
    const wanted = Math.max(1, this.#gatherMs) * toShare
    this.#gatherMs = Math.min(longest, Math.max(this.#gatherMsMin, wanted))
    this.#spentMs = 0
    this.#measuredSince = now
  }

  stop(): void {
    if (this.#immediate) clearImmediate(this.#immediate)
    if (this.#timer) clearTimeout(this.#timer)
  }
}
