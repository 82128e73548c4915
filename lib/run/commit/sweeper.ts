// Deletes what is older than it is to be kept: frames `streams.retention_hours` after the end of their run (messages, events and state
// stay), and events, runs, threads and lines of the audit after so many days. Works in small steps, so that no commit waits long behind one.
import { setTimeout as pause } from 'node:timers/promises'
import { Poller } from '../../base/poller.ts'
import { type Timestamp, timestamp } from '../../base/types.ts'
import { RETAINED, type Retained, type Writer } from '../../store/store.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const EVERY_MS = 600_000
const STEP_SEGMENTS = 200
/** Of one step: a run takes rows of six tables along. */
const STEP_ROWS: Readonly<Record<Retained, number>> = { events: 500, runs: 50, threads: 100, audit: 500 }
const PAUSE_MS = 20

/** How long things are kept; 0: for ever. */
interface Kept {
  readonly frameHours: number
  readonly days: Readonly<Record<Retained, number>>
}

/** `retention` of the configuration, by noun. */
export function daysKept(days: Readonly<Record<`${Retained}_days`, number>>): Kept['days'] {
  return { events: days.events_days, runs: days.runs_days, threads: days.threads_days, audit: days.audit_days }
}

/** What is older than this is not kept; null: all is. */
export function keptSince(days: number, now = Date.now()): Timestamp | null {
  return days > 0 ? agesAgo(days * DAY_MS, now) : null
}

/** Nothing is older than its first time: years before that are no time that a database takes. */
function agesAgo(ms: number, now: number): Timestamp {
  return timestamp(Math.max(0, now - ms))
}

export class Sweeper {
  readonly #writer: Writer
  readonly #kept: Kept
  readonly #poller: Poller
  #isStopped = false

  constructor(writer: Writer, kept: Kept, onTrouble: (error: unknown) => void) {
    this.#writer = writer
    this.#kept = kept
    this.#poller = new Poller({ everyMs: EVERY_MS, work: () => this.sweep().then(() => {}), onError: onTrouble })
  }

  start(): void {
    const { frameHours, days } = this.#kept
    if (frameHours > 0 || RETAINED.some((of) => days[of] > 0)) this.#poller.start(0)
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#poller.stop()
  }

  /** Removes what is too old. Resolves with how much of it there was: segments of frames, and rows. */
  async sweep(now = Date.now()): Promise<number> {
    let removed = this.#kept.frameHours > 0 ? await this.#sweepFrames(now) : 0
    for (const of of RETAINED) {
      const before = keptSince(this.#kept.days[of], now)
      if (before !== null) removed += await this.#sweepRows(of, before)
    }
    return removed
  }

  async #sweepFrames(now: number): Promise<number> {
    const before = agesAgo(this.#kept.frameHours * HOUR_MS, now)
    let removed = 0
    for (let after: number | null = 0; after !== null && !this.#isStopped; ) {
      const step: { removed: number; next: number | null } = await this.#writer.write({
        name: 'frames.sweep',
        before,
        after,
        limit: STEP_SEGMENTS
      })
      removed += step.removed
      after = step.next
      if (after !== null) await pause(PAUSE_MS)
    }
    return removed
  }

  async #sweepRows(of: Retained, before: Timestamp): Promise<number> {
    const limit = STEP_ROWS[of]
    let removed = 0
    while (!this.#isStopped) {
      const step = await this.#writer.write({ name: 'retention.sweep', of, before, limit })
      removed += step
      if (step < limit) break
      await pause(PAUSE_MS)
    }
    return removed
  }
}
