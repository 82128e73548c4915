// Segments as stored: which frames they hold, and which of them a reader's filter passes.
import type { Segment } from '../../store/store.ts'
import { bit, Kind } from './frame.ts'

/** Bytes a frame takes in the index of a segment: its kind, and its length as u32. */
export const INDEX_BYTES = 5
/**
 * In place of a kind: the entry is no frame, and its number is when those that follow were handed to the store, in ms after the epoch.
 * Segments of earlier versions have none.
 */
export const TIME_ENTRY = 255

/** One frame as it is logged: for kind values the id of its checkpoint, else the bytes of the wire. */
export interface RawFrame {
  readonly n: number
  readonly epoch: number
  readonly kind: Kind
  readonly bytes: Buffer
}

export function* framesOf(segment: Segment): Generator<RawFrame> {
  const { index, data } = viewsOf(segment)
  let at = 0
  for (let i = 0; i * INDEX_BYTES < index.length; i++) {
    const length = lengthAt(index, i)
    yield { n: segment.first + i, epoch: segment.epoch, kind: kindAt(index, i), bytes: data.subarray(at, at + length) }
    at += length
  }
}

/** Adjacent frames in a segment that a filter passes, from `n` up to and including `last`; or one frame to look at. */
export interface FrameRange extends RawFrame {
  readonly last: number
}

/**
 * What `mask` passes of a stored segment from frame `from` on. Adjacent frames are one range, because an object per
 * frame costs more than sending it. Values frames stand alone, because they are rendered, and so do those that describe
 * the parts of an oversized frame, because the parts are skipped.
 */
export function* frameRangesOf(segment: Segment, from: number, mask: number): Generator<FrameRange> {
  const { first, epoch } = segment
  const { index, data } = viewsOf(segment)
  const kindOf = (i: number) => kindAt(index, i)
  const count = index.length / INDEX_BYTES
  const [taken, alone] = [mask | bit(Kind.whole), bit(Kind.values) | bit(Kind.whole)]
  let passed = 0
  let at = 0
  const startAt = (i: number): number => {
    for (; passed < i; passed++) at += lengthAt(index, passed)
    return at
  }
  for (const { begin, end } of rangesOf(kindOf, Math.max(0, from - first), count, taken, alone)) {
    const start = startAt(begin)
    const bytes = data.subarray(start, startAt(end))
    yield { n: first + begin, last: first + end - 1, epoch, kind: kindOf(begin), bytes }
  }
}

/** Frames `begin` up to, without, `end`. */
interface Range {
  readonly begin: number
  readonly end: number
}

/** The frames in [`from`, `to`) whose kinds are in `taken`: adjacent ones together, those of `alone` by themselves. */
export function* rangesOf(
  kindOf: (i: number) => Kind,
  from: number,
  to: number,
  taken: number,
  alone: number
): Generator<Range> {
  const isJoined = (i: number) => (taken & ~alone & bit(kindOf(i))) !== 0
  for (let begin = from; begin < to; ) {
    let end = begin + 1
    if (isJoined(begin)) while (end < to && isJoined(end)) end++
    if ((taken & bit(kindOf(begin))) !== 0) yield { begin, end }
    begin = end
  }
}

/** When frames were handed to the store, in unix ms: those from `n` on, up to the next entry. */
interface FrameTime {
  readonly n: number
  readonly at: number
}

export function* timesOf({ epoch, first, index }: Segment): Generator<FrameTime> {
  const entries = Buffer.from(index.buffer, index.byteOffset, index.byteLength)
  let n = first
  for (let i = 0; i * INDEX_BYTES < entries.length; i++) {
    if (entries[i * INDEX_BYTES] === TIME_ENTRY) yield { n, at: epoch + lengthAt(entries, i) }
    else n++
  }
}

function viewsOf({ index, data }: Segment): { index: Buffer; data: Buffer } {
  return {
    index: withoutTimes(Buffer.from(index.buffer, index.byteOffset, index.byteLength)),
    data: Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  }
}

/** A segment begins with its time; a block of several has theirs in between. */
function withoutTimes(index: Buffer): Buffer {
  const parts: Buffer[] = []
  let from = 0
  for (let at = 0; at < index.length; at += INDEX_BYTES) {
    if (index[at] !== TIME_ENTRY) continue
    if (at > from) parts.push(index.subarray(from, at))
    from = at + INDEX_BYTES
  }
  return parts.length === 0 ? index.subarray(from) : Buffer.concat([...parts, index.subarray(from)])
}

function kindAt(index: Buffer, i: number): Kind {
  // The byte was written from a Kind.
  return index.readUInt8(i * INDEX_BYTES) as Kind
}

function lengthAt(index: Buffer, i: number): number {
  return index.readUInt32LE(i * INDEX_BYTES + 1)
}
