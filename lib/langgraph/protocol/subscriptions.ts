// A client's subscriptions to a thread. They share one cursor: a new one moves it back to the start, and until it has
// caught up, each event is sent only for subscriptions that have not had it.
import type { RunLog } from '../../run/log/run-log.ts'
import type { Position } from '../../run/log/frame.ts'
import { FRAMES_MAX, frameAt, type ProtocolEvent, seqOf } from './event.ts'
import type { Selection } from './feed.ts'
import { anyOf, type EventFilter, eventFilter, logFilter, type Since, type SubscriptionParams } from './subscription.ts'

interface Subscription {
  readonly filter: EventFilter
  /** Events up to and including this seq are not sent. */
  readonly from: number
  /** `from` is the client's: it may have seen events undone by a crash. */
  readonly isClientGiven: boolean
}

/** A position before every event. */
export const BEFORE_ALL = -1

export class Subscriptions {
  readonly #byId = new Map<string, Subscription>()
  /** The position the last client gave, in its run's log. */
  #clientPosition: Position = null
  /** A log of another process that does not know the given attempt yet: not stored yet, or lost. */
  #unresolved: { readonly ordinal: number; readonly log: RunLog } | null = null
  #shared: Selection = steady(anyOf([]))
  /** From this seq on all subscriptions are complete, and one filter serves them. */
  #sharedFrom = BEFORE_ALL

  get size(): number {
    return this.#byId.size
  }

  /** @param sentThrough seq up to which earlier subscriptions are complete */
  add(id: string, params: SubscriptionParams, sentThrough: number, since: Since | null = null): void {
    // BEFORE_ALL: it begins together with earlier ones, which were sent nothing yet.
    for (const [known, one] of sentThrough > BEFORE_ALL ? this.#byId : [])
      this.#byId.set(known, { ...one, from: Math.max(one.from, sentThrough), isClientGiven: false })
    const from = since?.seq ?? BEFORE_ALL
    this.#byId.set(id, { filter: eventFilter(params), from, isClientGiven: since !== null })
    this.#clientPosition = since && { epoch: since.epoch, n: frameAt(since.seq).n }
    this.#changed()
  }

  /**
   * Called with the log of each run before its events. A client whose position is in a lost attempt gets everything
   * from the next attempt on.
   */
  onLog({ ordinal }: { readonly ordinal: number }, log: RunLog): void {
    this.#unresolved = null
    for (const [id, one] of this.#byId) {
      const { n, ordinal: given } = frameAt(Math.max(0, one.from))
      if (!one.isClientGiven || given !== ordinal) continue
      const next = firstUnseen(log, n, this.#clientPosition)
      if (next === null) this.#unresolved = { ordinal, log }
      else this.#byId.set(id, { ...one, isClientGiven: false, from: next > n ? one.from : seqOf(ordinal, next, 0) - 1 })
    }
    this.#updateShared()
  }

  /** @returns false: unknown id */
  remove(id: string): boolean {
    const isKnown = this.#byId.delete(id)
    if (isKnown) this.#changed()
    return isKnown
  }

  #changed(): void {
    this.#shared = steady(anyOf([...this.#byId.values()].map(({ filter }) => filter)))
    this.#updateShared()
  }

  #updateShared(): void {
    this.#sharedFrom = Math.max(BEFORE_ALL, ...[...this.#byId.values()].map(({ from }) => from))
  }

  /** What is sent after the event with this seq. */
  selectionAfter(seq: number): Selection {
    if (this.#unresolved !== null) this.onLog(this.#unresolved, this.#unresolved.log)
    if (this.#unresolved !== null) return { ...this.#shared, waits: true }
    if (seq >= this.#sharedFrom) return this.#shared
    const subscriptions = [...this.#byId.values()]
    const { filter, withValues } = this.#shared
    const takes = (event: ProtocolEvent) => subscriptions.some((one) => event.seq > one.from && one.filter.takes(event))
    // Unsorted: the filters may be equal while the positions differ.
    const key = subscriptions.map((one) => `${one.filter.key} ${one.from}`).join()
    return { filter, withValues, takes, key }
  }
}

/** n of the first frame a client at this position has not seen; null: not known yet. */
function firstUnseen(log: RunLog, n: number, position: Position): number | null {
  const epoch = position?.epoch ?? null
  const isNewest = epoch === null || epoch === log.epoch
  // Terminal events have numbers after the last frame, and are sent when all is stored.
  if (n === FRAMES_MAX - 1 && isNewest) return n + 1
  // A number names no attempt: what it may have been of must not hide what is there.
  if (epoch === null && log.hasLostAttempt) return 0
  if (epoch === null && log.resumedAt !== null && n >= log.resumedAt) return log.resumedAt
  if (log.isClosed && isNewest) return n + 1
  // Elsewhere a client may have had more of an attempt than will ever be stored of it.
  return log.place(epoch === null ? { epoch, n } : position)
}

/** The same at every position. */
export function steady(filter: EventFilter): Selection {
  const { takes, key, withValues } = filter
  return { filter: logFilter(filter), withValues, takes, key }
}
