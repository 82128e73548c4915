// Translated ranges of logs, shared by all readers that come to where one begins: those of a moment, and those a little behind them.
import { ofHeap } from '../../budget.ts'
import type { RunLog } from '../../run/log/run-log.ts'
import type { ProtocolEvent } from './event.ts'
import type { RunState } from './translate.ts'

export interface TranslatedRange {
  readonly next: number
  /** Behind it. */
  readonly state: RunState
  readonly events: readonly ProtocolEvent[]
  /** Of its events, as JSON. */
  readonly size: number
  /** False: it lacks states that nobody wanted. */
  readonly hasValues: boolean
}

/** Bytes of all ranges that are kept, as events and as encoded; without a bound readers that lag would keep whole logs a second time. */
const KEPT_BYTES = ofHeap(8 * 1024 * 1024, 32)
/** What a range takes besides its events. */
const OVERHEAD_BYTES = 512

type ByStart<R> = Map<number, R>

/** Frames never change, so a range holds as long as it is kept; the oldest go first, and all of a log with the log. */
export class Ranges<R extends TranslatedRange> {
  readonly #ofLogs = new WeakMap<RunLog, ByStart<R>>()
  readonly #kept = new Map<R, { readonly from: number; readonly of: ByStart<R>; bytes: number }>()
  #bytes = 0

  at(log: RunLog, from: number, withValues: boolean): R | undefined {
    const range = this.#ofLogs.get(log)?.get(from)
    return range && (range.hasValues || !withValues) ? range : undefined
  }

  keep(log: RunLog, from: number, range: R): R {
    const of = this.#ofLogs.get(log) ?? new Map<number, R>()
    this.#ofLogs.set(log, of)
    of.set(from, range)
    this.#kept.set(range, { from, of, bytes: 0 })
    this.grow(range, range.size)
    return range
  }

  /** A range has more bytes than before: those of another encoding, or of what somebody else wants of it. */
  grow(range: R, bytes: number): void {
    const kept = this.#kept.get(range)
    if (!kept) return
    kept.bytes += bytes + OVERHEAD_BYTES
    this.#bytes += bytes + OVERHEAD_BYTES
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const [range, { from, of, bytes }] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES) return
      this.#kept.delete(range)
      this.#bytes -= bytes
      if (of.get(from) === range) of.delete(from)
    }
  }
}
