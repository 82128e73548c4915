// The log of a live run as its joiners see it: what is in memory, and behind that the store.
import type { Segment } from '../../store/store.ts'
import type { Run } from '../../types.ts'
import type { Filter } from './filter.ts'
import type { FrameLog, RawFrame, Slice } from './frames.ts'
import type { LogView } from '../delivery/joiner.ts'
import { Reads } from './reads.ts'
import { SLICE_BYTES, Slices } from './slices.ts'
import type { Steps } from './steps.ts'
import { gapBytes, type LogStore, readStored, valuesStored } from './view.ts'

export interface LiveLogParts {
  readonly run: Run
  readonly store: LogStore
  readonly frames: FrameLog
  readonly steps: Steps
  readonly isClosed: () => boolean
}

export class LiveLog implements LogView {
  readonly #parts: LiveLogParts
  readonly #frames: FrameLog
  readonly #slices = new Slices()
  readonly #reads = new Reads()
  /** With durability sync nothing is shown that is not stored. */
  readonly isSync: boolean

  constructor(parts: LiveLogParts) {
    this.#parts = parts
    this.#frames = parts.frames
    this.isSync = parts.run.kwargs.durability === 'sync'
  }

  get head(): number {
    return this.isSync ? this.#frames.committed : this.#frames.head
  }
  get first(): number {
    return this.#frames.first
  }
  get isClosed(): boolean {
    return this.#parts.isClosed()
  }

  slice(from: number, filter: Filter): Slice {
    const { head } = this
    return this.#slices.get(from, head, filter, () =>
      this.#frames.slice(from, filter, (id) => this.valuesInMemory(id), SLICE_BYTES, head)
    )
  }

  frames(from: number): Iterable<RawFrame> {
    return this.#frames.frames(from, this.head)
  }

  valuesInMemory(id: string): string | null {
    return this.#parts.steps.valuesInMemory(id)
  }

  readStored(from: number): Promise<readonly Segment[]> {
    return this.#reads.get(from, () => readStored(this.#parts.store, this.#parts.run, from))
  }

  /** `id` null: the newest of the thread. */
  async valuesStored(id: string | null): Promise<string | null> {
    const inMemory = id === null ? null : this.valuesInMemory(id)
    return inMemory ?? (await valuesStored(this.#parts.store, this.#parts.run, id))
  }

  gapBytes(from: number): Promise<Buffer> {
    return gapBytes(this.#parts.store, this.#parts.run, from)
  }

  /** What is in memory is not needed any more: readers that are behind have it from the store. */
  release(): void {
    this.#frames.release()
    this.#slices.clear()
  }

  /** Nobody reads any more: what joiners shared is let go. */
  unread(): void {
    this.#slices.clear()
    this.#reads.clear()
  }
}
