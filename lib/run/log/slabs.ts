// The frames of one run in memory: blocks of encoded frames, called slabs. What is written into a slab never changes, so a slice of it
// can be handed to any number of sockets.
import type { Segment } from '../../store/store.ts'
import type { Filter } from './filter.ts'
import { PART_BYTES } from './oversized.ts'
import { INDEX_BYTES, type RawFrame, rangesOf, TIME_ENTRY } from './segment.ts'
import { frameText, bit, Kind } from './frame.ts'
import { type FrameSink, isRead, type Slice } from './stored-frames.ts'

const SLAB_BYTES_FIRST = 4 * 1024
/** A part of an oversized frame fills one slab, and is a segment of its own. */
const SLAB_BYTES_MAX = PART_BYTES
/** A slice ends with the slab that brings it to this many bytes: mostly it is one slab, uncopied. */
const SLICE_BYTES_ENOUGH = 16 * 1024
/** A slice with states ends with the one that brings it to this many bytes. */
const SLICE_BYTES_MAX = 48 * 1024
/** The same for readers that merge deltas, about. */
const FOLDED_BYTES_MAX = 128 * 1024

/** A state that a values frame refers to: rendered when somebody reads the frame. */
export interface StateText {
  /** Its event; absent: `values`. */
  readonly event?: string
  json(): string
}

interface Slab {
  readonly bytes: Buffer
  used: number
  /** n of its first frame. */
  readonly first: number
  readonly kinds: Kind[]
  readonly ends: number[]
  /** States of its values frames, by index: a state leaves memory with its frame. */
  readonly states: Map<number, StateText>
  /** Estimated bytes these states add to the one before. */
  stateBytes: number
}

export class Slabs {
  /** Bytes of all frames in memory. */
  bytes = 0
  #stateBytes = 0
  readonly #slabs: Slab[] = []
  readonly #epoch: number
  readonly #prefix: string

  /** @param prefix of the cursors of this epoch */
  constructor(epoch: number, prefix: string) {
    this.#epoch = epoch
    this.#prefix = prefix
  }

  /** n of the first frame; undefined: there is none. */
  get first(): number | undefined {
    return this.#slabs[0]?.first
  }

  /** Adds frame `n`, and returns how many bytes it takes. */
  addText(n: number, kind: Kind, text: string): number {
    const last = this.#slabs.at(-1)
    // A UTF-16 unit takes at most three bytes; the exact length is counted only where that does not fit.
    const slab = last && hasSpace(last, text.length * 3) ? last : this.#slabOf(n, Buffer.byteLength(text))
    return this.#added(slab, kind, slab.bytes.write(text, slab.used, 'utf8'))
  }

  addBytes(n: number, kind: Kind, bytes: Buffer): number {
    const slab = this.#slabOf(n, bytes.length)
    return this.#added(slab, kind, bytes.copy(slab.bytes, slab.used))
  }

  /** The state of the values frame added last. `bytes`: what it adds to the state before. */
  addState(n: number, state: StateText, bytes: number): void {
    const slab = this.#slabs.at(-1)!
    slab.states.set(n - slab.first, state)
    slab.stateBytes += bytes
    this.#stateBytes += bytes
  }

  #added(slab: Slab, kind: Kind, length: number): number {
    slab.used += length
    slab.kinds.push(kind)
    slab.ends.push(slab.used)
    this.bytes += length
    return length
  }

  /** The slab for frame `n`, of so many bytes. */
  #slabOf(n: number, length: number): Slab {
    const last = this.#slabs.at(-1)
    return last && hasSpace(last, length) ? last : this.#newSlab(n, length)
  }

  #newSlab(first: number, length: number): Slab {
    const last = this.#slabs.at(-1)
    // Twice what the last one used: one full of states used little.
    const size = Math.max(length, SLAB_BYTES_FIRST, Math.min(SLAB_BYTES_MAX, (last?.used ?? 0) * 2))
    const bytes = Buffer.allocUnsafeSlow(size)
    const slab: Slab = { bytes, used: 0, first, kinds: [], ends: [], states: new Map(), stateBytes: 0 }
    this.#slabs.push(slab)
    return slab
  }

  /** The oldest slabs leave memory until the rest fits `windowBytes`, as far as their frames are stored: those below `committed`. */
  shrink(windowBytes: number, committed: number): void {
    while (this.#slabs.length > 1 && this.bytes + this.#stateBytes > windowBytes) {
      const [oldest, second] = this.#slabs
      if (second!.first > committed) return
      this.#slabs.shift()
      this.bytes -= oldest!.used
      this.#stateBytes -= oldest!.stateBytes
    }
  }

  clear(): void {
    this.#slabs.length = 0
    this.bytes = 0
    this.#stateBytes = 0
  }

  // --------------------------------------------------------------------------------------------------- reading

  /** The frames from `from` on, for the store: one segment per slab. */
  segmentsFrom(from: number): Segment[] {
    const segments: Segment[] = []
    for (let s = this.#indexOf(from); s < this.#slabs.length; s++) {
      const slab = this.#slabs[s]!
      const index = Math.max(0, from - slab.first)
      if (index < slab.ends.length) segments.push(segmentOf(slab, index, this.#epoch))
    }
    return segments
  }

  /** What `filter` passes of the frames in [`from`, `to`). Not copied when one slab has it all. */
  slice(from: number, to: number, filter: Filter): Slice {
    const parts: Buffer[] = []
    let next = from
    let bytes = 0
    let count = 0
    for (let s = this.#indexOf(from); next < to && bytes < SLICE_BYTES_ENOUGH; s++) {
      const slab = this.#slabs[s]!
      const cut = this.#cut(slab, next - slab.first, Math.min(slab.ends.length, to - slab.first), filter, parts, bytes)
      bytes += cut.bytes
      count += cut.count
      next = slab.first + cut.end
    }
    return { bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts), next, count }
  }

  #indexOf(n: number): number {
    let s = this.#slabs.length - 1
    while (s > 0 && this.#slabs[s]!.first > n) s--
    return Math.max(0, s)
  }

  /** Cuts the passing frames out of one slab. Stops early only after a values frame, which alone can be larger than a slab. */
  #cut(
    slab: Slab,
    from: number,
    end: number,
    filter: Filter,
    parts: Buffer[],
    before: number
  ): { bytes: number; count: number; end: number } {
    if (passesAll(slab, from, end, filter.mask)) {
      const piece = slab.bytes.subarray(startOf(slab, from), startOf(slab, end))
      parts.push(piece)
      return { bytes: piece.length, count: end - from, end }
    }
    let bytes = 0
    let count = 0
    for (const range of rangesOf((i) => slab.kinds[i]!, from, end, filter.mask, bit(Kind.values))) {
      const isValues = slab.kinds[range.begin] === Kind.values
      const piece = isValues
        ? this.#values(slab, range.begin)
        : slab.bytes.subarray(startOf(slab, range.begin), startOf(slab, range.end))
      parts.push(piece)
      bytes += piece.length
      count += range.end - range.begin
      if (isValues && before + bytes >= SLICE_BYTES_MAX) return { bytes, count, end: range.end }
    }
    return { bytes, count, end }
  }

  #values(slab: Slab, i: number): Buffer {
    const state = slab.states.get(i)!
    return Buffer.from(frameText(state.event ?? 'values', state.json(), this.#prefix + (slab.first + i)))
  }

  /** The state that values frame `n` refers to. */
  valuesOf(n: number): { readonly event: string; readonly json: string } {
    const slab = this.#slabs[this.#indexOf(n)]!
    const state = slab.states.get(n - slab.first)!
    return { event: state.event ?? 'values', json: state.json() }
  }

  /** Shows `sink` the frames from `from` up to `to`, until it has enough. */
  fold(from: number, to: number, filter: Filter, sink: FrameSink): Slice {
    let next = from
    let count = 0
    for (const frame of this.frames(from, to)) {
      const isShown = frame.n >= sink.from && (filter.mask & bit(frame.kind)) !== 0
      sink.take(frame, isShown || isRead(frame, sink) ? this.#textOf(frame) : null, isShown)
      next = frame.n + 1
      count++
      if (sink.bytes >= FOLDED_BYTES_MAX) break
    }
    return { bytes: sink.flush(), next, count }
  }

  /** A frame as readers get it: of values, with their state. */
  #textOf({ n, kind, bytes }: RawFrame): Buffer {
    if (kind !== Kind.values) return bytes
    const slab = this.#slabs[this.#indexOf(n)]!
    return this.#values(slab, n - slab.first)
  }

  /** The frames in [`from`, `to`), one by one. */
  *frames(from: number, to: number): Generator<RawFrame> {
    for (let s = this.#indexOf(from); s < this.#slabs.length; s++) {
      const slab = this.#slabs[s]!
      for (let i = Math.max(0, from - slab.first); i < slab.ends.length && slab.first + i < to; i++) {
        const bytes = slab.bytes.subarray(startOf(slab, i), slab.ends[i]!)
        yield { n: slab.first + i, epoch: this.#epoch, kind: slab.kinds[i]!, bytes }
      }
    }
  }
}

/** Whether a slab takes `length` more bytes. Not if its states are as large as a slab: they leave memory together. */
function hasSpace({ bytes, used, stateBytes }: Slab, length: number): boolean {
  return bytes.length - used >= length && stateBytes < SLAB_BYTES_MAX
}

/** Whether all of these frames go out as they stand: nearly always, for a reader at the tail. */
function passesAll({ kinds }: Slab, from: number, end: number, mask: number): boolean {
  const asTheyStand = mask & ~bit(Kind.values)
  for (let i = from; i < end; i++) if ((asTheyStand & bit(kinds[i]!)) === 0) return false
  return true
}

/** The frames of a slab from index `from` on, with the time. */
function segmentOf(slab: Slab, from: number, epoch: number): Segment {
  const index = Buffer.allocUnsafe((slab.ends.length - from + 1) * INDEX_BYTES)
  let at = index.writeUInt8(TIME_ENTRY, 0)
  at = index.writeUInt32LE(Math.max(0, Math.min(Date.now() - epoch, 0xffffffff)), at)
  for (let i = from; i < slab.ends.length; i++) {
    at = index.writeUInt8(slab.kinds[i]!, at)
    at = index.writeUInt32LE(slab.ends[i]! - startOf(slab, i), at)
  }
  // The same bytes readers get: a slab is only appended to.
  const data = slab.bytes.subarray(startOf(slab, from), slab.used)
  return { epoch, first: slab.first + from, last: slab.first + slab.ends.length - 1, index, data }
}

function startOf(slab: Slab, i: number): number {
  return i === 0 ? 0 : slab.ends[i - 1]!
}
