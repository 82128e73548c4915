// One reader of a run on one wire: a cursor and a socket, never a queue.
//
// A joiner stands at `next`, the n it has not been sent yet. As long as its socket has space it is moved on: from memory in the
// same turn, from the store when it is behind memory. A full socket is left alone until it drains, and then goes on from the log
// where it stands, whatever has happened meanwhile.
//
// Phases: (`waiting`: it is not known yet where it stands) -> `reading` -> `ending` (`end` was said, but its socket has not taken
// everything yet) -> `gone`. A joiner that ends is still counted, found by a revocation and watched for a stall: a client that never
// reads must not keep its socket for ever.
import { Accumulator } from '../log/accumulator.ts'
import { bit, type Filter, Kind } from '../log/filter.ts'
import { framesOf, type RawFrame, type Slice, type Stretch, stretchesOf } from '../log/frames.ts'
import type { Snapshot } from './snapshot.ts'
import { cursorText, END_FRAME, frameText, HEARTBEAT } from './sse.ts'
import { tally } from '../commit/tally.ts'
import { readWhole } from '../log/whole.ts'
import type { Segment } from '../../store/store.ts'
import type { Wire } from '../../wire.ts'

/** A run's log as its joiners see it: the live one of an actor, or what the store holds of a finished run. */
export interface LogView {
  /** n of the frame that comes next. */
  readonly head: number
  /** First n in memory. */
  readonly first: number
  /** The run is terminal and all of it is stored: `end` may go out. */
  readonly isClosed: boolean
  /** Frames in memory from n on, as the filter takes them. */
  slice(from: number, filter: Filter): Slice
  /** Frames in memory one by one, and the state of a values frame in memory. */
  frames(from: number): Iterable<RawFrame>
  valuesInMemory(checkpointId: string): string | null
  /** Segments from n on; empty when they are gone. */
  readStored(from: number): Promise<readonly Segment[]>
  valuesStored(checkpointId: string): Promise<string | null>
  /** What a joiner is told whose frames are gone: a gap, then the final state [contract 3.9]. */
  gapBytes(from: number): Promise<Buffer>
}

/** Whose stream it is, so that it can be found when its credential is revoked. */
export interface Reader {
  readonly userId: string | null
  /** Digest of the session token or API token the stream was opened with. */
  readonly credential: string | null
  /** Asks whether that credential still stands. Absent: nothing can end it. */
  readonly holds?: () => Promise<boolean>
}

/** Bytes of one write of a joiner that catches up from the store, and so what one keeps that stalls; a state may be larger alone. */
const WRITE_BYTES = 128 * 1024
/** Bytes of one write, about, of a joiner that accumulates from memory. */
const ACCUMULATED_MAX = 128 * 1024

/** Why a joiner is gone: its client went, it was told everything, or we broke it off. */
export type Leaving = 'left' | 'ended' | 'reset'

type Phase = 'waiting' | 'reading' | 'ending' | 'gone'

export class Joiner {
  readonly reader: Reader
  readonly #wire: Wire
  readonly #view: LogView
  readonly #filter: Filter
  #accumulator: Accumulator | null = null
  /** Called once, when the joiner is gone for whatever reason. */
  readonly #onLeave: (joiner: Joiner, why: Leaving) => void
  #phase: Phase = 'waiting'
  /** Frames below were seen before, or are part of the snapshot. */
  #from = 0
  #next = 0
  /** What is sent first, as soon as all of it may be shown. */
  #opening: Snapshot | null = null
  #isFull = false
  /** When its socket became full, or its end was said. */
  #waitsSince = 0
  /** A read of the store is under way. */
  #isBehind = false

  /** `start` null: it waits, with signs of life, until it is told where to begin. */
  constructor(
    wire: Wire,
    view: LogView,
    filter: Filter,
    start: number | Snapshot | null,
    reader: Reader,
    onLeave: (joiner: Joiner, why: Leaving) => void
  ) {
    this.#wire = wire
    this.#view = view
    this.#filter = filter
    this.#onLeave = onLeave
    this.reader = reader
    if (start !== null) this.begin(start)
    wire.onDrain(() => this.#drained())
    wire.onClose(() => this.#leave(this.#phase === 'ending' ? 'ended' : 'left'))
  }

  /** Begins with the frame `start`, or with a snapshot and what follows it; `pump` sends it. */
  begin(start: number | Snapshot): void {
    if (this.#phase !== 'waiting') return
    this.#phase = 'reading'
    this.#opening = typeof start === 'number' ? null : start
    this.#from = typeof start === 'number' ? start : start.next
    // Whoever has the last frame of a run that is over has everything: nothing is read for it, and nothing can be missing.
    const hasAll = this.#view.isClosed && this.#from === this.#view.head
    this.#accumulator = this.#filter.accumulate && !hasAll ? new Accumulator(this.#from, this.#opening?.partial) : null
    // Whole messages are folded from the first frame on, unless a snapshot has them; what the joiner has seen is not shown again.
    this.#next = this.#accumulator && !this.#opening ? 0 : this.#from
  }

  /** It was told everything; its socket may still hold some of it. */
  get isEnding(): boolean {
    return this.#phase === 'ending'
  }

  /** Sends what there is for this joiner, as far as its socket takes it. Safe to call at any time. */
  pump(): void {
    while (!this.#isFull && !this.#isBehind && this.#phase === 'reading') {
      if (this.#opening) {
        // With durability sync nothing is shown that is not stored.
        if (this.#view.head < this.#opening.next) return
        this.#open(this.#opening)
      } else if (this.#next < this.#view.first) {
        void this.#readOn()
        return
      }
      if (this.#next < this.#view.head) this.#sendFromMemory()
      else if (this.#view.isClosed) this.#finish()
      else return
    }
  }

  /**
   * A sign of life, at a frame border; a full socket has one already. One that has not taken what it was given for `stallMs` (0:
   * for ever) is no reader any more: it is reset and comes back by its cursor, if at all.
   */
  beat(stallMs = 0): void {
    if (this.#phase === 'gone') return
    const isWaiting = this.#isFull || this.#phase === 'ending'
    if (!isWaiting) this.#send(HEARTBEAT)
    else if (stallMs > 0 && performance.now() - this.#waitsSince > stallMs) {
      tally.stalled++
      this.reset()
    }
  }

  /** Breaks the stream off: the client comes back by its cursor. */
  reset(): void {
    if (this.#phase === 'gone') return
    this.#leave('reset')
    this.#wire.reset()
  }

  #open({ bytes }: Snapshot): void {
    this.#opening = null
    this.#send(bytes)
  }

  #sendFromMemory(): void {
    if (this.#accumulator) {
      this.#accumulate(this.#accumulator)
      return
    }
    const { bytes, next, count } = this.#view.slice(this.#next, this.#filter)
    this.#next = next
    tally.frames += count
    this.#send(bytes)
  }

  #accumulate(accumulator: Accumulator): void {
    for (const frame of this.#view.frames(this.#next)) {
      accumulator.take(frame, this.#shown(frame, this.#valuesInMemory(frame)))
      tally.frames++
      this.#next = frame.n + 1
      if (accumulator.bytes >= ACCUMULATED_MAX) break
    }
    this.#send(accumulator.flush())
  }

  #valuesInMemory(frame: RawFrame): string | null {
    if (frame.kind !== Kind.values || !this.#takes(frame)) return null
    const json = this.#view.valuesInMemory(frame.bytes.toString('latin1'))
    // Its state is kept as long as the frame is in memory.
    if (json === null) throw new Error('the state of a values frame has left memory before it')
    return json
  }

  #send(bytes: Buffer): void {
    tally.bytes += bytes.length
    if (bytes.length === 0 || this.#wire.write(bytes)) return
    this.#isFull = true
    this.#waitsSince = performance.now()
  }

  #drained(): void {
    this.#isFull = false
    this.pump()
  }

  /** Catches up from the store. The only awaits of a joiner; nothing is decided on what was read before one of them. */
  async #readOn(): Promise<void> {
    this.#isBehind = true
    try {
      const segments = await this.#view.readStored(this.#next)
      const isThere = segments[0] !== undefined && segments[0].first <= this.#next
      await (isThere ? this.#sendSegments(segments) : this.#skipTo(segments[0]?.first ?? this.#view.first))
      this.#isBehind = false
      this.pump()
    } catch {
      // The store does not answer: the client comes back by its cursor.
      this.#isBehind = false
      this.reset()
    }
  }

  async #sendSegments(segments: readonly Segment[]): Promise<void> {
    const parts: Buffer[] = []
    let size = 0
    for (const segment of segments) {
      // A hole: the joiner is told about it in the next round.
      if (segment.first > this.#next) break
      for (const piece of this.#piecesOf(segment)) {
        if (size > 0 && size + piece.bytes.length > WRITE_BYTES) {
          this.#sendParts(parts.splice(0))
          size = 0
          // What a full socket cannot take now is read again when it drains: kept for it, it would be a queue.
          if (this.#isFull || this.#phase !== 'reading') return
        }
        const isValues = piece.kind === Kind.values && this.#takes(piece)
        const values = isValues ? await this.#view.valuesStored(piece.bytes.toString('latin1')) : null
        // Its state could not be stored, or is gone: that is told, and not passed over.
        const bytes = isValues && values === null ? await this.#view.gapBytes(piece.n) : this.#shown(piece, values)
        if (bytes) tally.frames += piece.last - piece.n + 1
        if (this.#accumulator) this.#accumulator.take(piece, bytes)
        else if (bytes) parts.push(bytes)
        // Of what is accumulated only the states are as large as they are read.
        size += (this.#accumulator ? values?.length : bytes?.length) ?? 0
        this.#next = piece.last + 1 + (piece.kind === Kind.whole ? readWhole(piece).parts : 0)
      }
      // Whatever a segment holds, it is behind the joiner now.
      this.#next = Math.max(this.#next, segment.last + 1)
    }
    this.#sendParts(parts)
  }

  /** What is sent as it stands goes in pieces as large as they come; who accumulates looks at every frame. */
  *#piecesOf(segment: Segment): Generator<Stretch> {
    if (!this.#accumulator) yield* stretchesOf(segment, this.#next, this.#filter.mask)
    else for (const frame of framesOf(segment)) if (frame.n >= this.#next) yield { ...frame, last: frame.n }
  }

  #sendParts(parts: Buffer[]): void {
    if (this.#accumulator) parts.push(this.#accumulator.flush())
    if (this.#phase === 'reading') this.#send(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
  }

  #takes({ n, kind }: RawFrame): boolean {
    return n >= this.#from && (this.#filter.mask & bit(kind)) !== 0
  }

  /** A frame as it goes out, null if it does not; `values` is the state of one that is taken. */
  #shown(frame: RawFrame, values: string | null): Buffer | null {
    if (!this.#takes(frame)) return null
    return values === null ? frame.bytes : Buffer.from(frameText('values', values, cursorText(frame.epoch, frame.n)))
  }

  /** What is missing is not made up: the joiner is told, and goes on with what there is. */
  async #skipTo(next: number): Promise<void> {
    const bytes = await this.#view.gapBytes(this.#next)
    this.#next = next
    if (this.#phase === 'reading') this.#send(bytes)
  }

  /** Says the end. It is gone when its wire is closed, which the wire tells. */
  #finish(): void {
    this.#phase = 'ending'
    this.#waitsSince = performance.now()
    this.#wire.end(END_FRAME)
  }

  #leave(why: Leaving): void {
    if (this.#phase === 'gone') return
    this.#phase = 'gone'
    this.#onLeave(this, why)
  }
}
