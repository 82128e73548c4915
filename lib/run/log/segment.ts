// Segments as the store has them: what frames they hold, and which of these a reader takes.
import type { Segment } from '../../store/store.ts'
import { bit, Kind } from './filter.ts'

/** Bytes a frame takes in the index of a segment: its kind, and its length as u32. */
export const INDEX_BYTES = 5

/** One frame as it is logged: for kind values the id of its checkpoint, else the bytes of the wire. */
export interface RawFrame {
  readonly n: number
  readonly epoch: number
  readonly kind: Kind
  readonly bytes: Buffer
}

/** The frames of a stored segment. */
export function* framesOf(segment: Segment): Generator<RawFrame> {
  const { index, data } = viewsOf(segment)
  let at = 0
  for (let i = 0; i * INDEX_BYTES < index.length; i++) {
    const length = lengthAt(index, i)
    yield { n: segment.first + i, epoch: segment.epoch, kind: kindAt(index, i), bytes: data.subarray(at, at + length) }
    at += length
  }
}

/** Neighbours in a segment that a reader takes as they are, from `n` up to and with `last`; or one frame that it looks at. */
export interface FrameRange extends RawFrame {
  readonly last: number
}

/**
 * What `mask` takes of a stored segment from frame `from` on. Neighbours are one range, because an object a frame costs more than
 * to send it; alone are values frames, which are rendered, and those that tell of the parts of an oversized one, which are skipped.
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

/** The frames from `from` up to, without, `to` whose kinds are `taken`: neighbours together, those of the kinds `alone` by themselves. */
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

function viewsOf({ index, data }: Segment): { index: Buffer; data: Buffer } {
  return {
    index: Buffer.from(index.buffer, index.byteOffset, index.byteLength),
    data: Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  }
}

function kindAt(index: Buffer, i: number): Kind {
  // The byte was written from a Kind.
  return index.readUInt8(i * INDEX_BYTES) as Kind
}

function lengthAt(index: Buffer, i: number): number {
  return index.readUInt32LE(i * INDEX_BYTES + 1)
}
