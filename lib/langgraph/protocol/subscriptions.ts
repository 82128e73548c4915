// A client's subscriptions in a thread. They share one cursor: a new one takes it back to the start, and until it
// catches up, each event only goes to subscriptions that have not had it.
import type { RunLog } from '../../run/log/run-log.ts'
import type { Position } from '../../run/log/sse.ts'
import { frameAt, type ProtocolEvent, seqOf } from './event.ts'
import type { Selection } from './feed.ts'
import { anyOf, type EventFilter, eventFilter, type Since, type SubscriptionParams } from './subscription.ts'

interface Subscription {
  readonly filter: EventFilter
  /** Events up to and including this one are not sent (again). */
  readonly from: number
  /** Claimed by the client: it may have seen what a crash has undone. */
  readonly isClaimed: boolean
}

/** Before every event. */
export const NOTHING_TOLD = -1

export class Subscriptions {
  readonly #byId = new Map<string, Subscription>()
  /** What the last one claims, as a position in its run's log. */
  #claim: Position = null
  /** The log of another process's run, which does not know the claimed attempt yet: it may not be stored, or be lost. */
  #doubt: { readonly ordinal: number; readonly log: RunLog } | null = null
  #all: Selection = steady(anyOf([]))
  /** From this number on they are all told what they want. */
  #togetherFrom = NOTHING_TOLD

  get size(): number {
    return this.#byId.size
  }

  /** @param toldUpTo the number up to which earlier subscriptions are complete */
  add(id: string, params: SubscriptionParams, toldUpTo: number, since: Since | null = null): void {
    // Those that begin together with it were told nothing yet.
    for (const [known, one] of toldUpTo > NOTHING_TOLD ? this.#byId : [])
      this.#byId.set(known, { ...one, from: Math.max(one.from, toldUpTo), isClaimed: false })
    const from = since?.seq ?? NOTHING_TOLD
    this.#byId.set(id, { filter: eventFilter(params), from, isClaimed: since !== null })
    this.#claim = since && { epoch: since.epoch, n: frameAt(since.seq).n }
    this.#changed()
  }

  /**
   * A run's log is available. A client that claims to have seen part of it may have seen what was lost: it gets
   * everything from the attempt after that.
   */
  meet({ ordinal }: { readonly ordinal: number }, log: RunLog): void {
    this.#doubt = null
    for (const [id, one] of this.#byId) {
      const { n, ordinal: claimed } = frameAt(Math.max(0, one.from))
      if (!one.isClaimed || claimed !== ordinal) continue
      const next = firstUnseen(log, n, this.#claim)
      if (next === null) this.#doubt = { ordinal, log }
      else this.#byId.set(id, { ...one, isClaimed: false, from: next > n ? one.from : seqOf(ordinal, next, 0) - 1 })
    }
    this.#met()
  }

  /** False: there is none of that name. */
  remove(id: string): boolean {
    const isKnown = this.#byId.delete(id)
    if (isKnown) this.#changed()
    return isKnown
  }

  #changed(): void {
    this.#all = steady(anyOf([...this.#byId.values()].map(({ filter }) => filter)))
    this.#met()
  }

  #met(): void {
    this.#togetherFrom = Math.max(NOTHING_TOLD, ...[...this.#byId.values()].map(({ from }) => from))
  }

  /** What is wanted behind the event with this number. */
  wanted(seq: number): Selection {
    if (this.#doubt !== null) this.meet(this.#doubt, this.#doubt.log)
    if (seq >= this.#togetherFrom) return this.#all
    const subscriptions = [...this.#byId.values()]
    const { filter } = this.#all
    const takes = (event: ProtocolEvent) => subscriptions.some((one) => event.seq > one.from && one.filter.takes(event))
    // In their order, for what each has seen makes the difference.
    const key = subscriptions.map((one) => `${one.filter.key} ${one.from}`).join()
    return { filter, takes, key }
  }
}

/** n of the first frame that a client which claims to have seen this one has not; null: the log does not know yet. */
function firstUnseen(log: RunLog, n: number, claim: Position): number | null {
  const epoch = claim?.epoch ?? null
  if (epoch === null && log.attempts > 1 && n >= log.attemptFirst) return log.attemptFirst
  // What follows the last frame has numbers behind it, and is told when all is stored.
  if (epoch === log.epoch || (epoch === null && log.isClosed)) return n + 1
  return log.place(epoch === null ? { epoch, n } : claim)
}

function steady(filter: EventFilter): Selection {
  return { filter, takes: filter.takes, key: filter.key }
}
