// Reads one run's log from the store for readers that are behind memory: segments, and the states their values frames
// refer to. Each load is bounded and takes turns with the loads of all other readers.
import type { Segment, Store } from '../../store/store.ts'
import { type Run, timestamp } from '../../base/types.ts'
import { counters } from './counters.ts'
import type { Filter } from './filter.ts'
import { readWhole } from './oversized.ts'
import { readTurns } from '../../base/loop-turns.ts'
import { type FrameRange, frameRangesOf, framesOf, type RawFrame } from './segment.ts'
import { cursorText, frameText, bit, Kind } from './frame.ts'
import { isNamed, type ReadBodies, readValues, type ShownStates, type ShownValues } from './values-frame.ts'

export interface LogStore extends Pick<Store, 'frames'> {
  readonly states: ShownStates
}

/** Bytes of states per load; one may exceed it. */
const STATE_BYTES = 128 * 1024
/** Bytes per slice of stored frames, which is what a stalled reader holds; a single state may be larger. */
const SLICE_BYTES = 128 * 1024

/** What a reader gets at once: bytes for its socket, and the n to continue from. */
export interface Slice {
  readonly bytes: Buffer
  readonly next: number
  /** Frames in these bytes. */
  readonly count: number
}

/** Sees every frame of a log and decides what to send: a reader of mode `messages`. */
export interface FrameSink {
  /** Frames below this were seen before: merged, not shown. */
  readonly from: number
  /** Bytes waiting for `flush`. */
  readonly bytes: number
  /** It reads the states that agents have shown themselves, also those that its filter drops. */
  readonly readsValues: boolean
  /** `text`: the frame as it would be sent; null where it is neither shown nor read. `isShown`: the filter passes it. */
  take(frame: RawFrame, text: Buffer | null, isShown: boolean): void
  flush(): Buffer
}

export function isRead({ kind, bytes }: RawFrame, { readsValues }: FrameSink): boolean {
  return readsValues && kind === Kind.values && isNamed(bytes)
}

/** Which values frames a load needs the states of. */
interface WantedStates {
  /** Its readers are shown those from `from` on. */
  readonly isShown: boolean
  readonly from: number
  readonly sink: FrameSink | null
}

/** Result of one load. */
export interface Loaded {
  readonly from: number
  readonly segments: readonly Segment[]
  /** By n of a values frame: its state, or bytes to send in its place because it is gone. Frames not in the map were not read. */
  readonly states: ReadonlyMap<number, ShownValues | Buffer>
  /** The frames at `from` are gone: the gap frame, the run's final state, and where the log continues. */
  readonly gap: { readonly bytes: Buffer; readonly values: string | null; readonly next: number } | null
}

export class StoredFrames {
  /** Its row: tells how the run has ended. */
  run: Run
  readonly #store: LogStore
  readonly #segments = new SegmentCache()
  /** Loads in progress, by start and by whether they include states: equal requests share one. */
  readonly #loading = new Map<string, Promise<Loaded>>()

  constructor(run: Run, store: LogStore) {
    this.run = run
    this.#store = store
  }

  /** No reader is left to share what was read. */
  clear(): void {
    this.#segments.clear()
  }

  /** The frames from `from` on, as far as one load goes. `goesOn`: where the log continues if none of them are left. */
  load(from: number, filter: Filter, sink: FrameSink | null, goesOn: () => number): Promise<Loaded> {
    const wanted = { isShown: (filter.mask & bit(Kind.values)) !== 0, from: sink?.from ?? 0, sink }
    const key = `${from} ${wanted.isShown} ${wanted.from} ${sink?.readsValues ?? false}`
    const underWay = this.#loading.get(key)
    if (underWay) return underWay
    const loading = this.read(from)
      .then((segments) => this.complete(from, segments, wanted, goesOn))
      .finally(() => this.#loading.delete(key))
    this.#loading.set(key, loading)
    return loading
  }

  /** Segments from `from` on; empty when there are none. */
  read(from: number): Promise<readonly Segment[]> {
    return this.#segments.get(from, async () => {
      await readTurns.next()
      return this.#store.frames.read(this.run.key, from, READ_BYTES)
    })
  }

  /** Segments, with the states a reader at `from` wants. */
  async complete(
    from: number,
    segments: readonly Segment[],
    wanted: WantedStates,
    goesOn: () => number
  ): Promise<Loaded> {
    const first = segments[0]
    if (!first || first.first > from) {
      const gap = await this.gap(from)
      return { from, segments: [], states: new Map(), gap: { ...gap, next: first?.first ?? goesOn() } }
    }
    return { from, segments, states: await this.#statesOf(segments, from, wanted), gap: null }
  }

  async #statesOf(segments: readonly Segment[], from: number, wanted: WantedStates): Promise<Loaded['states']> {
    const states = new Map<number, ShownValues | Buffer>()
    if (!wanted.isShown && !wanted.sink?.readsValues) return states
    const read: ReadBodies = {}
    let bytes = 0
    for (const segment of segments) {
      // Only values frames, and those that describe parts, which `frameRangesOf` never leaves out.
      for (const frame of frameRangesOf(segment, from, bit(Kind.values))) {
        if (frame.kind !== Kind.values) continue
        const isShown = wanted.isShown && frame.n >= wanted.from
        if (!isShown && !(wanted.sink && isRead(frame, wanted.sink))) continue
        if (bytes >= STATE_BYTES) return states
        await readTurns.next()
        const state =
          (await readValues(frame.bytes, this.run, this.#store.states, read)) ?? (await this.gap(frame.n)).bytes
        states.set(frame.n, state)
        bytes += 'json' in state ? state.json.length : state.length
      }
    }
    return states
  }

  /** The state that a values frame shows; null: it is gone. */
  valuesOf(bytes: Buffer): Promise<ShownValues | null> {
    return readValues(bytes, this.run, this.#store.states, {})
  }

  /** The JSON of a stored state; `checkpointId` null: the newest of the thread. */
  shown(checkpointId: string | null): Promise<string | null> {
    return this.#store.states.shown(this.run.thread_id, checkpointId)
  }

  /** What a reader gets when its frames are no longer kept: a `gap` frame [contract 3.9], and the state this run ended with, if known. */
  async gap(from: number): Promise<{ readonly bytes: Buffer; readonly values: string | null }> {
    const { run_id, last_cursor, final_checkpoint_id } = this.run
    counters.gaps++
    const gap = {
      code: 'stream_replay_gap',
      run_id,
      requested_event_id: from === 0 ? null : String(from - 1),
      earliest_available_event_id: null,
      latest_available_event_id: last_cursor,
      recovery: 'reload_durable_state',
      at: timestamp()
    }
    const text = `event: gap\ndata: ${JSON.stringify(gap)}\n\n`
    const values = final_checkpoint_id === null ? null : await this.shown(final_checkpoint_id)
    return { bytes: Buffer.from(values ? `${text}event: values\ndata: ${values}\n\n` : text), values }
  }
}

/** What `filter` passes of a load from `from` on, as much as is sent at once; null: the load does not contain that frame. */
export function sliceOf(loaded: Loaded, from: number, filter: Filter, sink: FrameSink | null): Slice | null {
  const { gap } = loaded
  if (gap) return loaded.from === from ? { bytes: gap.bytes, next: gap.next, count: 0 } : null
  const parts: Buffer[] = []
  let next = from
  let size = 0
  let count = 0
  const done = (): Slice | null => {
    if (next === from) return null
    if (sink) parts.push(sink.flush())
    return { bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts), next, count }
  }
  for (const segment of loaded.segments) {
    if (segment.last < next) continue
    // A hole: the next load tells.
    if (segment.first > next) return done()
    for (const range of sink ? eachOf(segment, next) : frameRangesOf(segment, next, filter.mask)) {
      const isShown = (filter.mask & bit(range.kind)) !== 0 && range.n >= (sink?.from ?? 0)
      const shown = isShown || (sink && isRead(range, sink)) ? textOf(range, loaded) : null
      // A state this load did not read: the next one starts with it.
      if (shown === undefined) {
        next = range.n
        return done()
      }
      // When merging, only states keep their size.
      const length = shown === null || (sink && range.kind !== Kind.values) ? 0 : shown.length
      if (size > 0 && size + length > SLICE_BYTES) {
        next = range.n
        return done()
      }
      size += length
      if (sink) sink.take(range, shown, isShown)
      else if (shown) parts.push(shown)
      if (isShown) count += range.last - range.n + 1
      next = Math.max(next, range.last + 1 + (range.kind === Kind.whole ? readWhole(range.bytes).parts : 0))
    }
    // The reader is past this segment, whatever was in it.
    next = Math.max(next, segment.last + 1)
  }
  return done()
}

/** Merging looks at every frame by itself. */
function* eachOf(segment: Segment, from: number): Generator<FrameRange> {
  for (const frame of framesOf(segment)) if (frame.n >= from) yield { ...frame, last: frame.n }
}

/** A range as it is sent; undefined: not known. */
function textOf({ kind, n, epoch, bytes }: FrameRange, { states }: Loaded): Buffer | undefined {
  if (kind !== Kind.values) return bytes
  const state = states.get(n)
  if (state === undefined || !('json' in state)) return state
  return Buffer.from(frameText(state.event, state.json, cursorText(epoch, n)))
}

// ------------------------------------------------------------------------------------------------- segments in memory

/** Bytes of stored frames per read: what a socket takes without buffering much. */
const READ_BYTES = 256 * 1024
/** Bytes kept per run: two reads. */
const KEPT_BYTES = 2 * READ_BYTES

export class SegmentCache {
  /** In read order. */
  #kept: Segment[] = []
  #bytes = 0
  /** Reads in progress, by start. */
  readonly #underWay = new Map<number, Promise<readonly Segment[]>>()

  /** The cached segments from `from` on, or what `read` returns. Stored frames never change. */
  get(from: number, read: () => Promise<readonly Segment[]>): Promise<readonly Segment[]> {
    const kept = this.#keptFrom(from)
    if (kept.length > 0) return Promise.resolve(kept)
    const underWay = this.#underWay.get(from)
    if (underWay) return underWay
    const reading = read()
      .then((segments) => this.#keep(segments))
      .finally(() => this.#underWay.delete(from))
    this.#underWay.set(from, reading)
    return reading
  }

  /** No reader is left to share them. */
  clear(): void {
    this.#kept = []
    this.#bytes = 0
  }

  #keptFrom(from: number): readonly Segment[] {
    const found: Segment[] = []
    let segment = this.#keptWith(from)
    while (segment) {
      found.push(segment)
      segment = this.#keptWith(segment.last + 1)
    }
    return found
  }

  #keptWith(n: number): Segment | undefined {
    return this.#kept.find(({ first, last }) => first <= n && n <= last)
  }

  #keep(segments: readonly Segment[]): readonly Segment[] {
    for (const segment of segments) {
      if (this.#keptWith(segment.first) && this.#keptWith(segment.last)) continue
      this.#kept.push(segment)
      this.#bytes += segment.data.length
    }
    while (this.#bytes > KEPT_BYTES) this.#bytes -= this.#kept.shift()!.data.length
    return segments
  }
}
