// One reader of a run on one stream: a cursor and a socket, never a queue.
//
// `next` is the first n the joiner has not been sent. While its socket has space, the log says what follows there. A full socket is left
// alone until it drains, and then continues from the log at its own position, whatever happened meanwhile.
import type { ResetReason, StreamWriter } from '../../base/stream-writer.ts'
import type { Timestamp } from '../../base/types.ts'
import { counters } from '../log/counters.ts'
import { type Filter, modesOf } from '../log/filter.ts'
import type { LogReader } from '../log/log-reader.ts'
import type { RunLog } from '../log/run-log.ts'
import type { Snapshot } from '../log/snapshot.ts'
import { cursorText, END_FRAME, frameText, HEARTBEAT, type Position, stopError } from '../log/frame.ts'
import type { Loaded } from '../log/stored-frames.ts'
import { Accumulator } from './accumulator.ts'
import type { Reader } from './credential-revalidator.ts'
import { ReaderSocket, type SocketOwner } from './reader-socket.ts'
import type { CloseReason, OpenStream, ReaderHooks } from './streams.ts'

/** A request to read a run: in which modes, and from where on. */
export interface JoinRequest {
  readonly wire: StreamWriter
  readonly reader: Reader
  /** null: the modes the run was created with. */
  readonly modes: readonly string[] | null
  /** null: the client has seen nothing. */
  readonly position: Position
  /** Its disconnect may cancel the run (on_disconnect). */
  readonly isCreator?: boolean
  /** Its disconnect may cancel the run because it asked for that, whatever the run's own on_disconnect. */
  readonly endsRun?: boolean
  /** The client does not know `end`: its stream closes cleanly without it. */
  readonly isWithoutEnd?: boolean
  /** A new reader starts with a snapshot of the run, not with its first frame. */
  readonly isSnapshot?: boolean
}

/** A joiner as the run inspector shows it. */
export interface JoinerStanding {
  readonly since: Timestamp
  readonly modes: readonly string[]
  /** n of the next frame to send; null: not positioned yet. */
  readonly next: number | null
  readonly isFull: boolean
}

/** What every joiner of a run sends while it is quiet. */
const BEATS = { heartbeat: HEARTBEAT }

export class Joiner implements LogReader, OpenStream, SocketOwner {
  readonly reader: Reader
  readonly filter: Filter
  readonly #isWithoutEnd: boolean
  readonly #log: RunLog
  readonly #hooks: ReaderHooks<Joiner>
  readonly #onLeft: ((why: CloseReason) => void) | null
  readonly #start: Position | Snapshot
  /** Where it is in the log is known; until then it gets heartbeats only. */
  #isPlaced = false
  #next = 0
  /** Sent first, as soon as all of it may be shown. */
  #opening: Snapshot | null = null
  #accumulator: Accumulator | null = null
  readonly #socket: ReaderSocket
  #isLoading = false

  /** Attached to the log until it is gone; `pump` sends the first frames. `hooks` are shared by all joiners, `onLeft` is its own. */
  constructor(
    { wire: writer, reader, isWithoutEnd = false }: Pick<JoinRequest, 'wire' | 'reader' | 'isWithoutEnd'>,
    log: RunLog,
    filter: Filter,
    start: Position | Snapshot,
    hooks: ReaderHooks<Joiner>,
    onLeft: ((why: CloseReason) => void) | null = null
  ) {
    this.#isWithoutEnd = isWithoutEnd
    this.#log = log
    this.filter = filter
    this.#start = start
    this.#hooks = hooks
    this.#onLeft = onLeft
    this.reader = reader
    log.attach(this)
    this.#socket = new ReaderSocket(writer, this, BEATS)
  }

  get standing(): JoinerStanding {
    const { since, isFull } = this.#socket
    return { since, modes: modesOf(this.filter), next: this.#isPlaced ? this.#next : null, isFull }
  }
  get runId(): string {
    return this.#log.run.run_id
  }

  get isEnding(): boolean {
    return this.#socket.phase === 'ending'
  }

  /** Sends what there is, as far as its socket takes it. Safe to call at any time; never throws. */
  pump(loaded: Loaded | null = null): void {
    const socket = this.#socket
    try {
      if (!this.#isPlaced && !this.#begin()) return
      while (socket.phase === 'open' && !socket.isFull && !this.#isLoading) {
        if (this.#opening && !this.#open(this.#opening)) return
        const next = this.#log.next(this.#next, this.filter, loaded, this.#accumulator)
        if (next === 'tail') return
        if (next === 'end') socket.end(this.#isWithoutEnd ? this.#stop() : END_FRAME)
        else if (next === 'behind') this.#load().catch((error: unknown) => this.#hooks.onTrouble(error, this))
        else {
          this.#next = next.next
          counters.frames += next.count
          socket.send(next.bytes)
        }
      }
    } catch (error) {
      this.reset()
      this.#hooks.onTrouble(error, this)
    }
  }

  /** Positions it. False: its start is not known yet. */
  #begin(): boolean {
    const start = this.#start
    const isSnapshot = start !== null && 'bytes' in start
    const from = isSnapshot ? start.next : this.#log.place(start)
    if (from === null) return false
    this.#isPlaced = true
    this.#opening = isSnapshot ? start : null
    // A client that has the last frame of a finished run has everything: no read is needed, and nothing can be missing.
    const hasAll = this.#log.isClosed && from === this.#log.head
    this.#accumulator = this.filter.accumulate && !hasAll ? new Accumulator(from, this.#opening?.partial) : null
    // Messages are merged from the first frame on, unless a snapshot has them; what the joiner has seen is not shown again.
    this.#next = this.#accumulator && !isSnapshot ? 0 : from
    return true
  }

  /** False: part of the snapshot may not be shown yet. Afterwards the socket may be full. */
  #open({ next, bytes }: Snapshot): boolean {
    if (this.#log.shown < next) return false
    this.#opening = null
    this.#socket.send(bytes)
    return !this.#socket.isFull
  }

  /** Catches up from the store. The only await of a joiner: after it the log is asked again. */
  async #load(): Promise<void> {
    this.#isLoading = true
    try {
      const loaded = await this.#log.load(this.#next, this.filter, this.#accumulator)
      this.#isLoading = false
      this.pump(loaded)
    } catch {
      // The store does not answer: the client reconnects with its cursor.
      this.#isLoading = false
      this.reset()
    }
  }

  drained(): void {
    this.pump()
  }

  beat(stallMs: number): void {
    this.#socket.beat(stallMs)
  }

  reset(why?: ResetReason): void {
    this.#socket.reset(why)
  }

  /** The error of a run that the server has stopped, once: for who knows no `end`, the stream would end as if whole. */
  #stop(): Buffer {
    const { run, head, epoch } = this.#log
    const error = stopError(run)
    const hasSeenIt = this.#start !== null && 'n' in this.#start && this.#start.n === head
    if (error === null || hasSeenIt) return Buffer.alloc(0)
    return Buffer.from(frameText('error', JSON.stringify(error), cursorText(epoch, head)))
  }

  left(why: CloseReason): void {
    this.#log.detach(this)
    this.#hooks.onLeave(this, why)
    this.#onLeft?.(why)
  }
}
