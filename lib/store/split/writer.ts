// Writes of a store that keeps run events outside its database: the groups of a commit are planned, their events are appended to the event
// store, then the groups are committed to the database. Events that are to be removed are noted there until they are.
import { messageOf } from '../../base/errors.ts'
import { refusal, Refused } from '../ports/ops.ts'
import {
  type EventRecord,
  type EventStore,
  type Group,
  type Op,
  type Outcome,
  type Store,
  StoreUnavailable,
  type Warn
} from '../store.ts'
import { SeqAllocator } from './seq-allocator.ts'

// ----------------------------------------------------------------------------------------------------
// Removal of threads: rows go first, with the commit, then events. A tombstone in between lets a start finish what a crash interrupted.

export class Removals {
  readonly #database: Store
  readonly #events: EventStore
  readonly #warn: Warn
  /** The tombstones last written; null: none yet. */
  readonly #threads = new Map<string, string | null>()

  constructor(database: Store, events: EventStore, warn: Warn) {
    this.#database = database
    this.#events = events
    this.#warn = warn
  }

  /** Called before the commit of groups that may remove threads. */
  async expect(groups: readonly Group[]): Promise<void> {
    const before = this.#threads.size
    for (const { ops } of groups) for (const op of ops) if (op.name === 'thread.remove') this.#add(op.thread_id)
    if (this.#threads.size > before) await this.#events.setTombstones?.([...this.#threads.keys()])
  }

  /** Finishes removals of the previous process. */
  async resume(): Promise<void> {
    for (const threadId of (await this.#events.tombstones?.()) ?? []) this.#add(threadId)
    await this.finish()
  }

  /**
   * Called after the commit: nobody can read these threads' events any more. Whether a thread was really removed is
   * checked, because the answer may have got lost. One that fails is retried later, without affecting others.
   */
  async finish(): Promise<void> {
    if (this.#threads.size === 0) return
    const before = this.#threads.size
    for (const threadId of this.#threads.keys()) await this.#finishOne(threadId)
    if (this.#threads.size === before) return
    await this.#events.setTombstones?.([...this.#threads.keys()]).catch((error: unknown) => {
      this.#warn({ err: error }, 'the list of removed threads could not be written: the next start looks at them again')
    })
  }

  async #finishOne(threadId: string): Promise<void> {
    try {
      // An existing thread was not removed, or was recreated: leftovers of the old one are beyond its counter.
      if ((await this.#database.events.nextSeq(threadId)) === null) await this.#events.remove(threadId)
      this.#threads.delete(threadId)
    } catch (error) {
      const why = messageOf(error)
      if (this.#threads.get(threadId) === why) return
      this.#threads.set(threadId, why)
      this.#warn({ err: error, thread_id: threadId }, 'the events of a removed thread are still there')
    }
  }

  #add(threadId: string): void {
    if (!this.#threads.has(threadId)) this.#threads.set(threadId, null)
  }
}

/** Retry delay for work that must follow a commit, in ms. */
const RETRY_MS = 250

/** A group for the database, the records beside it, and results already known, by op. */
interface Plan {
  readonly ops: Op[]
  readonly records: EventRecord[]
  readonly known: ReadonlyMap<number, unknown>
}

export class SplitWriter {
  readonly #database: Store
  readonly #events: EventStore
  readonly #seqs: SeqAllocator
  readonly #removals: Removals
  /** The previous call: rounds are planned one after the other. */
  #before: Promise<unknown> = Promise.resolve()
  #isStopped = false

  constructor(database: Store, events: EventStore, removals: Removals) {
    this.#database = database
    this.#events = events
    this.#removals = removals
    this.#seqs = new SeqAllocator(database, events)
  }

  apply(groups: readonly Group[]): Promise<Outcome[]> {
    const now = this.#before.then(() => this.#apply(groups))
    this.#before = now.catch(() => {})
    return now
  }

  /** Resolves when nothing is in progress; stops retrying. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#before
  }

  /** Nearly always one round. Rejects when nothing was written [Store 3]. */
  async #apply(groups: readonly Group[]): Promise<Outcome[]> {
    await this.#removals.finish()
    const outcomes: Outcome[] = []
    for (const round of roundsOf(groups))
      outcomes.push(...(await (outcomes.length === 0 ? this.#round(round) : this.#followUp(round))))
    return outcomes
  }

  /** A round after a committed one cannot be handed back: it is retried until the stores take or refuse it. */
  async #followUp(groups: readonly Group[]): Promise<Outcome[]> {
    try {
      return await this.#untilDone(() => this.#round(groups))
    } catch (error) {
      if (groups.length === 1) return [refusal(error)]
      // One group is at fault, and is found by trying them alone.
      const outcomes: Outcome[] = []
      for (const group of groups) outcomes.push(...(await this.#followUp([group])))
      return outcomes
    }
  }

  /** Writes groups of which no two touch the events of one thread. Rejects when nothing was written. */
  async #round(groups: readonly Group[]): Promise<Outcome[]> {
    await this.#seqs.learn(groups)
    const plans = groups.map((group) => this.#planned(group))
    const taken = plans.flatMap((plan, at) => ('ops' in plan ? [{ ...groups[at]!, ops: plan.ops }] : []))
    const answers =
      taken.length > 0
        ? await this.#write(
            taken,
            plans.flatMap((plan) => ('ops' in plan ? plan.records : []))
          )
        : []
    const outcomes = plans.map((plan) => ('ops' in plan ? outcomeOf(plan, answers.shift()!) : plan))
    await this.#afterwards(groups, outcomes)
    return outcomes
  }

  async #write(groups: readonly Group[], records: readonly EventRecord[]): Promise<Outcome[]> {
    try {
      await this.#removals.expect(groups)
      if (records.length > 0) await this.#events.append(records)
      return await this.#database.apply(groups)
    } catch (error) {
      // Some of it may be written: the next round reads the database's counters.
      this.#seqs.forget(groups.flatMap(threadsOf), true)
      throw error
    }
  }

  async #afterwards(groups: readonly Group[], outcomes: readonly Outcome[]): Promise<void> {
    const refused = groups.filter((_, at) => !outcomes[at]!.ok)
    if (refused.length > 0) await this.#seqs.settle(new Set(refused.flatMap(threadsOf)))
    // Ops that move a counter other than by appending.
    const moved = groups.flatMap(({ ops }) => ops.filter(({ name }) => name !== 'events.append'))
    this.#seqs.forget(threadsOf({ ops: moved }), false)
    this.#seqs.shrink()
    await this.#removals.finish()
  }

  #planned({ ops: given }: Group): Plan | (Outcome & { ok: false }) {
    const records: EventRecord[] = []
    const known = new Map<number, unknown>()
    const removed = new Set<string>()
    try {
      const ops = given.map((op, at): Op => {
        if (op.name === 'thread.remove') removed.add(op.thread_id)
        if (op.name === 'thread.create') this.#seqs.created(op.thread.thread_id)
        if (op.name !== 'events.append') return op
        if (removed.has(op.thread_id)) throw new Refused(`events of thread ${op.thread_id} behind its removal`)
        const allocation = this.#seqs.allocate(op)
        records.push(...allocation.records)
        known.set(at, allocation.first)
        return allocation.move
      })
      return { ops, records, known }
    } catch (error) {
      if (error instanceof Refused) return refusal(error)
      throw error
    }
  }

  /** The commit has happened, so what belongs to it is retried until it succeeds. */
  async #untilDone<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (this.#isStopped || !(error instanceof StoreUnavailable)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
  }
}

/** Splits groups, in order, into as few rounds as possible: seqs are assigned before the commit, so each thread has one group per round. */
function roundsOf(groups: readonly Group[]): Group[][] {
  const rounds: Group[][] = []
  let threads = new Set<string>()
  for (const group of groups) {
    const mine = threadsOf(group)
    if (rounds.length === 0 || mine.some((thread) => threads.has(thread))) {
      rounds.push([])
      threads = new Set()
    }
    rounds.at(-1)!.push(group)
    for (const thread of mine) threads.add(thread)
  }
  return rounds
}

/** Threads whose events or counter the group changes or relies on. */
function threadsOf({ ops }: Pick<Group, 'ops'>): string[] {
  return ops.flatMap((op) => {
    if (op.name === 'thread.create') return [op.thread.thread_id]
    return op.name === 'events.append' || op.name === 'thread.remove' || op.name === 'seq.move' ? [op.thread_id] : []
  })
}

function outcomeOf({ known }: Plan, answer: Outcome): Outcome {
  if (!answer.ok) return answer
  return { ok: true, results: answer.results.map((result, at) => known.get(at) ?? result) }
}
