// One reader of threads on one stream: of each all its runs, past and future, one after the other. Like a reader of one run it is cursors
// and a socket, never a queue: of each thread, which run it is in, and where in that run's log.
//
// Behind the last run of a thread it waits until the next one starts. It ends only when it is closed.
import type { ResetReason, StreamWriter } from '../../base/stream-writer.ts'
import { type Run, timestamp } from '../../base/types.ts'
import { counters } from '../log/counters.ts'
import { type Filter, modesOf } from '../log/filter.ts'
import type { LogReader, RunLog } from '../log/run-log.ts'
import type { Loaded } from '../log/stored-frames.ts'
import type { Reader } from './credential-revalidator.ts'
import type { JoinerStanding } from './joiner.ts'
import { PacedWriter } from './paced-writer.ts'
import type { CloseReason, OpenStream, ReaderHooks } from './streams.ts'

/** Unanswered heartbeats after which a reader may be gone. */
const UNANSWERED_MAX = 3

/** What a feed has next: bytes and how many frames they are, or the log's answer when it has none. */
export type Fed = { readonly bytes: Buffer; readonly count: number } | 'behind' | 'tail' | 'end'

/** One run as one reader sees it: a cursor in its log. */
export interface RunFeed {
  readonly filter: Filter
  /** n of the next frame to send, where it is known. */
  readonly at?: number | null
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

export interface ThreadRuns {
  /** The next run after this ordinal; null: none yet; `end`: there will be none. */
  after(ordinal: number): Promise<Run | null | 'end'>
  /** null: it is gone, or not available here now. */
  open(run: Run): Promise<OpenedRun | null>
  /** Calls back whenever there may be another run, until the returned function is called. */
  watch(listener: () => void): () => void
}

/** Where a reader starts in a thread, and how it sees each run. */
interface ThreadStart {
  /** It starts after the run with this ordinal. */
  readonly after: number
  /** A cursor at the beginning of a run's log. */
  feed(run: Run, log: RunLog): RunFeed
  /** Everything was sent of all its runs, and there will be no other. Absent: the stream ends then. */
  onEnd?(): void
}

export interface StreamRequest {
  readonly writer: StreamWriter
  readonly reader: Reader
  readonly heartbeat: Buffer
  /** When the client last responded, where that is known, by `performance.now()`. */
  heardAt?(): number
  /** Sent last, where the stream ends. */
  readonly last?: Buffer
  /** The socket has space again: other data may be sent on it, if `isAtBorder`. */
  onDrain?(): void
}

export interface ThreadRequest extends StreamRequest, ThreadStart {}

interface Current extends OpenedRun {
  readonly ordinal: number
  readonly feed: RunFeed
}

/** What a thread needs of its joiner. */
interface ReaderHost {
  /** There may be something to send of this thread. */
  pump(thread: ThreadReader, loaded: Loaded | null): void
  /** It has no further run. */
  end(start: ThreadStart): void
  fail(error: unknown): void
  reset(): void
}

/** One thread as its reader sees it. */
class ThreadReader implements LogReader {
  readonly #start: ThreadStart
  readonly #runs: ThreadRuns
  readonly #host: ReaderHost
  readonly #unwatch: () => void
  current: Current | null = null
  /** Ordinal of the last run sent. */
  ordinal: number
  /** Incremented by every restart, to cancel whatever was waiting before. */
  #round = 0
  #isFinding = false
  /** There may be another run since the last query. */
  #mayFollow = true
  isLoading = false
  #isGone = false

  constructor(start: ThreadStart, runs: ThreadRuns, host: ReaderHost) {
    this.#start = start
    this.#runs = runs
    this.#host = host
    this.ordinal = start.after
    this.#unwatch = runs.watch(() => {
      this.#mayFollow = true
      host.pump(this, null)
    })
  }

  get filter(): Filter {
    return this.current?.feed.filter ?? NOTHING
  }
  /** Everything was sent, and the store knows no further run. */
  get isIdle(): boolean {
    return this.current === null && !this.#isFinding && !this.#mayFollow
  }

  pump(loaded: Loaded | null): void {
    this.#host.pump(this, loaded)
  }

  reset(): void {
    this.#host.reset()
  }

  /** What follows; null: nothing now. */
  next(loaded: Loaded | null): (Fed & object) | null {
    while (!this.isLoading) {
      const { current } = this
      if (!current) {
        this.#find().catch((error: unknown) => this.#host.fail(error))
        return null
      }
      const fed = current.feed.next(loaded)
      if (typeof fed === 'object') return fed
      if (fed === 'tail') return null
      if (fed === 'behind') this.#load(current.feed).catch((error: unknown) => this.#host.fail(error))
      else this.#ended(current)
    }
    return null
  }

  restart(after: number): void {
    this.#detach()
    this.#round++
    this.ordinal = after
    this.#mayFollow = true
    this.#isFinding = false
    this.isLoading = false
    this.#host.pump(this, null)
  }

  #ended({ ordinal }: Current): void {
    this.#detach()
    this.ordinal = ordinal
    this.#mayFollow = true
  }

  #detach(): void {
    const { current } = this
    this.current = null
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
      while (this.#mayFollow && !this.current) {
        this.#mayFollow = false
        const run = await this.#runs.after(this.ordinal)
        if (isOver()) return
        if (run === 'end') return this.#host.end(this.#start)
        if (run) await this.#open(run, isOver)
        if (isOver()) return
      }
    } catch (error) {
      // The store does not answer: the client reconnects.
      return isOver() ? undefined : this.#host.fail(error)
    }
    this.#isFinding = false
    this.#host.pump(this, null)
  }

  async #open(run: Run, isOver: () => boolean): Promise<void> {
    const opened = await this.#runs.open(run)
    if (isOver()) return opened?.left()
    if (!opened) {
      // Deleted meanwhile: skip it.
      this.ordinal = run.ordinal
      this.#mayFollow = true
      return
    }
    this.current = { ...opened, ordinal: run.ordinal, feed: this.#start.feed(run, opened.log) }
    opened.log.attach(this)
  }

  /** Catches up from the store; behind it the log is asked again what follows. */
  async #load(feed: RunFeed): Promise<void> {
    this.isLoading = true
    const round = this.#round
    try {
      const loaded = await feed.load()
      if (round !== this.#round) return
      this.isLoading = false
      this.#host.pump(this, loaded)
    } catch (error) {
      if (round === this.#round && !this.#isGone) this.#host.fail(error)
    }
  }

  leave(): void {
    this.#isGone = true
    this.#unwatch()
    this.#detach()
  }
}

/** Reads any number of threads at once. */
export class ThreadsJoiner implements OpenStream {
  readonly reader: Reader
  readonly #since = timestamp()
  readonly #request: StreamRequest
  readonly #hooks: ReaderHooks
  /** By thread. */
  protected readonly threads = new Map<string, ThreadReader>()
  readonly #socket: PacedWriter
  #isGone = false
  /** Everything was sent; its socket may still buffer some of it. */
  isEnding = false
  /** There will be nothing more, once its socket has space. */
  #isOver = false
  /** State at the last heartbeat, and how many have found the same. */
  #heardAt = 0
  #unanswered = 0

  constructor(request: StreamRequest, hooks: ReaderHooks) {
    this.#request = request
    this.#socket = new PacedWriter(request.writer)
    this.#hooks = hooks
    this.reader = request.reader
    request.writer.onDrain(() => this.#drained())
    request.writer.onClose(() => this.#leave(this.isEnding ? 'ended' : 'left'))
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** How it reads a run; null: it is not reading it. */
  standingIn(runId: string): JoinerStanding | null {
    const { isFull } = this.#socket
    for (const { current } of this.threads.values()) {
      if (current?.log.run.run_id !== runId) continue
      return { since: this.#since, modes: modesOf(current.feed.filter), next: current.feed.at ?? null, isFull }
    }
    return null
  }

  has(threadId: string): boolean {
    return this.threads.has(threadId)
  }

  /** Reads a thread as well, from the next `pump` on. */
  add(threadId: string, start: ThreadStart, runs: ThreadRuns): void {
    if (this.#isGone) return
    const thread = new ThreadReader(start, runs, {
      pump: (one, loaded) => this.#pumpOne(one, loaded),
      end: ({ onEnd }) => {
        if (!onEnd) return this.#end()
        this.threads.get(threadId)?.leave()
        this.threads.delete(threadId)
        onEnd()
      },
      fail: (error) => this.#fail(error),
      reset: () => this.reset()
    })
    this.threads.set(threadId, thread)
  }

  /** Drops the threads of which everything was sent. Returns the ordinal of the last run of each. */
  dropIdle(): ReadonlyMap<string, number> {
    const dropped = new Map<string, number>()
    for (const [threadId, thread] of this.threads) {
      if (!thread.isIdle) continue
      thread.leave()
      this.threads.delete(threadId)
      dropped.set(threadId, thread.ordinal)
    }
    return dropped
  }

  /** Sends what there is, as far as the socket takes it. Safe to call at any time; never throws. */
  pump(): void {
    // One piece of each in turn, so that a long one holds up no other.
    let waiting = [...this.threads.values()]
    while (waiting.length > 0 && !this.#isGone && !this.#socket.isFull)
      waiting = waiting.filter((thread) => this.#step(thread, null))
  }

  #pumpOne(thread: ThreadReader, loaded: Loaded | null): void {
    while (this.#step(thread, loaded));
  }

  /** Sends one piece of a thread; false: there is none, or no space for it. */
  #step(thread: ThreadReader, loaded: Loaded | null): boolean {
    if (this.#isGone || this.#isOver || this.#socket.isFull) return false
    try {
      const fed = thread.next(loaded)
      if (!fed) return false
      counters.frames += fed.count
      this.#socket.send(fed.bytes)
      return true
    } catch (error) {
      this.#fail(error)
      return false
    }
  }

  #end(): void {
    this.#isOver = true
    if (this.#isGone || this.isEnding || this.#socket.isFull) return
    this.isEnding = true
    this.#socket.waitsSince = performance.now()
    this.#request.writer.end(this.#request.last ?? NO_BYTES)
  }

  #fail(error: unknown): void {
    this.reset('broken')
    this.#hooks.onTrouble(error, this)
  }

  /** Sends something that is not of a run; false: there is no space for it now. */
  send(bytes: Buffer): boolean {
    if (this.#isGone || this.#isOver || this.#socket.isFull) return false
    this.#socket.send(bytes)
    return true
  }

  #drained(): void {
    if (this.#isGone) return
    this.#socket.drained()
    if (this.#isOver) return this.#end()
    this.#request.onDrain?.()
    this.pump()
  }

  /** Between two pieces: other data may be sent on the same socket. */
  get isAtBorder(): boolean {
    return this.#socket.isAtBorder
  }

  beat(stallMs = 0): void {
    if (this.#isGone) return
    const since = this.#socket.isFull || this.isEnding ? this.#socket.waitsSince : this.#silentSince()
    if (stallMs > 0 && since !== null && performance.now() - since > stallMs) {
      counters.stalled++
      this.reset('stalled')
    } else if (!this.#socket.isFull && !this.isEnding) this.#socket.send(this.#request.heartbeat)
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
    for (const thread of this.threads.values()) thread.leave()
    this.threads.clear()
    this.#hooks.onLeave(this, why)
  }
}

/** Reads one thread. */
export class ThreadJoiner extends ThreadsJoiner {
  /** Ordinal of the last run sent. */
  #ordinal: number

  constructor(request: ThreadRequest, runs: ThreadRuns, hooks: ReaderHooks) {
    super(request, hooks)
    this.#ordinal = request.after
    this.add(ONLY, request, runs)
  }

  /** Restarts after the run with this ordinal. */
  restart(after: number): void {
    this.threads.get(ONLY)?.restart(after)
  }

  /** Ordinal of the last run sent. */
  get ordinal(): number {
    this.#ordinal = this.threads.get(ONLY)?.ordinal ?? this.#ordinal
    return this.#ordinal
  }
  get isInRun(): boolean {
    return this.threads.get(ONLY)?.current != null
  }
}

const ONLY = ''
const NO_BYTES = Buffer.alloc(0)
const NOTHING: Filter = { mask: 0, accumulate: false }
