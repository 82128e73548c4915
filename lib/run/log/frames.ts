// The frame log of one live run: what joiners can see, encoded once, in memory until it is stored and a little longer.
//
// Bytes are appended to slabs and never changed, so a slice of a slab can be handed to any number of sockets. A frame leaves
// memory only after its commit; behind the tail the log continues in the store. `values` frames hold no state but the id of its
// checkpoint: they are rendered when somebody reads them.
import type { Segment } from '../../store/store.ts'
import { bit, type Filter, Kind } from './filter.ts'
import { beginning, type Cutting, isGiant, PART_BYTES, type Shorten, shortened, wholeOf } from './giant.ts'
import { cursorPrefix, frameText } from '../delivery/sse.ts'

const SLAB_BYTES_FIRST = 4 * 1024
/** A part of a giant fills one, and is a segment of its own. */
const SLAB_BYTES_MAX = PART_BYTES
/** Enough for one write: what the next slab has is not copied together with it. */
const SLICE_BYTES_ENOUGH = 16 * 1024
/** Bytes a frame takes in the index of a segment: its kind, and its length as u32. */
export const INDEX_BYTES = 5

interface Slab {
  readonly bytes: Buffer
  used: number
  /** n of its first frame. */
  readonly first: number
  readonly kinds: Kind[]
  /** Where each frame ends. */
  readonly ends: number[]
  /** One bit for every kind it holds: tells whether a filter takes all of it. */
  mask: number
}

/** What a reader gets in one go: bytes for its socket, and the n from which it goes on. */
export interface Slice {
  readonly bytes: Buffer
  readonly next: number
  /** Frames in these bytes. */
  readonly count: number
}

/** Renders a values frame: the JSON text of that checkpoint's state, or null when it is not in memory. */
export type RenderValues = (checkpointId: string) => string | null

export class FrameLog {
  readonly epoch: number
  /** Of every cursor, made once: an epoch is a number too large for its text to be at hand. */
  readonly #prefix: string
  readonly #windowBytes: number
  readonly #cutting: Cutting | null
  readonly #slabs: Slab[] = []
  /** n of the frame that comes next. */
  #head: number
  /** First n that was not handed to the committer yet. */
  #taken: number
  #committed: number
  #bytes = 0
  #pendingBytes = 0

  /** `cutting` null: frames of any size go out as they are. */
  constructor(epoch: number, windowBytes: number, head = 0, cutting: Cutting | null = null) {
    this.epoch = epoch
    this.#prefix = cursorPrefix(epoch)
    this.#windowBytes = windowBytes
    this.#cutting = cutting
    this.#head = head
    this.#taken = head
    this.#committed = head
  }

  get head(): number {
    return this.#head
  }
  /** First n in memory; equal to `head` when there is none. */
  get first(): number {
    return this.#slabs[0]?.first ?? this.#head
  }
  /** Everything below is stored. */
  get committed(): number {
    return this.#committed
  }
  /** Bytes that are not stored yet. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }
  get bytesInMemory(): number {
    return this.#bytes
  }

  /** Appends a frame; `json` is its data on one line. `shorten` cuts it when it is too large for the wire. */
  append(kind: Kind, event: string, json: string, shorten?: Shorten): number {
    if (this.#cutting && isGiant(json, this.#cutting))
      return this.#appendGiant(kind, event, json, shorten ?? beginning(json), this.#cutting)
    return this.#appendText(kind, frameText(event, json, this.#cursor(this.#head)))
  }

  /** Joiners get it cut; all of it follows in parts that no filter takes. */
  #appendGiant(kind: Kind, event: string, json: string, shorten: Shorten, cutting: Cutting): number {
    const n = this.#head
    const bytes = Buffer.from(json)
    this.#appendText(kind, frameText(event, shortened(shorten, n, bytes.length, cutting), this.#cursor(n)))
    this.#appendText(Kind.whole, JSON.stringify(wholeOf(bytes.length)))
    for (let at = 0; at < bytes.length; at += PART_BYTES)
      this.#appendBytes(Kind.part, bytes.subarray(at, at + PART_BYTES))
    return n
  }

  /** Appends a reference to a checkpoint. */
  appendValues(checkpointId: string): number {
    return this.#appendText(Kind.values, checkpointId)
  }

  /** Appends frames that another process has stored, without a copy. They must follow the last one here. */
  appendStored(segment: Segment): void {
    const slab: Slab = {
      bytes: Buffer.from(segment.data.buffer, segment.data.byteOffset, segment.data.byteLength),
      used: segment.data.length,
      first: segment.first,
      kinds: [],
      ends: [],
      mask: 0
    }
    let end = 0
    for (const { kind, bytes } of framesOf(segment)) {
      end += bytes.length
      slab.kinds.push(kind)
      slab.ends.push(end)
      slab.mask |= bit(kind)
    }
    this.#slabs.push(slab)
    this.#bytes += slab.used
    this.#head = segment.last + 1
    this.#taken = this.#head
    this.commit(segment.last, 0)
  }

  #cursor(n: number): string {
    return this.#prefix + n
  }

  #appendText(kind: Kind, text: string): number {
    const slab = this.#slabFor(text)
    return this.#appended(slab, kind, slab.bytes.write(text, slab.used, 'utf8'))
  }

  #appendBytes(kind: Kind, bytes: Buffer): number {
    const last = this.#slabs.at(-1)
    const slab = last && last.bytes.length - last.used >= bytes.length ? last : this.#newSlab(bytes.length)
    return this.#appended(slab, kind, bytes.copy(slab.bytes, slab.used))
  }

  #appended(slab: Slab, kind: Kind, length: number): number {
    slab.used += length
    slab.kinds.push(kind)
    slab.ends.push(slab.used)
    slab.mask |= bit(kind)
    this.#bytes += length
    this.#pendingBytes += length
    return this.#head++
  }

  #slabFor(text: string): Slab {
    const last = this.#slabs.at(-1)
    // UTF-16 units take three bytes at most; the exact length is counted only where that does not fit.
    if (last && last.bytes.length - last.used >= text.length * 3) return last
    const length = Buffer.byteLength(text)
    if (last && last.bytes.length - last.used >= length) return last
    return this.#newSlab(length)
  }

  #newSlab(length: number): Slab {
    const last = this.#slabs.at(-1)
    const size = Math.max(length, last ? Math.min(SLAB_BYTES_MAX, last.bytes.length * 2) : SLAB_BYTES_FIRST)
    const slab: Slab = { bytes: Buffer.allocUnsafeSlow(size), used: 0, first: this.#head, kinds: [], ends: [], mask: 0 }
    this.#slabs.push(slab)
    return slab
  }

  /** Frames for the store: all that were not taken yet, a segment a slab, so that none is larger than one. */
  take(): Segment[] {
    const segments: Segment[] = []
    for (let s = this.#slabIndex(this.#taken); s < this.#slabs.length; s++) {
      const slab = this.#slabs[s]!
      const from = Math.max(0, this.#taken - slab.first)
      if (from < slab.ends.length) segments.push(segmentOf(slab, from, this.epoch))
    }
    this.#taken = this.#head
    return segments
  }

  /** The frames up to and with `last` are stored: what is behind the window leaves memory. */
  commit(last: number, bytes: number): void {
    this.#committed = last + 1
    this.#pendingBytes -= bytes
    while (this.#slabs.length > 1 && this.#bytes > this.#windowBytes) {
      const [oldest, second] = this.#slabs
      if (second!.first > this.#committed) return
      this.#slabs.shift()
      this.#bytes -= oldest!.used
    }
  }

  /** All is stored, and nothing comes any more: all leaves memory. */
  release(): void {
    this.#slabs.length = 0
    this.#bytes = 0
  }

  /**
   * What `filter` takes of the frames from `from` up to, without, `to`, about `maxBytes` of it. Without a copy where one slab
   * gives it. `from` must be in memory.
   */
  slice(from: number, filter: Filter, render: RenderValues, maxBytes: number, to = this.#head): Slice {
    const parts: Buffer[] = []
    let next = from
    let bytes = 0
    let count = 0
    for (let s = this.#slabIndex(from); next < to && bytes < Math.min(maxBytes, SLICE_BYTES_ENOUGH); s++) {
      const slab = this.#slabs[s]!
      const end = Math.min(slab.ends.length, to - slab.first)
      const cut = this.#cut(slab, next - slab.first, end, filter, render, parts, maxBytes - bytes)
      bytes += cut.bytes
      count += cut.count
      next = slab.first + cut.end
    }
    return { bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts), next, count }
  }

  #slabIndex(n: number): number {
    let s = this.#slabs.length - 1
    while (s > 0 && this.#slabs[s]!.first > n) s--
    return Math.max(0, s)
  }

  /** Cuts what passes out of one slab. Stops early only behind a values frame, which alone can be larger than a slab. */
  #cut(
    slab: Slab,
    from: number,
    end: number,
    filter: Filter,
    render: RenderValues,
    parts: Buffer[],
    maxBytes: number
  ): { bytes: number; count: number; end: number } {
    const whole = (slab.mask & ~filter.mask) === 0 && (slab.mask & bit(Kind.values)) === 0
    if (whole) {
      const piece = slab.bytes.subarray(startOf(slab, from), startOf(slab, end))
      parts.push(piece)
      return { bytes: piece.length, count: end - from, end }
    }
    let bytes = 0
    let count = 0
    for (const range of rangesOf((i) => slab.kinds[i]!, from, end, filter.mask, bit(Kind.values))) {
      const isValues = slab.kinds[range.begin] === Kind.values
      const piece = isValues
        ? this.#values(slab, range.begin, render)
        : slab.bytes.subarray(startOf(slab, range.begin), startOf(slab, range.end))
      parts.push(piece)
      bytes += piece.length
      count += range.end - range.begin
      if (isValues && bytes >= maxBytes) return { bytes, count, end: range.end }
    }
    return { bytes, count, end }
  }

  #values(slab: Slab, i: number, render: RenderValues): Buffer {
    const json = render(slab.bytes.toString('latin1', startOf(slab, i), slab.ends[i]!))
    // Its state is kept as long as the frame is in memory.
    if (json === null) throw new Error('the state of a values frame has left memory before it')
    return Buffer.from(frameText('values', json, this.#cursor(slab.first + i)))
  }

  /** The frames in memory from `from` up to, without, `to`, one by one: for readers that look inside. */
  *frames(from: number, to = this.#head): Generator<RawFrame> {
    for (let s = this.#slabIndex(from); s < this.#slabs.length; s++) {
      const slab = this.#slabs[s]!
      for (let i = Math.max(0, from - slab.first); i < slab.ends.length && slab.first + i < to; i++) {
        yield {
          n: slab.first + i,
          epoch: this.epoch,
          kind: slab.kinds[i]!,
          bytes: slab.bytes.subarray(startOf(slab, i), slab.ends[i]!)
        }
      }
    }
  }
}

/** The frames of a slab from its `from`-th on. */
function segmentOf(slab: Slab, from: number, epoch: number): Segment {
  const index = Buffer.allocUnsafe((slab.ends.length - from) * INDEX_BYTES)
  let at = 0
  for (let i = from; i < slab.ends.length; i++) {
    at = index.writeUInt8(slab.kinds[i]!, at)
    at = index.writeUInt32LE(slab.ends[i]! - startOf(slab, i), at)
  }
  // The very bytes that joiners get: a slab is never changed, only added to.
  const data = slab.bytes.subarray(startOf(slab, from), slab.used)
  return { epoch, first: slab.first + from, last: slab.first + slab.ends.length - 1, index, data }
}

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
export interface Stretch extends RawFrame {
  readonly last: number
}

/**
 * What `mask` takes of a stored segment from frame `from` on. Neighbours are one stretch, because an object a frame costs more than
 * to send it; alone are values frames, which are rendered, and those that tell of the parts of a giant, which are passed over.
 */
export function* stretchesOf(segment: Segment, from: number, mask: number): Generator<Stretch> {
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
function* rangesOf(
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

function startOf(slab: Slab, i: number): number {
  return i === 0 ? 0 : slab.ends[i - 1]!
}

let lastEpoch = 0

/**
 * An epoch for one attempt at a run: later than every one before it in this process, than those of the run's `past` attempts even
 * when the clock was set back meanwhile, and by the clock than those of other processes.
 */
export function newEpoch(past: readonly { readonly epoch: number }[] = [], now = Date.now()): number {
  lastEpoch = Math.max(now, lastEpoch + 1, ...past.map(({ epoch }) => epoch + 1))
  return lastEpoch
}
