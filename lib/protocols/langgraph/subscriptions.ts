// What one client has subscribed to in a thread. Its cursor is one, however many subscriptions it has: a new one takes it back to the
// beginning, and until it has come to where it was, each event goes out for those alone that were not told it yet.
import type { RunLog } from '../../run/log/run-log.ts'
import { frameAt, type ProtocolEvent, seqOf } from './event.ts'
import type { Selection } from './feed.ts'
import { type EventFilter, eventFilter, type SubscriptionParams } from './subscription.ts'

interface Subscription {
  readonly params: SubscriptionParams
  readonly filter: EventFilter
  /** Events up to and with this one are not, or no more, to be told. */
  readonly from: number
  /** Its client says so: what it was told may be what a crash has taken back. */
  readonly isClaimed: boolean
}

/** Where a client stands: the number of the last event it was told, and of which attempt that was, if it says so. */
export interface Since {
  readonly seq: number
  readonly epoch: number | null
}

/** Before every event. */
const NOTHING_TOLD = -1

export class Subscriptions {
  readonly #byId = new Map<string, Subscription>()
  #since: Since | null = null
  #all: Selection = steady(eventFilter([]))

  get size(): number {
    return this.#byId.size
  }

  /** @param toldUpTo the number up to which those before it were told everything */
  add(id: string, params: SubscriptionParams, toldUpTo: number, since: Since | null = null): void {
    for (const [known, one] of this.#byId)
      this.#byId.set(known, { ...one, from: Math.max(one.from, toldUpTo), isClaimed: false })
    const from = since?.seq ?? NOTHING_TOLD
    this.#byId.set(id, { params, filter: eventFilter([params]), from, isClaimed: since !== null })
    this.#since = since
    this.#changed()
  }

  /**
   * The log of a run is here. Who claims to have been told something of it may have been told what was lost: from the attempt on that
   * went on behind it, it is told all.
   */
  meet({ ordinal }: { readonly ordinal: number }, log: RunLog): void {
    for (const [id, one] of this.#byId) {
      const { n, ordinal: claimed } = frameAt(Math.max(0, one.from))
      if (!one.isClaimed || claimed !== ordinal) continue
      const isLost = log.attempts > 1 && n >= log.attemptFirst && this.#since?.epoch !== log.epoch
      const from = isLost ? seqOf(ordinal, log.attemptFirst, 0) - 1 : one.from
      this.#byId.set(id, { ...one, from, isClaimed: false })
    }
  }

  /** False: there is none of that name. */
  remove(id: string): boolean {
    const isKnown = this.#byId.delete(id)
    if (isKnown) this.#changed()
    return isKnown
  }

  #changed(): void {
    this.#all = steady(eventFilter([...this.#byId.values()].map(({ params }) => params)))
  }

  /** What is wanted behind the event with this number. */
  wanted(seq: number): Selection {
    const subscriptions = [...this.#byId.values()]
    if (subscriptions.every(({ from }) => from <= seq)) return this.#all
    const { filter } = this.#all
    const takes = (event: ProtocolEvent) => subscriptions.some((one) => event.seq > one.from && one.filter.takes(event))
    const key = `${filter.key} ${subscriptions.map(({ from }) => from).join()}`
    return { filter, takes, key }
  }
}

function steady(filter: EventFilter): Selection {
  return { filter, takes: (event) => filter.takes(event), key: filter.key }
}
