// One reader of a run on one stream: a cursor and a socket, never a queue.
//
// A joiner stands at `next`, the n it has not been sent yet. As long as its socket has space it is moved on by what the log says
// follows there. A full socket is left alone until it drains, and then goes on from the log where it stands, whatever has happened
// meanwhile.
//
// Phases: `waiting` (not positioned yet: heartbeats only) -> `reading` -> `ending` (`end` was said, but its socket has not taken
// everything yet) -> `gone`. A joiner that ends still counts as a stream, is found by a revocation and watched for a stall: a client
// that never reads must not keep its socket for ever.
import type { StreamWriter } from '../../stream-writer.ts'
import { type Timestamp, timestamp } from '../../types.ts'
import { counters } from '../log/counters.ts'
import { type Filter, modesOf } from '../log/filter.ts'
import type { LogReader, RunLog } from '../log/run-log.ts'
import type { Snapshot } from '../log/snapshot.ts'
import { END_FRAME, HEARTBEAT, type Position } from '../log/sse.ts'
import type { Loaded } from '../log/stored-frames.ts'
import { Accumulator } from './accumulator.ts'
import type { Reader } from './credential-revalidator.ts'
import type { CloseReason, OpenStream } from './streams.ts'

/** Bytes of one write to a socket: each that drains is progress, so that a slow reader of a large frame is told from a dead one. */
const WRITE_BYTES = 64 * 1024

const NOTHING = Buffer.alloc(0)

/** Who wants to read a run, in which modes, and from where on. */
export interface JoinRequest {
  readonly wire: StreamWriter
  readonly reader: Reader
  /** null: those the run was created for. */
  readonly modes: readonly string[] | null
  /** null: nothing was seen. */
  readonly position: Position
  /** Its going away may cancel the run (on_disconnect). */
  readonly isCreator?: boolean
  /** It does not know `end`: its stream closes cleanly and says nothing. */
  readonly isWithoutEnd?: boolean
  /** One that has seen nothing begins with how the run stands, not with its first frame. */
  readonly isSnapshot?: boolean
}

/** A joiner, as who looks inside of the run sees it. */
export interface JoinerStanding {
  readonly since: Timestamp
  readonly modes: readonly string[]
  /** Number of the frame that it gets next; null: it waits for its beginning. */
  readonly next: number | null
  /** Its socket takes no more for now. */
  readonly isFull: boolean
}

/** What is told of a joiner. */
export interface JoinerHooks {
  /** Once, when it is gone for whatever reason. */
  onLeave(joiner: Joiner, why: CloseReason): void
  /** It could not go on, and was reset: others are not to notice. */
  onTrouble(error: unknown): void
}

type Phase = 'waiting' | 'reading' | 'ending' | 'gone'

export class Joiner implements LogReader, OpenStream {
  readonly reader: Reader
  readonly filter: Filter
  readonly #writer: StreamWriter
  readonly #end: Buffer
  readonly #log: RunLog
  readonly #hooks: JoinerHooks
  readonly #since = timestamp()
  #phase: Phase = 'waiting'
  /** Where it begins. */
  readonly #start: Position | Snapshot
  #next = 0
  /** What is sent first, as soon as all of it may be shown. */
  #opening: Snapshot | null = null
  #accumulator: Accumulator | null = null
  #isFull = false
  /** What its full socket has not been given yet of the last slice. */
  #rest: Buffer | null = null
  /** Since when nothing has moved: its socket became full, or its end was said. */
  #waitsSince = 0
  #isLoading = false

  /** Attached to the log until it is gone; `pump` sends it the first frames. */
  constructor(
    { wire: writer, reader, isWithoutEnd = false }: Pick<JoinRequest, 'wire' | 'reader' | 'isWithoutEnd'>,
    log: RunLog,
    filter: Filter,
    start: Position | Snapshot,
    hooks: JoinerHooks
  ) {
    this.#writer = writer
    this.#end = isWithoutEnd ? NOTHING : END_FRAME
    this.#log = log
    this.filter = filter
    this.#start = start
    this.#hooks = hooks
    this.reader = reader
    log.attach(this)
    writer.onDrain(() => this.#drained())
    writer.onClose(() => this.#leave(this.#phase === 'ending' ? 'ended' : 'left'))
  }

  /** How it stands, for who looks inside of the run. */
  get standing(): JoinerStanding {
    const next = this.#phase === 'waiting' ? null : this.#next
    return { since: this.#since, modes: modesOf(this.filter), next, isFull: this.#isFull }
  }
  get runId(): string {
    return this.#log.run.run_id
  }

  /** It was told everything; its socket may still hold some of it. */
  get isEnding(): boolean {
    return this.#phase === 'ending'
  }

  /** Sends what there is for this joiner, as far as its socket takes it. Safe to call at any time; never throws. */
  pump(loaded: Loaded | null = null): void {
    try {
      this.#pump(loaded)
    } catch (error) {
      this.reset()
      this.#hooks.onTrouble(error)
    }
  }

  #pump(loaded: Loaded | null): void {
    if (this.#phase === 'waiting' && !this.#begin()) return
    while (this.#phase === 'reading' && !this.#isFull && !this.#isLoading) {
      if (this.#opening && !this.#open(this.#opening)) return
      const next = this.#log.next(this.#next, this.filter, loaded, this.#accumulator)
      if (next === 'tail') return
      if (next === 'end') this.#finish()
      else if (next === 'behind') void this.#load()
      else {
        this.#next = next.next
        counters.frames += next.count
        this.#send(next.bytes)
      }
    }
  }

  /** Finds out where it begins. False: that is not known yet. */
  #begin(): boolean {
    const start = this.#start
    const isSnapshot = start !== null && 'bytes' in start
    const from = isSnapshot ? start.next : this.#log.place(start)
    if (from === null) return false
    this.#phase = 'reading'
    this.#opening = isSnapshot ? start : null
    // Whoever has the last frame of a run that is over has everything: nothing is read for it, and nothing can be missing.
    const hasAll = this.#log.isClosed && from === this.#log.head
    this.#accumulator = this.filter.accumulate && !hasAll ? new Accumulator(from, this.#opening?.partial) : null
    // Whole messages are folded from the first frame on, unless a snapshot has them; what the joiner has seen is not shown again.
    this.#next = this.#accumulator && !isSnapshot ? 0 : from
    return true
  }

  /** False: not all that the snapshot shows may be shown yet. Afterwards the socket may be full. */
  #open({ next, bytes }: Snapshot): boolean {
    if (this.#log.shown < next) return false
    this.#opening = null
    this.#send(bytes)
    return !this.#isFull
  }

  /** Catches up from the store. The only await of a joiner: behind it the log is asked again what follows. */
  async #load(): Promise<void> {
    this.#isLoading = true
    try {
      const loaded = await this.#log.load(this.#next, this.filter, this.#accumulator)
      this.#isLoading = false
      this.pump(loaded)
    } catch {
      // The store does not answer: the client comes back by its cursor.
      this.#isLoading = false
      this.reset()
    }
  }

  #send(bytes: Buffer): void {
    counters.bytes += bytes.length
    if (bytes.length > WRITE_BYTES) this.#write(bytes)
    else if (bytes.length > 0 && !this.#writer.write(bytes)) this.#becameFull(null)
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += WRITE_BYTES) {
      const end = at + WRITE_BYTES
      if (!this.#writer.write(bytes.subarray(at, end)))
        return this.#becameFull(end < bytes.length ? bytes.subarray(end) : null)
    }
  }

  #becameFull(rest: Buffer | null): void {
    this.#isFull = true
    this.#rest = rest
    this.#waitsSince = performance.now()
  }

  #drained(): void {
    const rest = this.#rest
    this.#isFull = false
    this.#rest = null
    if (rest && this.#phase === 'reading') this.#write(rest)
    this.pump()
  }

  /**
   * A sign of life, at a frame border; a full socket has one already. One on which nothing has moved for `stallMs` (0: for ever) has
   * no reader any more: it is reset and comes back by its cursor, if at all.
   */
  beat(stallMs = 0): void {
    if (this.#phase === 'gone') return
    if (!this.#isFull && this.#phase !== 'ending') this.#send(HEARTBEAT)
    else if (stallMs > 0 && performance.now() - this.#waitsSince > stallMs) {
      counters.stalled++
      this.reset()
    }
  }

  /** Breaks the stream off: the client comes back by its cursor. */
  reset(): void {
    if (this.#phase === 'gone') return
    this.#leave('reset')
    this.#writer.reset()
  }

  /** Says the end. It is gone when its stream is closed, which its writer tells. */
  #finish(): void {
    this.#phase = 'ending'
    this.#waitsSince = performance.now()
    this.#writer.end(this.#end)
  }

  #leave(why: CloseReason): void {
    if (this.#phase === 'gone') return
    this.#phase = 'gone'
    this.#log.detach(this)
    this.#hooks.onLeave(this, why)
  }
}
