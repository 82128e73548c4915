// Stored frames: segments of a run, and how they are read.

/**
 * Frames of one run that were written together. `data` holds their encoded bytes one after the other, `index` five bytes a
 * frame: its kind, then the length of its bytes as a little-endian u32. So a filter, or a start in the middle, parses nothing.
 * Given to a store both may be parts of larger memory that others read as well: they are not to be changed, and to hand them to
 * another thread is to copy them.
 */
export interface Segment {
  readonly epoch: number
  readonly first: number
  readonly last: number
  readonly index: Uint8Array
  readonly data: Uint8Array
}

export interface FrameReads {
  /** Segments that hold n >= from, in order, until `maxBytes` of data are together (always at least one). Empty: nothing there. */
  read(runKey: number, from: number, maxBytes: number): Promise<Segment[]>
  /** What is stored of a run: first n of each epoch, in order, and the last n. Null: no frames (none written, or swept). */
  bounds(runKey: number): Promise<{
    readonly first: number
    readonly last: number
    readonly epochs: readonly { readonly epoch: number; readonly first: number }[]
  } | null>
}
