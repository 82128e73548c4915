// The socket of one reader: what is written to it, in parts with heartbeats between them, and whether it stalls, ends or is gone. Every
// drain counts as progress, which tells a slow reader of a large frame from a dead one.
import type { ResetReason, StreamWriter } from '../../base/stream-writer.ts'
import { timestamp } from '../../base/types.ts'
import { counters } from '../log/counters.ts'
import type { CloseReason } from './streams.ts'

const PART_BYTES = 64 * 1024
/** Unanswered heartbeats after which a reader may be gone. */
const UNANSWERED_MAX = 3
const NO_BYTES = Buffer.alloc(0)

/** What reads on this socket. */
export interface SocketOwner {
  /** The socket has space again. */
  drained(): void
  /** Called once, when the socket is closed for whatever reason. */
  left(why: CloseReason): void
}

interface Beats {
  readonly heartbeat: Buffer
  /** When the client last responded, where that is known, by `performance.now()`. */
  heardAt?(): number
}

/**
 * `open` -> `ending` (the last bytes are given, but may not be flushed yet) -> `gone`. One that is ending still counts as a stream, can be
 * revoked and is watched for stalls: a client that never reads must not keep its socket for ever.
 */
type Phase = 'open' | 'ending' | 'gone'

export class ReaderSocket {
  readonly since = timestamp()
  phase: Phase = 'open'
  /** It takes no more for now. */
  isFull = false
  readonly #writer: StreamWriter
  readonly #owner: SocketOwner
  readonly #beats: Beats
  /** What the full socket has not been given yet. */
  #rest: Buffer | null = null
  /** With which bytes it ends, as soon as there is space for them. */
  #last: Buffer | null = null
  /** Since when nothing has moved, by `performance.now()`. */
  #waitsSince = 0
  /** State at the last heartbeat, and how many have found the same. */
  #heardAt = 0
  #unanswered = 0

  constructor(writer: StreamWriter, owner: SocketOwner, beats: Beats) {
    this.#writer = writer
    this.#owner = owner
    this.#beats = beats
    writer.onDrain(() => this.#drained())
    writer.onClose(() => this.#leave(this.phase === 'ending' ? 'ended' : 'left'))
  }

  /** Everything that was sent is written: something else may be written to the same socket. */
  get isAtBorder(): boolean {
    return this.#rest === null
  }

  /** Must not be called while the socket is full, nor behind its end. */
  send(bytes: Buffer): void {
    counters.bytes += bytes.length
    if (bytes.length > PART_BYTES) this.#writeParts(bytes)
    else if (bytes.length > 0 && !this.#writer.write(bytes)) this.#fill(null)
  }

  /** Ends the stream cleanly behind what was sent. The socket is gone once its writer reports it closed. */
  end(last: Buffer): void {
    if (this.phase !== 'open') return
    this.phase = 'ending'
    this.#last = last
    if (!this.isFull) this.#writeLast()
  }

  #writeLast(): void {
    const last = this.#last
    if (last === null) return
    this.#last = null
    this.#waitsSince = performance.now()
    this.#writer.end(last)
  }

  /** Afterwards it may be full again. */
  #drained(): void {
    if (this.phase === 'gone') return
    const rest = this.#rest ?? NO_BYTES
    this.isFull = false
    this.#rest = null
    this.#writeParts(rest)
    if (this.phase === 'open') this.#owner.drained()
    else if (!this.isFull) this.#writeLast()
  }

  /** A heartbeat, between two pieces. Without progress for `stallMs` (0: for ever) it is reset, and the client may come back. */
  beat(stallMs = 0): void {
    if (this.phase === 'gone') return
    const isWaiting = this.isFull || this.phase === 'ending'
    const since = isWaiting ? this.#waitsSince : this.#silentSince()
    if (stallMs > 0 && since !== null && performance.now() - since > stallMs) {
      counters.stalled++
      this.reset('stalled')
    } else if (!isWaiting) this.send(this.#beats.heartbeat)
  }

  /** Since when heartbeats have gone unanswered; null: they are answered, or no answer is expected. The delay may be on our side. */
  #silentSince(): number | null {
    const heardAt = this.#beats.heardAt?.()
    if (heardAt === undefined) return null
    this.#unanswered = heardAt === this.#heardAt ? this.#unanswered + 1 : 0
    this.#heardAt = heardAt
    return this.#unanswered >= UNANSWERED_MAX ? heardAt : null
  }

  /** Resets the connection: the client comes back with its cursor. */
  reset(why?: ResetReason): void {
    if (this.phase === 'gone') return
    this.#leave('reset')
    this.#writer.reset(why)
  }

  #leave(why: CloseReason): void {
    if (this.phase === 'gone') return
    this.phase = 'gone'
    this.#rest = null
    this.#owner.left(why)
  }

  #writeParts(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += PART_BYTES) {
      const end = at + PART_BYTES
      if (!this.#writer.write(bytes.subarray(at, end)))
        return this.#fill(end < bytes.length ? bytes.subarray(end) : null)
    }
  }

  #fill(rest: Buffer | null): void {
    this.isFull = true
    this.#rest = rest
    this.#waitsSince = performance.now()
  }
}
