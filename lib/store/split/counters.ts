// Where the threads of a split store stand: the next seq of each, and the last k of each of their runs, as the two stores tell.
// Known between batches, foretold within one, forgotten whenever a commit went another way than foretold.
import { type EventQuery, type EventStore, type Group, type OpOf, type Store, StoreUnavailable } from '../store.ts'

/** Threads whose place is kept; the one that was not used for longest is asked for again when it writes. */
const THREADS_MAX = 10_000
const RUNS_MAX = 1_000

/** The last k of a run that was not asked for yet. */
const UNKNOWN = -2

interface RunPlace {
  /** The last k that is stored or foretold; -1: none. */
  last: number
  /** seq by k: of what this batch writes, and of what is stored when the batch brings some of it again. */
  readonly seqs: Map<number, number>
}

interface ThreadPlace {
  /** null: there is no such thread. */
  next: number | null
  readonly runs: Map<string, RunPlace>
}

export class Counters {
  readonly #database: Store
  readonly #events: EventStore
  /** In the order of their last use. */
  readonly #threads = new Map<string, ThreadPlace>()
  /** Runs of the batch before, whose seqs are no longer needed. */
  #used: RunPlace[] = []
  /** How to take back what the group under way has foretold. */
  #inverses: (() => void)[] = []

  constructor(database: Store, events: EventStore) {
    this.#database = database
    this.#events = events
  }

  /** Finds out where all threads and runs of a batch stand, so that it can be planned without asking. */
  async learn(groups: readonly Group[]): Promise<void> {
    for (const { seqs } of this.#used) seqs.clear()
    this.#used = []
    const appends = groups.flatMap(({ ops }) => ops.filter((op) => op.name === 'events.append'))
    const threads = new Set(appends.map(({ thread_id }) => thread_id))
    await Promise.all([...threads].map((threadId) => this.#learnThread(threadId)))
    await Promise.all(appends.map((append) => this.#learnRun(append)))
    this.#shrink(threads)
  }

  /** Asks again about threads whose records were not committed, so that these are cut at once. */
  async cut(threads: Iterable<string>): Promise<void> {
    this.forget(threads)
    await Promise.all([...threads].map((threadId) => this.#learnThread(threadId)))
  }

  /** null: there is no such thread. */
  next(threadId: string): number | null {
    return this.#threads.get(threadId)?.next ?? null
  }

  /** The seq of a record of this run that is there already. */
  seqOf(threadId: string, runId: string, k: number): number | undefined {
    return this.#run(threadId, runId).seqs.get(k)
  }

  /** Gives the thread's next seq to the record `k` of a run. */
  give(threadId: string, runId: string, k: number): number {
    const thread = this.#threads.get(threadId)!
    const run = this.#run(threadId, runId)
    const [seq, last] = [thread.next!, run.last]
    thread.next = seq + 1
    run.last = Math.max(last, k)
    run.seqs.set(k, seq)
    this.#inverses.push(() => {
      thread.next = seq
      run.last = last
      run.seqs.delete(k)
    })
    return seq
  }

  /** The group creates the thread, unless it is there. */
  created(threadId: string): void {
    const thread = this.#threads.get(threadId)
    if (!thread || thread.next !== null) return
    thread.next = 1
    this.#inverses.push(() => {
      thread.next = null
    })
  }

  /** A group is planned: until the next one is, what is foretold for it can be taken back. */
  begin(): void {
    this.#inverses = []
  }
  takeBack(): void {
    for (const inverse of this.#inverses.reverse()) inverse()
    this.#inverses = []
  }

  forget(threads: Iterable<string>): void {
    for (const threadId of threads) this.#threads.delete(threadId)
  }

  async #learnThread(threadId: string): Promise<void> {
    const known = this.#threads.get(threadId)
    if (known && known.next !== null) {
      // Used now, so it goes to the end of the queue.
      this.#threads.delete(threadId)
      this.#threads.set(threadId, known)
      return
    }
    const next = await this.#database.events.nextSeq(threadId).catch((error: unknown) => {
      // It says nothing about a group, only about the moment.
      throw new StoreUnavailable('READ', error instanceof Error ? error.message : String(error))
    })
    // Also of a thread that is not there: what is left of an earlier one must not show up under a new one of the same id.
    await this.#events.cut(threadId, next ?? 1)
    this.#threads.set(threadId, { next, runs: new Map() })
  }

  async #learnRun({ thread_id, run_id, events }: OpOf<'events.append'>): Promise<void> {
    const next = this.next(thread_id)
    const run = this.#run(thread_id, run_id)
    this.#used.push(run)
    const query: EventQuery = { threadId: thread_id, runId: run_id, owner: null, after: 0, before: next ?? 1 }
    const isNew = run.last === UNKNOWN
    if (isNew) run.last = next === null ? -1 : await this.#lastOf(query)
    const isRepeated = events.some(({ k }) => k <= run.last && !run.seqs.has(k))
    if (!isRepeated) return
    const stored = await this.#events.select(query, Number.MAX_SAFE_INTEGER, 'first')
    for (const { k, seq } of stored) run.seqs.set(k, seq)
  }

  async #lastOf(query: EventQuery): Promise<number> {
    const [record] = await this.#events.select(query, 1, 'last')
    return record?.k ?? -1
  }

  #run(threadId: string, runId: string): RunPlace {
    const { runs } = this.#threads.get(threadId)!
    const found = runs.get(runId)
    if (found) return found
    const run: RunPlace = { last: UNKNOWN, seqs: new Map() }
    runs.set(runId, run)
    return run
  }

  #shrink(inUse: ReadonlySet<string>): void {
    for (const threadId of this.#threads.keys()) {
      if (this.#threads.size <= THREADS_MAX || inUse.has(threadId)) break
      this.#threads.delete(threadId)
    }
    for (const threadId of inUse) {
      const thread = this.#threads.get(threadId)
      if (thread && thread.runs.size > RUNS_MAX) this.forget([threadId])
    }
  }
}
