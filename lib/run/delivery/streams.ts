// The open streams of this process: how many there may be, that they live, whether who reads them still may, and breaking them off.
//
// A stream is whatever keeps an answer open: a reader of frames, or who waits for the end of a run as JSON. Its place is held before
// anything is awaited for it, so that a burst of requests cannot overshoot a limit together.
import { fail } from '../../errors.ts'
import type { ResetReason } from '../../stream-writer.ts'
import { CredentialRevalidator, type Reader } from './credential-revalidator.ts'

/** Why a stream is closed: its client went, it was told everything, or we broke it off. */
export type CloseReason = 'left' | 'ended' | 'reset'

export interface OpenStream {
  readonly reader: Reader
  /** It was told everything, and needs no reset. */
  readonly isEnding: boolean
  /** A sign of life; without any progress for `stallMs` (0: for ever) it is reset. */
  beat(stallMs: number): void
  /** Broken off by us: its client comes back. */
  reset(why?: ResetReason): void
}

/** Open streams of one user, and of all; 0 is no limit. */
export interface StreamLimits {
  readonly perUser: number
  readonly total: number
}

export interface StreamsDeps {
  readonly limits: StreamLimits
  readonly heartbeatMs: number
  /** How long a socket may stay full without any progress before its stream is reset, in ms; 0: for ever. */
  readonly stallMs: number
  readonly onTrouble: (error: unknown) => void
}

/** Room for one stream. */
export interface Place {
  /** A stream has it now, and gives it back when it is closed. */
  isTaken: boolean
  /** Gives it back. */
  free(): void
}

/** How many streams are open or being opened, and whose they are. */
export class StreamQuota {
  readonly #limits: StreamLimits
  readonly #byUser = new Map<string | null, number>()
  #total = 0

  constructor(limits: StreamLimits) {
    this.#limits = limits
  }

  get total(): number {
    return this.#total
  }
  /** Who has one at least. */
  get users(): number {
    return this.#byUser.size
  }

  /** A place of this user; null: there is none. */
  reserve(userId: string | null): Place | null {
    const { perUser, total } = this.#limits
    const own = this.#byUser.get(userId) ?? 0
    if ((total > 0 && this.#total >= total) || (perUser > 0 && own >= perUser)) return null
    this.#total++
    this.#byUser.set(userId, own + 1)
    let isFree = false
    const free = () => {
      if (!isFree) this.#freed(userId)
      isFree = true
    }
    return { isTaken: false, free }
  }

  #freed(userId: string | null): void {
    this.#total--
    const own = this.#byUser.get(userId)! - 1
    if (own > 0) this.#byUser.set(userId, own)
    else this.#byUser.delete(userId)
  }
}

export class Streams {
  readonly #deps: StreamsDeps
  readonly #open = new Map<OpenStream, Place>()
  readonly #revalidator: CredentialRevalidator
  readonly #heartbeat: NodeJS.Timeout
  readonly quota: StreamQuota
  #isClosing = false

  constructor(deps: StreamsDeps) {
    this.#deps = deps
    this.quota = new StreamQuota(deps.limits)
    this.#revalidator = new CredentialRevalidator({
      readers: () => [...this.#open.keys()].map(({ reader }) => reader),
      reset: (isMeant) => this.reset(isMeant, 'revoked'),
      onTrouble: deps.onTrouble
    })
    this.#heartbeat = setInterval(() => this.#beat(), deps.heartbeatMs)
    this.#heartbeat.unref()
  }

  /** Streams that are open. */
  get size(): number {
    return this.#open.size
  }
  /** All of them. */
  get open(): Iterable<OpenStream> {
    return this.#open.keys()
  }
  /** A stop is resetting streams: who comes now is reset at once, and comes back to another process. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  /**
   * Holds a place for the stream that `open` adds, and gives it back when that adds none, for whatever reason.
   * @throws Failure `too_many_streams`, before `open` is called
   */
  async hold<T>(userId: string | null, open: (place: Place) => Promise<T>): Promise<T> {
    const place = this.quota.reserve(userId)
    if (!place) throw fail('too_many_streams', null, { 'Retry-After': '5' })
    try {
      return await open(place)
    } finally {
      if (!place.isTaken) place.free()
    }
  }

  /** From now on it gets heartbeats, and is found by a revocation and a stop, until it is closed. */
  add(stream: OpenStream, place: Place): void {
    place.isTaken = true
    this.#open.set(stream, place)
    // It may have been revoked since its request was let in: asked again now that a revocation would find the stream.
    this.#revalidator.soon(stream.reader)
    if (this.#isClosing) stream.reset('stopping')
  }

  /** It is closed, whoever has closed it. */
  remove(stream: OpenStream): void {
    this.#open.get(stream)?.free()
    this.#open.delete(stream)
  }

  /** Resets the streams that are meant. */
  reset(isMeant: (reader: Reader) => boolean, why?: ResetReason): void {
    for (const stream of [...this.#open.keys()]) if (isMeant(stream.reader)) stream.reset(why)
  }

  /** Something was revoked: of the streams that are meant, those end whose credential does not stand any more. */
  revalidate(isMeant: (reader: Reader) => boolean): Promise<void> {
    return this.#revalidator.revalidate(isMeant)
  }

  #beat(): void {
    const { stallMs } = this.#deps
    // As they are now: who is reset leaves.
    for (const stream of [...this.#open.keys()]) stream.beat(stallMs)
    void this.#revalidator.walk()
  }

  /**
   * Resets all, about one a ms but within `spreadMs`: they all come back. Who was told the end is left to read it, as long as the
   * server lets its socket be.
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
