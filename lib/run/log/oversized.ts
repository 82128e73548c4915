// Oversized frames: too large for the wire (`streams.event_bytes`), and not deltas, which are split. Readers get them cut, with a marker
// that says how large the whole is and where to fetch it. The log keeps the whole right behind the cut frame, in parts no filter passes: so
// it is stored, compacted, swept and deleted like every other frame, and readers skip it [needs N39].
import { cutText, type Marker, type Shorten } from '../../conversation/wire.ts'
import { FRAME_BYTES } from './frame.ts'

/** From which size frames are cut, and where to fetch the whole. */
export interface Cutting {
  /** Bytes of a frame on the wire; 0: no limit. */
  readonly eventBytes: number
  /** URL of the full data of frame `n`. */
  url(n: number): string
}

/** Bytes per part: one slab, so that each is a segment of its own and a range reads only what it needs. */
export const PART_BYTES = 64 * 1024

/** What the frame behind a cut one says about the parts that follow. */
export type Whole = { readonly bytes: number; readonly part_bytes: number; readonly parts: number }

/** The data sent for frame `n`, whose full data is `bytes` long. */
export function shortened(shorten: Shorten, n: number, bytes: number, { eventBytes, url }: Cutting): string {
  const marker: Marker = { content_truncated: true, original_byte_length: bytes, content_url: url(n) }
  return shorten(eventBytes - FRAME_BYTES - JSON.stringify(marker).length, marker)
}

/** Fallback for data of unknown shape: the beginning of its JSON, as a text. */
export function beginning(json: string): Shorten {
  return (max, marker) => JSON.stringify({ ...marker, content: cutText(json, max - 32) })
}

/** Parses the frame behind a cut one. */
export function readWhole(bytes: Buffer): Whole {
  // Written by `wholeOf`.
  return JSON.parse(bytes.toString('latin1')) as Whole
}

export function wholeOf(bytes: number): Whole {
  return { bytes, part_bytes: PART_BYTES, parts: Math.ceil(bytes / PART_BYTES) }
}
