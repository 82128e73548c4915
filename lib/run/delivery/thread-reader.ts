// One thread as its reader sees it: all its runs, past and future, one after the other; which run it is in, and where in that run's log.
import type { Run } from '../../base/types.ts'
import type { Filter } from '../log/filter.ts'
import type { LogReader } from '../log/log-reader.ts'
import type { RunLog } from '../log/run-log.ts'
import type { Loaded } from '../log/stored-frames.ts'

const NOTHING: Filter = { mask: 0, accumulate: false }

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
export interface ThreadStart {
  /** It starts after the run with this ordinal. */
  readonly after: number
  /** A cursor at the beginning of a run's log. */
  feed(run: Run, log: RunLog): RunFeed
  /** Everything was sent of all its runs, and there will be no other. Absent: the stream ends then. */
  onEnd?(): void
}

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
export class ThreadReader implements LogReader {
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
