// The stored segments of one run that were read last. Readers a fast run leaves behind share one read: separate reads
// cost megabytes each, and collecting that garbage costs more than sending it.
import type { Segment } from '../../store/store.ts'

/** Bytes of stored frames per read: what a socket takes without buffering much. */
export const READ_BYTES = 256 * 1024
/** Bytes kept per run: two reads. */
const KEPT_BYTES = 2 * READ_BYTES

export class SegmentCache {
  /** In read order. */
  #kept: Segment[] = []
  #bytes = 0
  /** Reads in progress, by start. */
  readonly #underWay = new Map<number, Promise<readonly Segment[]>>()

  /** The cached segments from `from` on, or what `read` returns. Stored frames never change. */
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

  /** No reader is left to share them. */
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
