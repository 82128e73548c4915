// One reader of a thread on one stream: all its runs, past and future, one after the other. Like a reader of one run it
// is a cursor and a socket, never a queue: which run it is in, and where in that run's log.
//
// After the last run it waits until the next one starts. It ends only when it is closed.
import type { ResetReason, StreamWriter } from '../../stream-writer.ts'
import type { Run } from '../../types.ts'
import { counters } from '../log/counters.ts'
import type { Filter } from '../log/filter.ts'
import type { LogReader, RunLog } from '../log/run-log.ts'
import type { Loaded } from '../log/stored-frames.ts'
import type { Reader } from './credential-revalidator.ts'
import { PacedWriter } from './paced-writer.ts'
import type { CloseReason, OpenStream, ReaderHooks } from './streams.ts'

/** Unanswered heartbeats after which a reader may be gone. */
const UNANSWERED_MAX = 3

/** What a feed has next: bytes and how many frames they are, or the log's answer when it has none. */
export type Fed = { readonly bytes: Buffer; readonly count: number } | 'behind' | 'tail' | 'end'

/** One run as one reader sees it: a cursor in its log. */
export interface RunFeed {
  readonly filter: Filter
  /** What follows; `end`: nothing more will. `loaded`: the result of `load`. */
  next(loaded: Loaded | null): Fed
  load(): Promise<Loaded>
}

/** A run's log, open for one reader. */
export interface OpenedRun {
  readonly log: RunLog
  /** Detaches the reader. */
  left(): void
}

interface ThreadRuns {
  /** The next run after this ordinal; null: none yet. */
  after(ordinal: number): Promise<Run | null>
  /** null: it is gone, or not available here now. */
  open(run: Run): Promise<OpenedRun | null>
  /** Calls back whenever there may be another run, until the returned function is called. */
  watch(listener: () => void): () => void
}

export interface ThreadRequest {
  readonly writer: StreamWriter
  readonly reader: Reader
  readonly heartbeat: Buffer
  /** When the client last responded, where that is known, by `performance.now()`. */
  heardAt?(): number
  /** The socket has space again: other data may be sent on it, if `isAtBorder`. */
  onDrain?(): void
  /** It starts after the run with this ordinal. */
  readonly after: number
  /** A cursor at the beginning of a run's log. */
  feed(run: Run, log: RunLog): RunFeed
}

interface Current extends OpenedRun {
  readonly ordinal: number
  readonly feed: RunFeed
}

export class ThreadJoiner implements LogReader, OpenStream {
  readonly reader: Reader
  readonly isEnding = false
  readonly #request: ThreadRequest
  readonly #runs: ThreadRuns
  readonly #hooks: ReaderHooks
  readonly #unwatch: () => void
  #current: Current | null = null
  /** Ordinal of the last run sent. */
  #ordinal: number
  /** Incremented by every restart, to cancel whatever was waiting before. */
  #round = 0
  #isFinding = false
  /** There may be another run since the last query. */
  #mayFollow = true
  #isLoading = false
  readonly #socket: PacedWriter
  #isGone = false
  /** State at the last heartbeat, and how many have found the same. */
  #heardAt = 0
  #unanswered = 0

  constructor(request: ThreadRequest, runs: ThreadRuns, hooks: ReaderHooks) {
    this.#request = request
    this.#socket = new PacedWriter(request.writer)
    this.#runs = runs
    this.#hooks = hooks
    this.reader = request.reader
    this.#ordinal = request.after
    request.writer.onDrain(() => this.#drained())
    request.writer.onClose(() => this.#leave('left'))
    this.#unwatch = runs.watch(() => {
      this.#mayFollow = true
      this.pump()
    })
  }

  get filter(): Filter {
    return this.#current?.feed.filter ?? NOTHING
  }

  /** Restarts after the run with this ordinal. */
  restart(after: number): void {
    this.#detach()
    this.#round++
    this.#ordinal = after
    this.#mayFollow = true
    this.#isFinding = false
    this.#isLoading = false
    this.pump()
  }

  /** Sends what there is, as far as the socket takes it. Safe to call at any time; never throws. */
  pump(loaded: Loaded | null = null): void {
    try {
      this.#pump(loaded)
    } catch (error) {
      this.reset('broken')
      this.#hooks.onTrouble(error, this)
    }
  }

  #pump(loaded: Loaded | null): void {
    while (!this.#isGone && !this.#socket.isFull && !this.#isLoading) {
      const current = this.#current
      if (!current) return void this.#find().catch((error: unknown) => this.#hooks.onTrouble(error, this))
      const fed = current.feed.next(loaded)
      if (fed === 'tail') return
      if (fed === 'behind') this.#load(current.feed).catch((error: unknown) => this.#hooks.onTrouble(error, this))
      else if (fed === 'end') this.#ended(current)
      else {
        counters.frames += fed.count
        this.#socket.send(fed.bytes)
      }
    }
  }

  #ended({ ordinal }: Current): void {
    this.#detach()
    this.#ordinal = ordinal
    this.#mayFollow = true
  }

  #detach(): void {
    const current = this.#current
    this.#current = null
    current?.log.detach(this)
    current?.left()
  }

  /** Finds the next run and goes to the beginning of its log. */
  async #find(): Promise<void> {
    if (this.#isFinding || !this.#mayFollow) return
    this.#isFinding = true
    const round = this.#round
    const isOver = () => this.#isGone || round !== this.#round
    try {
      while (this.#mayFollow && !this.#current) {
        this.#mayFollow = false
        const run = await this.#runs.after(this.#ordinal)
        if (isOver()) return
        if (run) await this.#open(run, isOver)
        if (isOver()) return
      }
    } catch (error) {
      // The store does not answer: the client reconnects.
      if (!isOver()) this.reset('broken')
      return this.#hooks.onTrouble(error, this)
    }
    this.#isFinding = false
    this.pump()
  }

  async #open(run: Run, isOver: () => boolean): Promise<void> {
    const opened = await this.#runs.open(run)
    if (isOver()) return opened?.left()
    if (!opened) {
      // Deleted meanwhile: skip it.
      this.#ordinal = run.ordinal
      this.#mayFollow = true
      return
    }
    this.#current = { ...opened, ordinal: run.ordinal, feed: this.#request.feed(run, opened.log) }
    opened.log.attach(this)
  }

  /** Catches up from the store; behind it the log is asked again what follows. */
  async #load(feed: RunFeed): Promise<void> {
    this.#isLoading = true
    const round = this.#round
    try {
      const loaded = await feed.load()
      if (round !== this.#round) return
      this.#isLoading = false
      this.pump(loaded)
    } catch {
      if (round === this.#round) this.reset('broken')
    }
  }

  #drained(): void {
    if (this.#isGone) return
    this.#socket.drained()
    this.#request.onDrain?.()
    this.pump()
  }

  /** Ordinal of the last run sent. */
  get ordinal(): number {
    return this.#ordinal
  }
  get isInRun(): boolean {
    return this.#current !== null
  }

  /** Between two pieces: other data may be sent on the same socket. */
  get isAtBorder(): boolean {
    return this.#socket.isAtBorder
  }

  beat(stallMs = 0): void {
    if (this.#isGone) return
    const since = this.#socket.isFull ? this.#socket.waitsSince : this.#silentSince()
    if (stallMs > 0 && since !== null && performance.now() - since > stallMs) {
      counters.stalled++
      this.reset('stalled')
    } else if (!this.#socket.isFull) this.#socket.send(this.#request.heartbeat)
  }

  /** Since when heartbeats have gone unanswered; null: they are answered, or no answer is expected. The delay may be on our side. */
  #silentSince(): number | null {
    const heardAt = this.#request.heardAt?.()
    if (heardAt === undefined) return null
    this.#unanswered = heardAt === this.#heardAt ? this.#unanswered + 1 : 0
    this.#heardAt = heardAt
    return this.#unanswered >= UNANSWERED_MAX ? heardAt : null
  }

  reset(why?: ResetReason): void {
    if (this.#isGone) return
    this.#leave('reset')
    this.#request.writer.reset(why)
  }

  #leave(why: CloseReason): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#socket.drop()
    this.#unwatch()
    this.#detach()
    this.#hooks.onLeave(this, why)
  }
}

const NOTHING: Filter = { mask: 0, accumulate: false }
