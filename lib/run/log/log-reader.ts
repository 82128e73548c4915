// A reader of a log, and what decides when readers are shown what was appended.
import type { Filter } from './filter.ts'
import type { Loaded } from './stored-frames.ts'

export interface LogReader {
  readonly filter: Filter
  /** There may be more; `loaded`: what was just read from the store. Never throws. */
  pump(loaded: Loaded | null): void
  /** Resets it: its client reconnects with its cursor. */
  reset(): void
}

/**
 * Something with frames to deliver: the log of a run. Its two fields belong to the ticker: flags are cheaper than
 * rebuilding a Set every tick.
 */
export interface Tickable {
  /** Last delivery, by `performance.now()`. */
  deliveredAt: number
  isDue: boolean
  deliver(): void
}

/** Decides when appended frames go out: the ticker. */
export interface Scheduler {
  schedule(log: Tickable): void
}
