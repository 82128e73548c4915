// The next seq of each thread and the last k of each of its runs, as the two stores tell. Known from one round to the next, and asked
// for again whenever a commit went another way than it was planned.
import { markedMetadata } from '../event.ts'
import { Refused } from '../refused.ts'
import {
  type EventQuery,
  type EventRecord,
  type EventStore,
  type Group,
  type OpOf,
  type Store,
  StoreUnavailable
} from '../store.ts'

/** Threads whose place is kept; the one that was not used for longest is asked for again when it writes. */
const THREADS_MAX = 10_000
const RUNS_MAX = 1_000

interface Place {
  /** Of the thread, in the database; null: there is no such thread. */
  counter: number | null
  /** The next seq: the counter, or what follows the records that lie beyond it. */
  next: number
  /** The last k of each run that was asked for; -1: it has none. */
  readonly lastK: Map<string, number>
}

interface Allocation {
  /** The seq of the first event, new or not. */
  readonly first: number
  readonly records: readonly EventRecord[]
  readonly move: OpOf<'seq.move'>
}

export class SeqAllocator {
  readonly #database: Store
  readonly #events: EventStore
  /** In the order of their last use. */
  readonly #threads = new Map<string, Place>()
  /** seq by k, by run: what this round writes, and what is stored of runs that bring some of it again. */
  readonly #seqs = new Map<string, Map<number, number>>()
  /** Threads to which this process has appended what may not be committed. */
  readonly #unsettled = new Set<string>()

  constructor(database: Store, events: EventStore) {
    this.#database = database
    this.#events = events
  }

  /** Finds out where all threads and runs of a round stand, so that it can be planned without asking. */
  async learn(groups: readonly Group[]): Promise<void> {
    this.#seqs.clear()
    const appends = groups.flatMap(({ ops }) => ops.filter((op) => op.name === 'events.append'))
    await this.#learnThreads(new Set(appends.map(({ thread_id }) => thread_id)))
    await Promise.all(appends.map((append) => this.#learnRun(append)))
  }

  /**
   * Makes records of those events that are new: the same record handed over again, after a crash or a rejected batch, is stored
   * already and stays as it is. @throws Refused when the thread is gone.
   */
  allocate({ thread_id, run_id, user_id, events }: OpOf<'events.append'>): Allocation {
    const place = this.#threads.get(thread_id)
    if (!place || place.counter === null) throw new Refused(`thread ${thread_id} is gone`)
    const { counter: from } = place
    const seqs = this.#seqsOf(run_id)
    const records: EventRecord[] = []
    const first = place.next
    for (const event of events) {
      const { k, event_type, category, content, created_at } = event
      if (seqs.has(k)) continue
      const seq = place.next++
      seqs.set(k, seq)
      place.lastK.set(run_id, Math.max(place.lastK.get(run_id) ?? -1, k))
      const metadata = markedMetadata(event)
      records.push({ thread_id, run_id, user_id, event_type, category, content, metadata, seq, k, created_at })
    }
    place.counter = place.next
    // Also when nothing is new: it is what finds out whether the thread is still there [Store 8].
    const move = { name: 'seq.move', thread_id, from, to: place.next } as const
    return { first: (events[0] && seqs.get(events[0].k)) ?? first, records, move }
  }

  /** The group that is being planned creates the thread, unless it is there. */
  created(threadId: string): void {
    const place = this.#threads.get(threadId)
    if (place) place.counter ??= 1
  }

  /** What is known of these threads may be wrong. `isUnsettled`: what was appended to them may not be committed. */
  forget(threads: Iterable<string>, isUnsettled: boolean): void {
    for (const threadId of threads) {
      this.#threads.delete(threadId)
      if (isUnsettled) this.#unsettled.add(threadId)
    }
  }

  /** Takes away at once what was appended to these threads and refused by the database. */
  async settle(threads: ReadonlySet<string>): Promise<void> {
    this.forget(threads, true)
    // Should it fail, it is done before the next append.
    await this.#learnThreads(threads).catch(() => {})
  }

  /** Between rounds: places that were not used for longest are forgotten, and those of too many runs. */
  shrink(): void {
    for (const [threadId, { lastK, counter }] of this.#threads) {
      const isFew = this.#threads.size <= THREADS_MAX
      if (!isFew || lastK.size > RUNS_MAX || counter === null) this.#threads.delete(threadId)
    }
  }

  async #learnThreads(threads: ReadonlySet<string>): Promise<void> {
    await Promise.all([...threads].map((threadId) => this.#learnThread(threadId)))
  }

  async #learnThread(threadId: string): Promise<void> {
    const known = this.#threads.get(threadId)
    // Used now, so it goes to the end of the queue.
    this.#threads.delete(threadId)
    const place = known ?? (await this.#seqOf(threadId))
    this.#threads.set(threadId, place)
  }

  async #seqOf(threadId: string): Promise<Place> {
    const counter = await this.#database.events.nextSeq(threadId).catch((error: unknown) => {
      // It says nothing about a group, only about the moment.
      if (error instanceof StoreUnavailable) throw error
      throw new StoreUnavailable('READ', error instanceof Error ? error.message : String(error))
    })
    // Also of a thread that is not there: what is left of an earlier one must not show up under a new one of the same id.
    return { counter, next: await this.#nextOf(threadId, counter ?? 1), lastK: new Map() }
  }

  /**
   * Records at or above the counter are no part of the thread. Those that this process has appended and not committed go; any other
   * may have been seen by somebody, when an older database was put in the place of a newer one: they are set aside, and their seqs
   * are not given again.
   */
  async #nextOf(threadId: string, counter: number): Promise<number> {
    const isOurs = this.#unsettled.has(threadId)
    const beyond = { threadId, owner: null, after: counter - 1, before: Number.MAX_SAFE_INTEGER }
    const [last] = await this.#events.select(beyond, 1, 'last')
    if (last) await this.#events.truncate(threadId, counter, !isOurs)
    this.#unsettled.delete(threadId)
    return last && !isOurs ? last.seq + 1 : counter
  }

  async #learnRun({ thread_id, run_id, events }: OpOf<'events.append'>): Promise<void> {
    const { counter, lastK } = this.#threads.get(thread_id)!
    if (counter === null) return
    const query: EventQuery = { threadId: thread_id, runId: run_id, owner: null, after: 0, before: counter }
    const last = lastK.get(run_id) ?? (await this.#events.select(query, 1, 'last'))[0]?.k ?? -1
    lastK.set(run_id, last)
    if (!events.some(({ k }) => k <= last)) return
    const seqs = this.#seqsOf(run_id)
    for (const { k, seq } of await this.#events.select(query, Number.MAX_SAFE_INTEGER, 'first')) seqs.set(k, seq)
  }

  #seqsOf(runId: string): Map<number, number> {
    const found = this.#seqs.get(runId)
    if (found) return found
    const seqs = new Map<number, number>()
    this.#seqs.set(runId, seqs)
    return seqs
  }
}
