// Assigns seqs: knows the next seq of each thread and the last k of each of its runs, as the two stores have them.
// Remembered between rounds, and read again whenever a commit did not go as planned.
import { messageOf } from '../../base/errors.ts'
import { markedMetadata } from '../event-query.ts'
import { Refused } from '../ports/ops.ts'
import {
  type EventQuery,
  type EventRecord,
  type EventStore,
  type Group,
  type OpOf,
  type Store,
  StoreUnavailable
} from '../store.ts'

/** Threads remembered; the least recently used is read again when it writes. */
const THREADS_MAX = 10_000
const RUNS_MAX = 1_000

interface Place {
  /** The thread's counter in the database; null: no such thread. */
  counter: number | null
  /** Next seq: the counter, or what follows records beyond it. */
  next: number
  /** Last k of each run asked for; -1: none. */
  readonly lastK: Map<string, number>
}

interface Allocation {
  /** seq of the first event, new or not. */
  readonly first: number
  readonly records: readonly EventRecord[]
  readonly move: OpOf<'seq.move'>
}

export class SeqAllocator {
  readonly #database: Store
  readonly #events: EventStore
  /** Least recently used first. */
  readonly #threads = new Map<string, Place>()
  /** By run: seq by k, of what this round writes and of stored records it repeats. */
  readonly #seqs = new Map<string, Map<number, number>>()
  /** Threads with appended records that may not be committed. */
  readonly #unsettled = new Set<string>()

  constructor(database: Store, events: EventStore) {
    this.#database = database
    this.#events = events
  }

  /** Reads the state of all threads and runs of a round, so that planning needs no further reads. */
  async learn(groups: readonly Group[]): Promise<void> {
    this.#seqs.clear()
    const appends = groups.flatMap(({ ops }) => ops.filter((op) => op.name === 'events.append'))
    await this.#learnThreads(new Set(appends.map(({ thread_id }) => thread_id)))
    await Promise.all(appends.map((append) => this.#learnRun(append)))
  }

  /**
   * Turns new events into records: one handed over again, after a crash or a rejected batch, is stored already and stays.
   * @throws Refused when the thread is gone
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
    // Also when nothing is new: this checks that the thread still exists [Store 8].
    const move = { name: 'seq.move', thread_id, from, to: place.next } as const
    return { first: (events[0] && seqs.get(events[0].k)) ?? first, records, move }
  }

  /** The group being planned creates the thread, unless it exists. */
  created(threadId: string): void {
    const place = this.#threads.get(threadId)
    if (place) place.counter ??= 1
  }

  /** Forgets what is known of these threads. `isUnsettled`: records appended to them may not be committed. */
  forget(threads: Iterable<string>, isUnsettled: boolean): void {
    for (const threadId of threads) {
      this.#threads.delete(threadId)
      if (isUnsettled) this.#unsettled.add(threadId)
    }
  }

  /** Removes records appended to these threads whose groups the database refused. */
  async settle(threads: ReadonlySet<string>): Promise<void> {
    this.forget(threads, true)
    // If this fails, it is done before the next append.
    await this.#learnThreads(threads).catch(() => {})
  }

  /** Called between rounds: evicts the least recently used threads, and those with too many runs. */
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
    // Most recently used: moves to the end.
    this.#threads.delete(threadId)
    const place = known ?? (await this.#seqOf(threadId))
    this.#threads.set(threadId, place)
  }

  async #seqOf(threadId: string): Promise<Place> {
    const counter = await this.#database.events.nextSeq(threadId).catch((error: unknown) => {
      // Not about a group, but a temporary failure.
      if (error instanceof StoreUnavailable) throw error
      throw new StoreUnavailable('READ', messageOf(error))
    })
    // Also for a thread that does not exist: leftovers must not show up under a new one of the same id.
    return { counter, next: await this.#nextOf(threadId, counter ?? 1), lastK: new Map() }
  }

  /**
   * Records at or above the counter do not belong to the thread. Uncommitted ones of this process are deleted; others may have been seen,
   * when an older database was restored beside newer records: they are set aside, and their seqs are not reused.
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
