// What the committer works with: sources, which hand records over, observers, which hear of commits, and its options.
import type { Group, OpName, Outcome } from '../../store/store.ts'
import type { OutageOptions } from './outage.ts'

/** Buffers records of its own and hands them over when the committer is ready: a run actor. */
export interface Source {
  /** Owned by the committer: the source waits for the window. A flag is cheaper than a Set, because every append sets it. */
  isWaiting: boolean
  /** Estimated bytes of what `take` would return. */
  readonly pendingBytes: number
  /** Everything buffered so far; null if there is nothing after all. */
  take(): Group | null
  /** The outcome of the group taken last; also called with a refusal when taking it threw. */
  committed(outcome: Outcome): void
}

export interface CommitObserver {
  /** Only batches with one of these ops concern it; absent: all do. Nearly all are frames. */
  readonly ops?: ReadonlySet<OpName>
  written?(groups: readonly Group[], outcomes: readonly Outcome[], ms: number): void
  /** Nothing was written. */
  failed?(error: unknown): void
}

export interface CommitterOptions extends OutageOptions {
  readonly observers?: readonly CommitObserver[]
  /** The window for frames, in ms. */
  readonly flushMs: number
  /** The oldest unstored record a run may have before agents wait for the store, in ms; 0: no limit. Default 2,000. */
  readonly unstoredMs?: number
  readonly onTrouble?: (error: unknown, attempts: number) => void
  /** A source threw, which it must not: its records are refused. */
  readonly onBroken?: (error: unknown) => void
}

const nothing = (): void => {}
export const DEFAULTS = {
  observers: [],
  stuckAfterMs: 30_000,
  downAfterMs: 1000,
  unstoredMs: 2000,
  troubleOf: () => null,
  onTrouble: nothing,
  onRecovered: nothing,
  onBroken: nothing
}
