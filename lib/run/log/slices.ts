// The slices made last of a run's frames in memory: joiners with one filter at one place share the bytes.
import type { Filter } from './filter.ts'
import type { Slice } from './frames.ts'

/** A write to a joiner that catches up from memory ends with the slab in which it has so many bytes: mostly one slab, uncopied. */
export const SLICE_BYTES = 48 * 1024

interface Made {
  readonly from: number
  readonly head: number
  readonly slice: Slice
}

export class Slices {
  readonly #made = new Map<Filter, Made>()

  /** The slice from `from` to `head` as `filter` takes it: the one made last for it, or a new one. */
  get(from: number, head: number, filter: Filter, make: () => Slice): Slice {
    const known = this.#made.get(filter)
    if (known && known.from === from && known.head === head) return known.slice
    const slice = make()
    this.#made.set(filter, { from, head, slice })
    return slice
  }

  /** Nobody is to share them any more. */
  clear(): void {
    this.#made.clear()
  }
}
