// Stored frames: segments of a run.

/**
 * Frames of one run that were written together. `data` holds their encoded bytes back to back, `index` five bytes per frame: its kind, then
 * its length as a little-endian u32, so that filtering or starting in the middle needs no parsing. Both may be views of larger memory that
 * others read: a store must not change them, and copies them to hand them to another thread.
 */
export interface Segment {
  readonly epoch: number
  readonly first: number
  readonly last: number
  readonly index: Uint8Array
  readonly data: Uint8Array
}

export interface FrameReads {
  /** Segments with frames n >= from, in order, up to about `maxBytes` of data (always at least one). Empty: none. */
  read(runKey: number, from: number, maxBytes: number): Promise<Segment[]>
  /** What is stored of a run: the first n of each epoch, in order, and the last n. Null: no frames (none written, or deleted). */
  bounds(runKey: number): Promise<{
    readonly first: number
    readonly last: number
    readonly epochs: readonly { readonly epoch: number; readonly first: number }[]
  } | null>
}
