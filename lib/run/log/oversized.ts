// Oversized frames: too large for the wire (`streams.event_bytes`), and not deltas, which are split. Readers get them cut, with a
// mark that says how large the whole is and where it is. The log keeps it whole, right behind the cut frame, in parts that no filter
// takes: so it is stored, compacted, swept and deleted like every other frame, and a reader steps over it [needs N39].
import { type Json, type JsonObject, cutTo } from '../../types.ts'

/** From which size on frames are cut, and where they are whole. */
export interface Cutting {
  /** Bytes of a frame on the wire; 0: no limit. */
  readonly eventBytes: number
  /** The address of the whole data of frame `n`. */
  url(n: number): string
}

/** Stands beside what was cut. The first two are the words in which cut traces are marked [contract 4.2]. */
export type Marker = {
  readonly content_truncated: true
  /** Bytes of the whole data of the frame, which is JSON. */
  readonly original_byte_length: number
  /** Where it is whole; takes Range. */
  readonly content_url: string
}

/** Makes the data of the cut frame, JSON of `max` bytes at most with the marker in it. */
export type Shorten = (max: number, marker: Marker) => string

/** Bytes of one part: that of a slab, so that each is a segment of its own and a range reads what it needs. */
export const PART_BYTES = 64 * 1024

/** What the frame behind a cut one tells about the parts behind itself. */
export type Whole = { readonly bytes: number; readonly part_bytes: number; readonly parts: number }

/** Bytes around the data of a frame: its event, its position. */
const FRAME_BYTES = 128

/** Whether data goes out in one frame of `eventBytes`, 0: of any size. */
export function fits(json: string, eventBytes: number): boolean {
  // A unit of the text is one to three bytes: the exact length is counted only where that leaves it open.
  if (eventBytes === 0 || json.length * 3 + FRAME_BYTES <= eventBytes) return true
  return json.length <= eventBytes && Buffer.byteLength(json) + FRAME_BYTES <= eventBytes
}

/** The data for the wire of a frame `n` whose whole data is `bytes` long. */
export function shortened(shorten: Shorten, n: number, bytes: number, { eventBytes, url }: Cutting): string {
  const marker: Marker = { content_truncated: true, original_byte_length: bytes, content_url: url(n) }
  return shorten(eventBytes - FRAME_BYTES - JSON.stringify(marker).length, marker)
}

/** How data is cut of which nothing is known but that it is JSON: its beginning, as a text. */
export function beginning(json: string): Shorten {
  return (max, marker) => JSON.stringify({ ...marker, content: cutText(json, max - 32) })
}

/** The frame behind a cut one, read. */
export function readWhole(bytes: Buffer): Whole {
  // Frames of this kind hold what `wholeOf` made.
  return JSON.parse(bytes.toString('latin1')) as Whole
}

export function wholeOf(bytes: number): Whole {
  return { bytes, part_bytes: PART_BYTES, parts: Math.ceil(bytes / PART_BYTES) }
}

// --------------------------------------------------------------------------------------------------- cutting

/** The beginning of a text whose JSON takes `max` bytes at most; a character is never cut in two. */
export function cutText(text: string, max: number): string {
  let short = cutTo(text, max)
  for (let bytes = jsonBytes(short); bytes > max && short !== ''; bytes = jsonBytes(short))
    short = cutTo(text, Math.floor((short.length * max) / (bytes + 1)))
  return short
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

/** The value with its long texts cut so that its JSON takes `max` bytes at most; null: its texts are not what makes it large. */
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
