// The stored segments of one run that were read last. Readers that a fast run leaves behind share what the store gave to the first
// of them: read by each for itself it is megabytes a reader, and collecting that garbage costs more than sending it.
import type { Segment } from '../../store/store.ts'

/** Stored frames that are read in one go, in bytes: what a socket takes without keeping much. */
export const READ_BYTES = 256 * 1024
/** Bytes that are kept of one run: those of two reads. */
const KEPT_BYTES = 2 * READ_BYTES

export class SegmentCache {
  /** In the order in which they were read. */
  #kept: Segment[] = []
  #bytes = 0
  /** Reads that are under way, by where they begin. */
  readonly #underWay = new Map<number, Promise<readonly Segment[]>>()

  /** The segments from `from` on, as far as they are kept; else what `read` answers. Stored frames never change. */
  get(from: number, read: () => Promise<readonly Segment[]>): Promise<readonly Segment[]> {
    const kept = this.#keptFrom(from)
    if (kept.length > 0) return Promise.resolve(kept)
    const underWay = this.#underWay.get(from)
    if (underWay) return underWay
    const reading = read()
      .then((segments) => this.#keep(segments))
      .finally(() => this.#underWay.delete(from))
    this.#underWay.set(from, reading)
    return reading
  }

  /** Nobody is left to share them. */
  clear(): void {
    this.#kept = []
    this.#bytes = 0
  }

  #keptFrom(from: number): readonly Segment[] {
    const found: Segment[] = []
    let segment = this.#keptWith(from)
    while (segment) {
      found.push(segment)
      segment = this.#keptWith(segment.last + 1)
    }
    return found
  }

  #keptWith(n: number): Segment | undefined {
    return this.#kept.find(({ first, last }) => first <= n && n <= last)
  }

  #keep(segments: readonly Segment[]): readonly Segment[] {
    for (const segment of segments) {
      if (this.#keptWith(segment.first) && this.#keptWith(segment.last)) continue
      this.#kept.push(segment)
      this.#bytes += segment.data.length
    }
    while (this.#bytes > KEPT_BYTES) this.#bytes -= this.#kept.shift()!.data.length
    return segments
  }
}
