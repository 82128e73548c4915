// One run for one reader of protocol v2: a cursor in the run's log. A range of the log is translated once for all readers at the same
// position, and encoded once for all with the same selection.
import type { Fed, RunFeed } from '../../run/delivery/thread-joiner.ts'
import type { Filter } from '../../run/log/filter.ts'
import type { RunLog } from '../../run/log/run-log.ts'
import type { RawFrame } from '../../run/log/segment.ts'
import { dataOf, Kind } from '../../run/log/frame.ts'
import type { FrameSink, Loaded } from '../../run/log/stored-frames.ts'
import type { Run } from '../../base/types.ts'
import { type ProtocolEvent, seqOf } from './event.ts'
import { type EventFilter, logFilter } from './subscription.ts'
import { INITIAL_STATE, type RunState, translate, translateEnd } from './translate.ts'
import { ofHeap } from '../../base/budget.ts'

/** Encoding for a transport. */
export interface Encoding {
  bytes(events: readonly ProtocolEvent[]): Buffer
}

/** What a reader takes from a position on; it may change with the position. */
export interface Selection {
  readonly filter: EventFilter
  /** Narrower than the filter: without what was sent before. */
  takes(event: ProtocolEvent): boolean
  /** Readers with the same key at the same position share the result. */
  readonly key: string
}

interface EncodedRange extends TranslatedRange {
  /** By encoding, then by Selection.key. */
  readonly bytes: Map<Encoding, Map<string, Fed & object>>
}

const NOTHING = Buffer.alloc(0)

export class EventFeed implements RunFeed {
  readonly #run: Run
  readonly #log: RunLog
  readonly #encoding: Encoding
  readonly #selectionAfter: (from: number) => Selection
  #next = 0
  #state: RunState = INITIAL_STATE
  #hasEnded = false

  constructor(run: Run, log: RunLog, encoding: Encoding, selection: (from: number) => Selection) {
    this.#run = run
    this.#log = log
    this.#encoding = encoding
    this.#selectionAfter = selection
  }

  get filter(): Filter {
    return logFilter(this.#selectionAfter(this.seq).filter)
  }

  /** Complete up to and including this seq. */
  get seq(): number {
    const { ordinal } = this.#run
    return (this.#hasEnded ? seqOf(ordinal + 1, 0, 0) : seqOf(ordinal, this.#next, 0)) - 1
  }

  next(loaded: Loaded | null): Fed {
    if (this.#hasEnded) return 'end'
    // Hot path: no allocation at the tail.
    if (this.#next >= this.#log.shown && !this.#log.isClosed) return 'tail'
    const selection = this.#selectionAfter(this.seq)
    const range = this.#range(selection.filter, loaded)
    if (range === 'end') return this.#end(selection)
    if (typeof range === 'string') return range
    this.#next = range.next
    this.#state = range.state
    return this.#fed(range, selection)
  }

  load(): Promise<Loaded> {
    return this.#log.load(this.#next, this.filter, new Translator(this.#run, this.#state))
  }

  #range({ withValues }: EventFilter, loaded: Loaded | null): EncodedRange | 'behind' | 'tail' | 'end' {
    const log = this.#log
    const from = this.#next
    const known = ranges.at(log, from, withValues)
    if (known) return known
    const gap = from < log.first && loaded?.from === from ? loaded.gap : null
    if (gap) return this.#gap(from, gap)
    const sink = new Translator(this.#run, this.#state)
    const next = log.next(from, this.filter, loaded, sink)
    if (typeof next === 'string') return next
    return ranges.keep(log, from, { next: next.next, ...sink.done(), bytes: new Map() })
  }

  /** The frames are gone: the run's final state replaces them. */
  #gap(from: number, { next, values }: NonNullable<Loaded['gap']>): EncodedRange {
    const frame = { n: from, epoch: this.#log.epoch, bytes: NOTHING }
    const translator = new Translator(this.#run, this.#state)
    if (from === 0) translator.add({ ...frame, kind: Kind.metadata }, null)
    if (values !== null) translator.add({ ...frame, kind: Kind.values }, values)
    return { next, ...translator.done(), bytes: new Map() }
  }

  #fed(range: EncodedRange, selection: Selection): Fed {
    const { bytes, events } = range
    const known = bytes.get(this.#encoding)
    const made = known?.get(selection.key)
    if (made) return made
    const fed = this.#encode(events, selection)
    if (known) known.set(selection.key, fed)
    else bytes.set(this.#encoding, new Map([[selection.key, fed]]))
    ranges.grow(range, fed.bytes.length + selection.key.length)
    return fed
  }

  #encode(events: readonly ProtocolEvent[], selection: Selection): Fed & object {
    const selected = events.filter((event) => selection.takes(event))
    return { bytes: selected.length === 0 ? NOTHING : this.#encoding.bytes(selected), count: selected.length }
  }

  #end(selection: Selection): Fed {
    this.#hasEnded = true
    // The row the log was closed with has the status.
    const { head, epoch, run } = this.#log
    const { ordinal } = this.#run
    const events = translateEnd({ ...run, ordinal }, this.#state, { epoch, n: head })
    return this.#encode(events, selection)
  }
}

/** Stands for values that are gone. */
const GAP = Buffer.from('event: gap\n')

/** Translates the frames of a range. */
class Translator implements FrameSink {
  readonly from = 0
  /** What it has to know of a state that nobody wants stands in the frame. */
  readonly readsValues = false
  readonly #run: Run
  readonly #events: ProtocolEvent[] = []
  #state: RunState
  #hasValues = true
  bytes = 0

  constructor(run: Run, state: RunState) {
    this.#run = run
    this.#state = state
  }

  take(frame: RawFrame, shown: Buffer | null): void {
    const isState = frame.kind === Kind.values
    if (isState && shown === null) this.#hasValues = false
    const isKept = isState && shown !== null && !shown.subarray(0, GAP.length).equals(GAP)
    this.add(frame, isKept ? dataOf(shown) : null)
  }

  add(frame: RawFrame, values: string | null): void {
    const { state, events } = translate(this.#run, this.#state, frame, values)
    this.#state = state
    for (const event of events) {
      this.#events.push(event)
      this.bytes += event.json.length
    }
  }

  flush(): Buffer {
    return NOTHING
  }

  done(): Omit<TranslatedRange, 'next'> {
    return { state: this.#state, events: this.#events, size: this.bytes, hasValues: this.#hasValues }
  }
}

// ------------------------------------------------------------------------------------------------------------- ranges

interface TranslatedRange {
  readonly next: number
  /** State after the range. */
  readonly state: RunState
  readonly events: readonly ProtocolEvent[]
  /** JSON of its events, in characters. */
  readonly size: number
  /** False: translated without values. */
  readonly hasValues: boolean
}

/** Bytes of all cached ranges, translated and encoded; without a bound lagging readers would hold whole logs a second time. */
const KEPT_BYTES = ofHeap(8 * 1024 * 1024, 32)
/** Memory of a range beside its events. */
const OVERHEAD_BYTES = 512

type ByStart<R> = Map<number, R>

/** A cache without invalidation, because frames never change. Oldest out first; a log's ranges go with the log. */
class Ranges<R extends TranslatedRange> {
  readonly #ofLogs = new WeakMap<RunLog, ByStart<R>>()
  readonly #kept = new Map<R, { readonly from: number; readonly of: ByStart<R>; bytes: number }>()
  #bytes = 0

  at(log: RunLog, from: number, withValues: boolean): R | undefined {
    const range = this.#ofLogs.get(log)?.get(from)
    return range && (range.hasValues || !withValues) ? range : undefined
  }

  keep(log: RunLog, from: number, range: R): R {
    const of = this.#ofLogs.get(log) ?? new Map<number, R>()
    this.#ofLogs.set(log, of)
    of.set(from, range)
    this.#kept.set(range, { from, of, bytes: 0 })
    this.grow(range, range.size)
    return range
  }

  /** Counts bytes added by another encoding or selection. */
  grow(range: R, bytes: number): void {
    const kept = this.#kept.get(range)
    if (!kept) return
    kept.bytes += bytes + OVERHEAD_BYTES
    this.#bytes += bytes + OVERHEAD_BYTES
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const [range, { from, of, bytes }] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES) return
      this.#kept.delete(range)
      this.#bytes -= bytes
      if (of.get(from) === range) of.delete(from)
    }
  }
}

const ranges = new Ranges<EncodedRange>()
