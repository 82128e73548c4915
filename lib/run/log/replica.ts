// Fills the log of a run that another process writes, from the store. A reader whose position is not known there yet waits until the
// store was read again: then it is known, or lost.
import type { Segment } from '../../store/store.ts'
import type { Run } from '../../base/types.ts'
import { Kind, type LogBounds, nextStored, type Position } from './frame.ts'
import type { Loaded, StoredFrames } from './stored-frames.ts'

/** A run's row as it is now; null: its thread was deleted. */
export type RowNow = () => Promise<Run | null>

/** The log that what was read goes into. */
interface ReadLog {
  readonly epoch: number
  readonly head: number
  readonly first: number
  shows(kind: Kind): boolean
  extend(segments: readonly Segment[], loaded: Loaded): void
  deliver(): void
}

export class Replica {
  readonly #log: ReadLog
  readonly #stored: StoredFrames
  /** Where the log is followed: the row says how many attempts were begun. */
  readonly #rowNow: RowNow | null
  /** Reads of the store, and how many there had been when a reader came with an unknown position. */
  #readsBegun = 0
  #readsDone = 0
  readonly #unplaced = new WeakMap<object, number>()
  #hasUnplaced = false

  constructor(log: ReadLog, stored: StoredFrames, rowNow: RowNow | null) {
    this.#log = log
    this.#stored = stored
    this.#rowNow = rowNow
  }

  /** Reads until nothing more is there. */
  async advance(): Promise<void> {
    const log = this.#log
    for (;;) {
      const from = log.head
      const read = ++this.#readsBegun
      const segments = await this.#stored.read(from)
      this.#readsDone = read
      if (segments.length === 0) {
        if (this.#hasUnplaced) log.deliver()
        this.#hasUnplaced = false
        return
      }
      // Before anybody is placed among its frames: a number names no attempt, and one may have been lost whole.
      if (this.#rowNow && segments.some(({ epoch }) => epoch !== log.epoch))
        this.#stored.run = (await this.#rowNow()) ?? this.#stored.run
      const wanted = { isShown: log.shows(Kind.values), from: 0, sink: null }
      log.extend(segments, await this.#stored.complete(from, segments, wanted, () => log.first))
    }
  }

  /** As `nextStored`: null until the store was read behind the coming of this position. */
  place(position: NonNullable<Position>, bounds: LogBounds): number | null {
    const since = this.#unplaced.get(position) ?? this.#readsBegun
    const from = nextStored(position, bounds, this.#readsDone > since)
    if (from === null) this.#unplaced.set(position, since)
    this.#hasUnplaced ||= from === null
    return from
  }
}
