// One run for one reader of a protocol that is not ours: a cursor in the run's log. A range of the log is translated once for all readers
// at the same position, and encoded once for all with the same encoding and selection. Who comes back begins at the last mark that he is past.
import type { Fed, RunFeed } from '../run/delivery/thread-reader.ts'
import type { Filter } from '../run/log/filter.ts'
import type { RunLog } from '../run/log/run-log.ts'
import type { RawFrame } from '../run/log/segment.ts'
import { dataOf, Kind } from '../run/log/frame.ts'
import type { FrameSink, Loaded } from '../run/log/stored-frames.ts'
import type { Run } from '../base/types.ts'
import { ofHeap } from '../base/budget.ts'
import { type Mark, Marks } from './marks.ts'

/**
 * How a protocol shows a run. The result depends only on earlier frames: state in, events and state out, so that every reader gets the
 * same events, live, late, or on another process. States are immutable.
 */
export interface Translation<State, Event> {
  readonly initial: State
  /** @param values JSON of the state that a values frame names; null: not asked for, or gone */
  frame(run: Run, state: State, frame: RawFrame, values: string | null): Step<State, Event>
  /** What follows the last frame. @param run the row with which the run has ended @param at where the log ends */
  end(run: Run, state: State, at: Pick<RawFrame, 'epoch' | 'n'>): readonly Event[]
}

export interface Step<State, Event> {
  readonly state: State
  readonly events: readonly Event[]
}

/** Encoding for a transport. */
export interface Encoding<Event> {
  /** Of one reader alone: what it has made is not kept for others. */
  readonly isOfOne?: boolean
  bytes(events: readonly Event[]): Buffer
}

/** What a reader takes from a position on; it may change with the position. */
export interface Selection<Event> {
  /** Kinds of frames. */
  readonly filter: Filter
  /** Needs the states that values frames name. */
  readonly withValues: boolean
  /** Without what was sent before. */
  takes(event: Event): boolean
  /** Readers with the same key at the same position share the result. */
  readonly key: string
  /** What it takes is not known before there is more of the log: nothing is passed over meanwhile. */
  readonly waits?: boolean
}

/** How a reader is shown a run. */
export interface View<State, Event> {
  readonly translation: Translation<State, Event>
  readonly encoding: Encoding<Event>
  /** What it takes behind the frames below `n`. */
  selection(n: number): Selection<Event>
  /** Whether it takes nothing of what comes before a place. Absent: all read from the beginning, and no marks are kept. */
  isPast?(run: Run, place: Mark<State>): boolean
  /** Its reader has some of it: in place of frames that are gone it gets the last event alone. */
  readonly isResumed?: boolean
}

interface EncodedRange<State, Event> extends TranslatedRange<State, Event> {
  /** By encoding, then by Selection.key. */
  readonly bytes: Map<Encoding<Event>, Map<string, Fed & object>>
}

const NOTHING = Buffer.alloc(0)

export class TranslatedFeed<State, Event> implements RunFeed {
  readonly #run: Run
  readonly #log: RunLog
  readonly #view: View<State, Event>
  readonly #ranges: Ranges<EncodedRange<State, Event>>
  readonly #marks: Marks<State>
  #next = 0
  #state: State
  /** Of the frames below `#next`. */
  #bytes = 0
  /** There is nothing for its reader yet. */
  #isPassing: boolean
  /** Of what its reader has, the rest is gone. */
  #isCut = false
  #hasEnded = false

  constructor(run: Run, log: RunLog, view: View<State, Event>) {
    this.#run = run
    this.#log = log
    this.#view = view
    this.#state = view.translation.initial
    const { ranges, marks } = keptOf(view.translation)
    this.#ranges = ranges
    this.#marks = marks
    this.#isPassing = view.isPast !== undefined
  }

  get filter(): Filter {
    return this.#view.selection(this.#next).filter
  }
  /** n of the next frame. */
  get at(): number {
    return this.#next
  }
  /** What follows the last frame was given too. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  next(loaded: Loaded | null): Fed {
    if (this.#hasEnded) return 'end'
    // Hot path: no allocation at the tail.
    if (this.#next >= this.#log.shown && !this.#log.isClosed) return 'tail'
    if (this.#isPassing) this.#pass()
    const selection = this.#view.selection(this.#next)
    if (selection.waits) return 'tail'
    const range = this.#advance(selection, loaded)
    if (range === 'end') return this.#encode(this.#end(), selection)
    return typeof range === 'string' ? range : this.#fed(range, selection)
  }

  /** The same as events, for answers that are not streamed. */
  nextEvents(loaded: Loaded | null): readonly Event[] | 'behind' | 'tail' | 'end' {
    if (this.#hasEnded) return 'end'
    if (this.#isPassing) this.#pass()
    const selection = this.#view.selection(this.#next)
    if (selection.waits) return 'tail'
    const range = this.#advance(selection, loaded)
    if (typeof range === 'string' && range !== 'end') return range
    return (range === 'end' ? this.#end() : range.events).filter((event) => selection.takes(event))
  }

  /** Goes to the last mark that its reader is past. */
  #pass(): void {
    const isThere = ({ n, epoch }: Mark<State>) => n > this.#next && this.#log.place({ epoch, n: n - 1 }) === n
    const isPast = (mark: Mark<State>) => isThere(mark) && this.#view.isPast!(this.#run, mark)
    const mark = this.#marks.find(this.#run.run_id, isPast)
    if (mark) this.#go(mark)
  }

  #go({ n, state, bytes }: Omit<Mark<State>, 'epoch'>): void {
    this.#next = n
    this.#state = state
    this.#bytes = bytes
  }

  #advance(selection: Selection<Event>, loaded: Loaded | null) {
    const range = this.#range(selection, loaded)
    if (typeof range === 'string') return range
    this.#next = range.next
    this.#state = range.state
    this.#bytes += range.size
    if (this.#isPassing) this.#isPassing = !range.events.some((event) => selection.takes(event))
    return range
  }

  load(): Promise<Loaded> {
    return this.#log.load(this.#next, this.filter, this.#translator())
  }

  #translator(): Translator<State, Event> {
    return new Translator(this.#run, this.#state, this.#view.translation)
  }

  #range(
    { filter, withValues }: Selection<Event>,
    loaded: Loaded | null
  ): EncodedRange<State, Event> | 'behind' | 'tail' | 'end' {
    const log = this.#log
    const from = this.#next
    const known = this.#ranges.at(log, from, withValues)
    if (known) return known
    const gap = from < log.first && loaded?.from === from ? loaded.gap : null
    if (gap) return this.#gap(gap)
    const sink = this.#translator()
    const next = log.next(from, filter, loaded, sink)
    if (typeof next === 'string') return next
    const range = { next: next.next, ...sink.done(), bytes: new Map() }
    if (this.#view.isPast) this.#mark(range)
    return this.#ranges.keep(log, from, range)
  }

  #mark({ next: n, epoch, state, size }: TranslatedRange<State, Event>): void {
    if (epoch !== null) this.#marks.reached(this.#run.run_id, { n, epoch, state, bytes: this.#bytes + size })
  }

  /** The frames are gone: the run's final state replaces them, for who was sent nothing yet from the beginning. */
  #gap({ next, values }: NonNullable<Loaded['gap']>): EncodedRange<State, Event> {
    if (this.#isPassing) this.#go({ n: 0, state: this.#view.translation.initial, bytes: 0 })
    const from = this.#next
    const frame = { n: from, epoch: this.#log.epoch, bytes: NOTHING }
    const translator = this.#translator()
    if (from === 0) translator.add({ ...frame, kind: Kind.metadata }, null)
    if (values !== null) translator.add({ ...frame, kind: Kind.values }, values)
    const { events, ...done } = translator.done()
    this.#isCut = this.#view.isResumed === true
    return { next, ...done, events: this.#isCut ? [] : events, epoch: null, bytes: new Map() }
  }

  #fed(range: EncodedRange<State, Event>, selection: Selection<Event>): Fed {
    const { bytes, events } = range
    const { encoding } = this.#view
    if (encoding.isOfOne) return this.#encode(events, selection)
    const known = bytes.get(encoding)
    const made = known?.get(selection.key)
    if (made) return made
    const fed = this.#encode(events, selection)
    if (known) known.set(selection.key, fed)
    else bytes.set(encoding, new Map([[selection.key, fed]]))
    this.#ranges.grow(range, fed.bytes.length + selection.key.length)
    return fed
  }

  #encode(events: readonly Event[], selection: Selection<Event>): Fed & object {
    const selected = events.filter((event) => selection.takes(event))
    return { bytes: selected.length === 0 ? NOTHING : this.#view.encoding.bytes(selected), count: selected.length }
  }

  #end(): readonly Event[] {
    this.#hasEnded = true
    // The row the log was closed with has the status.
    const { head, epoch, run } = this.#log
    const { ordinal } = this.#run
    const events = this.#view.translation.end({ ...run, ordinal }, this.#state, { epoch, n: head })
    return this.#isCut ? events.slice(-1) : events
  }
}

/** All events that a feed has by now. Rejects when the store does. */
export async function eventsOf<State, Event>(feed: TranslatedFeed<State, Event>): Promise<Event[]> {
  const all: Event[] = []
  for (let loaded: Loaded | null = null; ; ) {
    const events = feed.nextEvents(loaded)
    if (events === 'tail' || events === 'end') return all
    if (events === 'behind') loaded = await feed.load()
    else all.push(...events)
  }
}

/** All that a feed has by now, piece by piece. Rejects when the store does. */
export async function* piecesOf(feed: RunFeed): AsyncGenerator<Fed & object> {
  for (let loaded: Loaded | null = null; ; ) {
    const fed = feed.next(loaded)
    if (fed === 'tail' || fed === 'end') return
    if (fed === 'behind') loaded = await feed.load()
    else yield fed
  }
}

/** Stands for values that are gone. */
const GAP = Buffer.from('event: gap\n')

/** Translates the frames of a range. */
class Translator<State, Event> implements FrameSink {
  readonly from = 0
  /** What it has to know of a state that nobody wants stands in the frame. */
  readonly readsValues = false
  readonly #run: Run
  readonly #translation: Translation<State, Event>
  readonly #events: Event[] = []
  #state: State
  #hasValues = true
  #epoch: number | null = null
  /** Of its frames, and of the states that they name. */
  bytes = 0

  constructor(run: Run, state: State, translation: Translation<State, Event>) {
    this.#run = run
    this.#state = state
    this.#translation = translation
  }

  take(frame: RawFrame, shown: Buffer | null): void {
    const isState = frame.kind === Kind.values
    if (isState && shown === null) this.#hasValues = false
    const isKept = isState && shown !== null && !shown.subarray(0, GAP.length).equals(GAP)
    this.add(frame, isKept ? dataOf(shown) : null)
  }

  add(frame: RawFrame, values: string | null): void {
    const { state, events } = this.#translation.frame(this.#run, this.#state, frame, values)
    this.#state = state
    this.#epoch = frame.epoch
    this.bytes += frame.bytes.length + (values?.length ?? 0)
    for (const event of events) this.#events.push(event)
  }

  flush(): Buffer {
    return NOTHING
  }

  done(): Omit<TranslatedRange<State, Event>, 'next'> {
    const size = this.bytes
    return { state: this.#state, events: this.#events, epoch: this.#epoch, size, hasValues: this.#hasValues }
  }
}

// ------------------------------------------------------------------------------------------------------------- ranges

interface TranslatedRange<State, Event> extends Step<State, Event> {
  readonly next: number
  /** Of its last frame; null: the frames are gone. */
  readonly epoch: number | null
  /** Bytes of its frames, which its events take about. */
  readonly size: number
  /** False: translated without values. */
  readonly hasValues: boolean
}

/** Bytes of all cached ranges, translated and encoded; without a bound lagging readers would hold whole logs a second time. */
const KEPT_BYTES = ofHeap(8 * 1024 * 1024, 32)
/** Memory of a range beside its events' bytes: measured, with the state of a translation and the places of its events. */
const OVERHEAD_BYTES = 2048

type ByStart<R> = Map<number, R>

interface Kept {
  readonly from: number
  readonly of: ByStart<unknown>
  bytes: number
}

/** All ranges of all protocols, oldest first: one bound for them together. */
const kept = new Map<object, Kept>()
let keptBytes = 0

/** Logs that are gone, and with them whoever could ask for their ranges. */
const collected = new FinalizationRegistry<ByStart<object>>((of) => {
  for (const range of of.values()) drop(range)
})

function makeRoom(): void {
  for (const range of kept.keys()) {
    if (keptBytes <= KEPT_BYTES) return
    drop(range)
  }
}

function drop(range: object): void {
  const one = kept.get(range)
  if (!one) return
  kept.delete(range)
  keptBytes -= one.bytes
  if (one.of.get(one.from) === range) one.of.delete(one.from)
}

/** Of one translation. A cache without invalidation, because frames never change; a log's ranges go with the log. */
class Ranges<R extends TranslatedRange<unknown, unknown>> {
  readonly #ofLogs = new WeakMap<RunLog, ByStart<R>>()

  at(log: RunLog, from: number, withValues: boolean): R | undefined {
    const range = this.#ofLogs.get(log)?.get(from)
    return range && (range.hasValues || !withValues) ? range : undefined
  }

  keep(log: RunLog, from: number, range: R): R {
    const of = this.#ofLogs.get(log) ?? this.#begin(log)
    const before = of.get(from)
    if (before) drop(before)
    of.set(from, range)
    kept.set(range, { from, of, bytes: 0 })
    this.grow(range, range.size)
    return range
  }

  #begin(log: RunLog): ByStart<R> {
    const of = new Map<number, R>()
    this.#ofLogs.set(log, of)
    collected.register(log, of)
    return of
  }

  /** Counts bytes added by another encoding or selection. */
  grow(range: R, bytes: number): void {
    const one = kept.get(range)
    if (!one) return
    one.bytes += bytes + OVERHEAD_BYTES
    keptBytes += bytes + OVERHEAD_BYTES
    makeRoom()
  }
}

interface KeptOf<State, Event> {
  readonly ranges: Ranges<EncodedRange<State, Event>>
  readonly marks: Marks<State>
}

const byTranslation = new WeakMap<object, KeptOf<never, never>>()

function keptOf<State, Event>(translation: Translation<State, Event>): KeptOf<State, Event> {
  // Only what is of this translation is kept under it.
  const known = byTranslation.get(translation) as KeptOf<State, Event> | undefined
  if (known) return known
  const made: KeptOf<State, Event> = { ranges: new Ranges(), marks: new Marks() }
  byTranslation.set(translation, made as unknown as KeptOf<never, never>)
  return made
}
