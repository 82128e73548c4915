// The frame log of one run, as this process has it, and its readers here.
//
// A run of this process is appended to: encoded once, in memory (slabs.ts) until stored and a little longer. A frame leaves memory only
// after its commit; older frames are read from the store. A run that has ended, or belongs to another process, is entirely stored: its
// head moves when more is found there.
//
// A reader has a position and asks `next` what follows; only what `next` returns may be sent. After any wait it asks again: the log may
// have moved on meanwhile.
import type { Segment } from '../../store/store.ts'
import type { Run } from '../../base/types.ts'
import type { Filter } from './filter.ts'
import { attemptAfter, boundsOf, endedBounds, newEpoch } from './frame.ts'
import type { Shorten } from '../../conversation/wire.ts'
import { beginning, type Cutting, PART_BYTES, shortened, wholeOf } from './oversized.ts'
import { Replica, type RowNow } from './replica.ts'
import type { RawFrame } from './segment.ts'
import { Slabs, type StateText } from './slabs.ts'
import {
  cursorPrefix,
  cursorText,
  fits,
  frameText,
  type LogBounds,
  nextAfter,
  type Position,
  stopError,
  bit,
  Kind
} from './frame.ts'
import { type FrameSink, type Loaded, type LogStore, type Slice, sliceOf, StoredFrames } from './stored-frames.ts'
import type { LogReader, Scheduler } from './log-reader.ts'
import type { NamedValues } from '../../conversation/values.ts'
import { type CheckpointAbout, namedText, type ShownValues, valuesText } from './values-frame.ts'

/** A slice; `behind`: the frames are only in the store (`load` reads them); `tail`: nothing follows yet; `end`: nothing will. */
type Next = Slice | 'behind' | 'tail' | 'end'

/** One running count of what is not stored yet: it is asked for with every delta. */
export interface Unstored {
  bytes: number
}

export interface LogOptions {
  /** Bytes of stored frames that stay in memory, with the states they refer to. */
  readonly windowBytes: number
  /** Bytes of one frame on the wire; 0: no limit. */
  readonly eventBytes: number
}

interface Parts {
  readonly run: Run
  readonly store: LogStore
  readonly bounds: LogBounds
  readonly options?: LogOptions
  readonly scheduler?: Scheduler | undefined
  readonly begun?: number
  readonly isClosed?: boolean
  /** Of a log that is not written here: its owner may have more of it. null: it is not followed. */
  readonly rowNow?: RowNow | null
}

/** The slice made last for a filter, and its source: memory up to a head, or a load. */
interface Made {
  readonly from: number
  readonly source: number | Loaded
  readonly slice: Slice
}

export class RunLog {
  /** Owned by the ticker: last delivery, and whether it is due. Fields are cheaper than rebuilding a Set every tick. */
  deliveredAt = 0
  isDue = false
  /** Bytes of the run that are not stored yet: of its frames, and of events and checkpoints, estimated, which others add. */
  readonly unstored: Unstored = { bytes: 0 }
  /** With durability sync, only stored frames are shown. */
  readonly #isSync: boolean
  /** Only stored frames are shown: always with durability sync, and for a later attempt until its first frame is stored. */
  #showsStored: boolean
  /** Frames that were shown while the run waited. */
  #preface = 0
  /** null: it is written here, or whole. */
  readonly #replica: Replica | null
  /** How many attempts were begun with this one; null: another process begins them, and the row says it. */
  readonly #begun: number | null
  readonly #stored: StoredFrames
  readonly #scheduler: Scheduler | null
  readonly #windowBytes: number
  /** Bytes of one frame on the wire; 0: no limit. */
  readonly eventBytes: number
  readonly #cutting: Cutting
  /** Prefix of every cursor, made once: an epoch is too large to be a cached number string. */
  readonly #prefix: string
  #epochs: LogBounds['epochs']
  readonly #slabs: Slabs
  readonly #readers = new Set<LogReader>()
  /** Readers with the same filter and position share the bytes. */
  readonly #made = new Map<Filter, Made>()
  /** n of the frame that comes next. */
  #head: number
  /** First n not handed to the committer yet. */
  #taken: number
  #committed: number
  #isClosed: boolean

  private constructor({ run, store, bounds, options, scheduler, begun, rowNow, isClosed = false }: Parts) {
    const isReplica = rowNow !== undefined
    this.#stored = new StoredFrames(run, store)
    // What another process wrote is stored by the time it is known here.
    this.#isSync = run.kwargs.durability === 'sync' && !isReplica && !isClosed
    // With clocks apart, a lost epoch may be greater than the next one. Only a first attempt can be lost; everything
    // after it is new, so a client with such a cursor rightly gets everything.
    this.#showsStored = this.#isSync || (bounds.epochs.length > 1 && !isReplica && !isClosed)
    this.#replica = isReplica ? new Replica(this, this.#stored, rowNow) : null
    this.#begun = begun ?? null
    this.#isClosed = isClosed
    this.#scheduler = scheduler ?? null
    this.#windowBytes = options?.windowBytes ?? 0
    this.eventBytes = options?.eventBytes ?? 0
    const url = (n: number) => `/api/threads/${run.thread_id}/runs/${run.run_id}/frames/${n}`
    this.#cutting = { eventBytes: this.eventBytes, url }
    this.#epochs = bounds.epochs
    this.#prefix = cursorPrefix(this.epoch)
    this.#slabs = new Slabs(this.epoch, this.#prefix)
    this.#head = bounds.head
    this.#taken = bounds.head
    this.#committed = bounds.head
  }

  /** The log of an attempt run here. `past`: what is stored of earlier ones; `epoch`: of this one. */
  static begin(
    run: Run,
    store: LogStore,
    options: LogOptions,
    past?: LogBounds,
    scheduler?: Scheduler,
    epoch = newEpoch(past?.epochs ?? [])
  ): RunLog {
    const { epochs, head } = past ?? { epochs: [], head: 0 }
    const bounds = { epochs: [...epochs, { epoch, first: head }], head }
    return new RunLog({ run, store, bounds, options, scheduler, begun: attemptAfter(run, past) })
  }

  /** The log of a run that has ended, as far as it is kept. */
  static async ended(run: Run, store: LogStore): Promise<RunLog> {
    return new RunLog({ run, store, bounds: await endedBounds(store, run), isClosed: true })
  }

  /** The log of a run that another process writes, as far as it is stored. `rowNow`: its row, where the log is followed. */
  static async replica(run: Run, store: LogStore, rowNow?: RowNow): Promise<RunLog> {
    const bounds = await boundsOf(store, run)
    // The row may be older than an attempt of which frames are stored.
    const row = (bounds.head > 0 && (await rowNow?.())) || run
    return new RunLog({ run: row, store, bounds, rowNow: rowNow ?? null })
  }

  get run(): Run {
    return this.#stored.run
  }
  /** The newest epoch; 0: nothing is stored yet. */
  get epoch(): number {
    return this.#epochs.at(-1)?.epoch ?? 0
  }
  /** n with which the second attempt begins; null: there is none. From there on a number alone does not say of which attempt it is. */
  get resumedAt(): number | null {
    return this.#epochs[1]?.first ?? null
  }
  get attempts(): number {
    return this.#epochs.length
  }
  /**
   * More attempts were begun than are stored: of one, nobody has what its readers were shown. Nor is it known who has ended a run that only
   * waited, and whose readers were shown what it begins with.
   */
  get hasLostAttempt(): boolean {
    const begun = this.#begun ?? this.run.attempts
    return begun > Math.max(1, this.#epochs.length) || (this.#isClosed && begun === 0)
  }
  /** n of the frame that comes next. */
  get head(): number {
    return this.#head
  }
  /** First n in memory; `head` when there is none. */
  get first(): number {
    return this.#slabs.first ?? this.#head
  }
  /** n of the first frame readers may not see yet. */
  get shown(): number {
    return this.#showsStored ? Math.max(this.#committed, this.#preface) : this.#head
  }
  /** The run is terminal and all of it is stored. */
  get isClosed(): boolean {
    return this.#isClosed
  }
  /** Bytes of all its frames; undefined: not all of them are in memory. */
  get wholeBytes(): number | undefined {
    return this.first === 0 ? this.#slabs.bytes : undefined
  }

  // ----------------------------------------------------------------------------------------------- appending

  /** Appends a frame; `json` is its data on one line. `shorten` cuts it when it is too large for the wire. */
  append(kind: Kind, event: string, json: string, shorten?: Shorten): number {
    if (fits(json, this.eventBytes)) return this.appendWhole(kind, event, json)
    return this.#appendOversized(kind, event, json, shorten ?? beginning(json))
  }

  /** Appends a frame that is not cut: a state, or what was seen to fit. */
  appendWhole(kind: Kind, event: string, json: string): number {
    return this.#appendText(kind, frameText(event, json, this.#prefix + this.#head))
  }

  /** Readers get it cut; the whole follows in parts no filter passes. */
  #appendOversized(kind: Kind, event: string, json: string, shorten: Shorten): number {
    const n = this.#head
    const bytes = Buffer.from(json)
    this.#appendText(kind, frameText(event, shortened(shorten, n, bytes.length, this.#cutting), this.#prefix + n))
    this.#appendText(Kind.whole, JSON.stringify(wholeOf(bytes.length)))
    for (let at = 0; at < bytes.length; at += PART_BYTES)
      this.#appended(this.#slabs.addBytes(this.#head, Kind.part, bytes.subarray(at, at + PART_BYTES)))
    return n
  }

  /** Appends a reference to a checkpoint. `stateBytes`: what its state adds to the one before. */
  appendValues(
    checkpointId: string,
    state: StateText,
    stateBytes: number,
    about: CheckpointAbout | null = null
  ): number {
    const n = this.#appendText(Kind.values, valuesText(checkpointId, about))
    this.#slabs.addState(n, state, stateBytes)
    return n
  }

  /** Appends a state that an agent has shown, by the names of its bodies. `stateBytes`: of those that nothing has named before. */
  appendNamed(values: NamedValues, state: StateText, stateBytes: number): number {
    const n = this.#appendText(Kind.values, namedText(values))
    this.#slabs.addState(n, state, stateBytes)
    return n
  }

  #appendText(kind: Kind, text: string): number {
    return this.#appended(this.#slabs.addText(this.#head, kind, text))
  }

  #appended(length: number): number {
    this.unstored.bytes += length
    if (!this.isDue && !this.#showsStored && this.#readers.size > 0) this.#scheduler?.schedule(this)
    return this.#head++
  }

  /**
   * An attempt begins that nobody has counted yet: until that is stored nothing more is shown, or a client would have numbers of an attempt
   * that nobody knows of.
   */
  beginUncounted(): void {
    // Not all that there is: of a later attempt nothing was shown yet.
    this.#preface = this.shown
    this.#showsStored = true
  }

  // ------------------------------------------------------------------------------------------------ to the disk

  /** Frames for the store: everything not taken yet, one segment per slab. */
  take(): Segment[] {
    const segments = this.#slabs.segmentsFrom(this.#taken)
    this.#taken = this.#head
    return segments
  }

  /** Frames up to and including `last` are stored, and `bytes` in all: those outside the window leave memory. */
  commit(last: number, bytes: number): void {
    this.#committed = last + 1
    this.unstored.bytes -= bytes
    if (this.#showsStored && !this.isDue && this.#readers.size > 0) this.#scheduler?.schedule(this)
    this.#showsStored = this.#isSync
    this.#slabs.shrink(this.#windowBytes, this.#committed)
  }

  /** The run is terminal and stored: readers get the rest, and the end. `run`: its row. */
  close(run = this.run): void {
    this.#stored.run = run
    this.#isClosed = true
    this.deliver()
  }

  /** Drops everything from memory: readers that are behind read the store. */
  release(): void {
    this.#slabs.clear()
    this.#made.clear()
  }

  // --------------------------------------------------------------------------------------------------- readers

  get readers(): number {
    return this.#readers.size
  }

  attach(reader: LogReader): void {
    this.#readers.add(reader)
  }

  /** The last reader's departure drops the shared caches. */
  detach(reader: LogReader): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return
    this.#made.clear()
    this.#stored.clear()
  }

  deliver(loaded: Loaded | null = null): void {
    for (const reader of this.#readers) reader.pump(loaded)
  }

  resetReaders(): void {
    for (const reader of [...this.#readers]) reader.reset()
  }

  /** Reads what another process has stored meanwhile. */
  async advance(): Promise<void> {
    await this.#replica?.advance()
  }

  /** Takes in frames another process has stored. Readers at the old head get them without reading the store themselves. */
  extend(segments: readonly Segment[], loaded: Loaded): void {
    for (const { epoch, first, last } of segments) {
      if (epoch !== this.epoch) this.#epochs = [...this.#epochs, { epoch, first }]
      this.#head = last + 1
    }
    this.deliver(loaded)
  }

  /** Whether a reader is shown frames of this kind. */
  shows(kind: Kind): boolean {
    return [...this.#readers].some(({ filter }) => (filter.mask & bit(kind)) !== 0)
  }

  /**
   * n of the first frame for a reader with this position. null: unknown yet, because it may refer to an attempt, or
   * frames, not stored yet; the reader asks again when there is more.
   */
  place(position: Position): number | null {
    if (this.#isBehindEnd(position)) return this.#head
    const bounds = { epochs: this.#epochs, head: this.shown }
    if (this.#replica === null || this.#isClosed || position === null) return nextAfter(position, bounds)
    return this.#replica.place(position, bounds)
  }

  /** Something that follows from the row was sent behind the last frame, with the n that comes next. */
  #isBehindEnd(position: Position): boolean {
    const isThere = this.#isClosed && stopError(this.run) !== null
    return isThere && position?.epoch === this.epoch && position.n === this.#head
  }

  /** What follows from frame `from` on, as `filter` passes it and `sink` shows it. `loaded`: what `load` has read. */
  next(from: number, filter: Filter, loaded: Loaded | null = null, sink: FrameSink | null = null): Next {
    const head = this.shown
    if (from >= head) return this.#isClosed ? 'end' : 'tail'
    const isInMemory = from >= this.first
    if (sink)
      return isInMemory
        ? this.#slabs.fold(from, head, filter, sink)
        : ((loaded && sliceOf(loaded, from, filter, sink)) ?? 'behind')
    const source = isInMemory ? head : loaded
    if (source === null) return 'behind'
    const known = this.#made.get(filter)
    if (known && known.from === from && known.source === source) return known.slice
    const slice =
      typeof source === 'number' ? this.#slabs.slice(from, head, filter) : sliceOf(source, from, filter, null)
    if (slice === null) return 'behind'
    this.#made.set(filter, { from, source, slice })
    return slice
  }

  /** Reads from frame `from` on, for a reader that is behind memory: the result goes into `next`. */
  load(from: number, filter: Filter, sink: FrameSink | null = null): Promise<Loaded> {
    return this.#stored.load(from, filter, sink, () => this.first)
  }

  /** JSON of a stored state of its thread; null: the newest. */
  valuesStored(checkpointId: string | null): Promise<string | null> {
    return this.#stored.shown(checkpointId)
  }

  /** The state that a values frame shows; null: it is gone. */
  async valuesOf({ n, bytes }: RawFrame): Promise<ShownValues | null> {
    return n >= this.first ? this.#slabs.valuesOf(n) : this.#stored.valuesOf(bytes)
  }

  /** The visible frames in memory from `from` on, one by one: for the inspector. */
  frames(from: number): Generator<RawFrame> {
    return this.#slabs.frames(from, this.shown)
  }

  get lastCursor(): string {
    return cursorText(this.epoch, this.#head - 1)
  }
}
