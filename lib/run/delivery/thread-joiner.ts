// One client's stream over any number of threads: what follows each thread's cursor is sent as far as the socket has space, and nothing is
// queued. Each thread is read as by thread-reader.ts.
//
// After the last run of a thread it waits until the next one starts. It ends where a thread says that there will be no other.
import type { ResetReason, StreamWriter } from '../../base/stream-writer.ts'
import { counters } from '../log/counters.ts'
import { modesOf } from '../log/filter.ts'
import type { Loaded } from '../log/stored-frames.ts'
import type { Reader } from './credential-revalidator.ts'
import type { JoinerStanding } from './joiner.ts'
import { ReaderSocket, type SocketOwner } from './reader-socket.ts'
import type { CloseReason, OpenStream, ReaderHooks } from './streams.ts'
import { ThreadReader, type ThreadRuns, type ThreadStart } from './thread-reader.ts'

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

/** Reads any number of threads at once. */
export class ThreadsJoiner implements OpenStream, SocketOwner {
  readonly reader: Reader
  readonly #request: StreamRequest
  readonly #hooks: ReaderHooks
  /** By thread. */
  protected readonly threads = new Map<string, ThreadReader>()
  readonly #socket: ReaderSocket

  constructor(request: StreamRequest, hooks: ReaderHooks) {
    this.#request = request
    this.#hooks = hooks
    this.reader = request.reader
    this.#socket = new ReaderSocket(request.writer, this, request)
  }

  get isGone(): boolean {
    return this.#socket.phase === 'gone'
  }
  get isEnding(): boolean {
    return this.#socket.phase === 'ending'
  }

  /** How it reads a run; null: it is not reading it. */
  standingIn(runId: string): JoinerStanding | null {
    const { since, isFull } = this.#socket
    for (const { current } of this.threads.values()) {
      if (current?.log.run.run_id !== runId) continue
      return { since, modes: modesOf(current.feed.filter), next: current.feed.at ?? null, isFull }
    }
    return null
  }

  has(threadId: string): boolean {
    return this.threads.has(threadId)
  }

  /** Reads a thread as well, from the next `pump` on. */
  add(threadId: string, start: ThreadStart, runs: ThreadRuns): void {
    if (this.isGone) return
    const thread = new ThreadReader(start, runs, {
      pump: (one, loaded) => this.#pumpOne(one, loaded),
      end: ({ onEnd }) => {
        if (!onEnd) return this.#socket.end(this.#request.last ?? NO_BYTES)
        this.drop(threadId)
        onEnd()
      },
      fail: (error) => this.#fail(error),
      reset: () => this.reset()
    })
    this.threads.set(threadId, thread)
  }

  /** What of it was not sent yet is not sent. */
  drop(threadId: string): void {
    this.threads.get(threadId)?.leave()
    this.threads.delete(threadId)
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
    while (waiting.length > 0 && this.#takes) waiting = waiting.filter((thread) => this.#step(thread, null))
  }

  #pumpOne(thread: ThreadReader, loaded: Loaded | null): void {
    while (this.#step(thread, loaded));
  }

  /** Sends one piece of a thread; false: there is none, or no space for it. */
  #step(thread: ThreadReader, loaded: Loaded | null): boolean {
    if (!this.#takes) return false
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

  get #takes(): boolean {
    return this.#socket.phase === 'open' && !this.#socket.isFull
  }

  #fail(error: unknown): void {
    this.reset('broken')
    this.#hooks.onTrouble(error, this)
  }

  /** Sends something that is not of a run; false: there is no space for it now. */
  send(bytes: Buffer): boolean {
    if (!this.#takes) return false
    this.#socket.send(bytes)
    return true
  }

  drained(): void {
    this.#request.onDrain?.()
    this.pump()
  }

  /** Between two pieces: other data may be sent on the same socket. */
  get isAtBorder(): boolean {
    return this.#socket.isAtBorder
  }

  beat(stallMs: number): void {
    this.#socket.beat(stallMs)
  }

  reset(why?: ResetReason): void {
    this.#socket.reset(why)
  }

  left(why: CloseReason): void {
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
