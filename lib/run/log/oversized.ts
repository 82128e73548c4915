// Oversized frames: too large for the wire (`streams.event_bytes`), and not deltas, which are split. Readers get them cut, with a marker
// that says how large the whole is and where to fetch it. The log keeps the whole right behind the cut frame, in parts no filter passes: so
// it is stored, compacted, swept and deleted like every other frame, and readers skip it [needs N39].
import { type Json, type JsonObject, cutTo } from '../../types.ts'

/** From which size frames are cut, and where to fetch the whole. */
export interface Cutting {
  /** Bytes of a frame on the wire; 0: no limit. */
  readonly eventBytes: number
  /** URL of the full data of frame `n`. */
  url(n: number): string
}

/** The marker beside cut data. The first two fields are those that mark truncated traces [contract 4.2]. */
export type Marker = {
  readonly content_truncated: true
  /** Bytes of the frame's full data, which is JSON. */
  readonly original_byte_length: number
  /** Where to fetch it; supports Range. */
  readonly content_url: string
}

/** Makes the data of the cut frame: JSON of at most `max` bytes that contains the marker. */
export type Shorten = (max: number, marker: Marker) => string

/** Bytes per part: one slab, so that each is a segment of its own and a range reads only what it needs. */
export const PART_BYTES = 64 * 1024

/** What the frame behind a cut one says about the parts that follow. */
export type Whole = { readonly bytes: number; readonly part_bytes: number; readonly parts: number }

/** Bytes around the data of a frame: its event, its position. */
const FRAME_BYTES = 128

/** Whether data fits one frame of `eventBytes`; 0: any size does. */
export function fits(json: string, eventBytes: number): boolean {
  // A UTF-16 unit is one to three bytes: counted exactly only where that is not conclusive.
  if (eventBytes === 0 || json.length * 3 + FRAME_BYTES <= eventBytes) return true
  return json.length <= eventBytes && Buffer.byteLength(json) + FRAME_BYTES <= eventBytes
}

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

// --------------------------------------------------------------------------------------------------- cutting

/** The longest beginning of a text whose JSON takes at most `max` bytes, on a character boundary. */
export function cutText(text: string, max: number): string {
  let short = cutTo(text, max)
  for (let bytes = jsonBytes(short); bytes > max && short !== ''; bytes = jsonBytes(short))
    short = cutTo(text, Math.floor((short.length * max) / (bytes + 1)))
  return short
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

/** The value with its long texts cut to `max` bytes of JSON; null: its texts are not what makes it large. */
export function withShortTexts(value: JsonObject, max: number): Json | null {
  for (const each of [max >> 1, max >> 4, 64]) {
    const short = mapTexts(value, (text) => cutText(text, each))
    if (Buffer.byteLength(JSON.stringify(short)) <= max) return short
  }
  return null
}

function mapTexts(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value)
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map((inner) => mapTexts(inner, change))
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapTexts(inner, change)]))
}
