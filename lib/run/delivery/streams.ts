// The open streams of this process: their quota, heartbeats, revalidation and reset.
//
// A stream is anything that keeps a response open: a reader of frames, or a request waiting for the end of a run as
// JSON. Its place is reserved before the first await, so that a burst of requests cannot overshoot a limit together.
import { Budget, type Limits, type Share } from '../../base/budget.ts'
import { fail } from '../../base/errors.ts'
import type { ResetReason } from '../../base/stream-writer.ts'
import { CredentialRevalidator, type Reader } from './credential-revalidator.ts'

/** Why a stream was closed: by its client, after its end, or reset by us. */
export type CloseReason = 'left' | 'ended' | 'reset'

export interface OpenStream {
  readonly reader: Reader
  /** Everything was sent: it needs no reset. */
  readonly isEnding: boolean
  /** Sends a heartbeat; without progress for `stallMs` (0: for ever) it is reset. */
  beat(stallMs: number): void
  /** Resets it: its client reconnects. */
  reset(why?: ResetReason): void
}

/** Callbacks of a reader. */
export interface ReaderHooks<R extends OpenStream = OpenStream> {
  /** Called once, when it is gone for whatever reason. */
  onLeave(reader: R, why: CloseReason): void
  /** It failed and was reset; other readers must not notice. */
  onTrouble(error: unknown, reader: R): void
}

interface StreamsDeps {
  /** Streams of a user, and of all. */
  readonly limits: Limits
  readonly heartbeatMs: number
  /** How long a socket may stay full without any progress before its stream is reset, in ms; 0: for ever. */
  readonly stallMs: number
  readonly onTrouble: (error: unknown) => void
}

/** A reserved place for one stream. */
export interface Place {
  /** A stream holds it now, and releases it when closed. */
  isTaken: boolean
  readonly share: Share<string | null>
}

export class Streams {
  readonly #deps: StreamsDeps
  readonly #open = new Map<OpenStream, Place>()
  readonly #revalidator: CredentialRevalidator
  readonly #heartbeat: NodeJS.Timeout
  /** Streams open or being opened, by user. */
  readonly quota: Budget<string | null>
  #isClosing = false

  constructor(deps: StreamsDeps) {
    this.#deps = deps
    this.quota = new Budget(deps.limits)
    this.#revalidator = new CredentialRevalidator({
      readers: () => [...this.#open.keys()].map(({ reader }) => reader),
      reset: (isMeant) => this.reset(isMeant, 'revoked'),
      onTrouble: deps.onTrouble
    })
    this.#heartbeat = setInterval(() => this.#beat(), deps.heartbeatMs)
    this.#heartbeat.unref()
  }

  get size(): number {
    return this.#open.size
  }
  get open(): Iterable<OpenStream> {
    return this.#open.keys()
  }
  /** Shutdown is resetting streams: a new one is reset at once, and reconnects to another process. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  /**
   * Reserves a place for the stream that `open` adds, and releases it if that adds none for whatever reason.
   * @throws Failure `too_many_streams`, before `open` is called
   */
  async hold<T>(userId: string | null, open: (place: Place) => Promise<T>): Promise<T> {
    const place: Place = { isTaken: false, share: this.quota.share(userId) }
    if (!place.share.take(1)) throw fail('too_many_streams', null, { 'Retry-After': '5' })
    try {
      return await open(place)
    } finally {
      if (!place.isTaken) place.share.release()
    }
  }

  /** From now on until it is closed it gets heartbeats, and revocations and shutdown find it. */
  add(stream: OpenStream, place: Place): void {
    place.isTaken = true
    this.#open.set(stream, place)
    // Its credential may have been revoked since the request was authenticated: checked again now that a revocation would find it.
    this.#revalidator.soon(stream.reader)
    if (this.#isClosing) stream.reset('stopping')
  }

  remove(stream: OpenStream): void {
    this.#open.get(stream)?.share.release()
    this.#open.delete(stream)
  }

  reset(isMeant: (reader: Reader) => boolean, why?: ResetReason): void {
    for (const stream of [...this.#open.keys()]) if (isMeant(stream.reader)) stream.reset(why)
  }

  /** Something was revoked: checks the matching streams, and resets those whose credential is no longer valid. */
  revalidate(isMeant: (reader: Reader) => boolean): Promise<void> {
    return this.#revalidator.revalidate(isMeant)
  }

  #beat(): void {
    const { stallMs } = this.#deps
    // A copy, because a reset stream leaves the set.
    for (const stream of [...this.#open.keys()]) stream.beat(stallMs)
    this.#revalidator.walk().catch(this.#deps.onTrouble)
  }

  /**
   * Resets all, about one per ms but within `spreadMs`: they all reconnect. A stream whose end was sent is left to be
   * read, as long as the server keeps its socket.
   */
  async resetAll(spreadMs: number): Promise<number> {
    this.#isClosing = true
    const open = [...this.#open.keys()].filter(({ isEnding }) => !isEnding)
    const count = open.length
    const totalMs = Math.min(spreadMs, count)
    const steps = Math.min(open.length, 20)
    for (let step = 1; step <= steps; step++) {
      const due = open.splice(0, Math.ceil(open.length / (steps - step + 1)))
      for (const stream of due) if (!stream.isEnding) stream.reset('stopping')
      if (step < steps && totalMs > 0) await new Promise((resolve) => setTimeout(resolve, totalMs / steps))
    }
    return count
  }

  stop(): void {
    clearInterval(this.#heartbeat)
    this.#revalidator.stop()
  }
}
