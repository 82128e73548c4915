// Writes of a split store: a batch is planned, its records appended beside the database, then its groups committed there.
import { type EventStore, type Group, type OpOf, type Outcome, type Store, StoreUnavailable } from '../store.ts'
import { Counters } from './counters.ts'
import { isAny, type Planned, planned, type Waiting } from './plan.ts'
import type { Removals } from './removals.ts'

/** Between two tries of what must follow a commit that has happened, in ms. */
const RETRY_MS = 250

export class SplitWriter {
  readonly #database: Store
  readonly #events: EventStore
  readonly #counters: Counters
  readonly #removals: Removals
  /** The call before: batches are planned one after the other, on counters that are known. */
  #before: Promise<unknown> = Promise.resolve()
  #isStopped = false

  constructor(database: Store, events: EventStore, removals: Removals) {
    this.#database = database
    this.#events = events
    this.#removals = removals
    this.#counters = new Counters(database, events)
  }

  apply(groups: readonly Group[]): Promise<Outcome[]> {
    const now = this.#before.then(() => this.#apply(groups))
    this.#before = now.catch(() => {})
    return now
  }

  /** Resolves when nothing is under way any more; gives up what is being tried again. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#before
  }

  /** One round writes nearly always everything; what is left is written alone. Rejects when nothing was written [Store 3]. */
  async #apply(groups: readonly Group[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    const waiting = groups.map((group, at) => ({ group, at }))
    for (const left of await this.#round(waiting, outcomes)) await this.#alone(left, outcomes)
    return outcomes
  }

  /** A group behind others that are committed already: it is tried until the stores take or refuse it. */
  async #alone(waiting: Waiting, outcomes: Outcome[]): Promise<void> {
    try {
      await this.#untilDone(() => this.#round([waiting], outcomes))
    } catch (error) {
      outcomes[waiting.at] = { ok: false, message: messageOf(error) }
    }
  }

  /** Writes what can be written together, and answers the rest. Rejects when nothing was written. */
  async #round(waiting: readonly Waiting[], outcomes: Outcome[]): Promise<Waiting[]> {
    await this.#counters.learn(waiting.map(({ group }) => group))
    const { plans, left } = planned(waiting, this.#counters, outcomes)
    let answers: Outcome[]
    try {
      await this.#removals.announce(plans.flatMap(({ ops }) => ops))
      const records = plans.flatMap((one) => one.records)
      if (records.length > 0) await this.#events.append(records)
      answers = await this.#database.apply(plans.map(({ ops, group }) => ({ ...group, ops })))
    } catch (error) {
      // Perhaps some of it was written, perhaps all: the counters of the database tell the next round.
      for (const { threads } of plans) this.#counters.forget(threads)
      throw error
    }
    const again = await this.#settle(plans, answers, outcomes)
    return [...again, ...left]
  }

  /** Answers the groups that may be tried again: those whose only fault is a refused one before them. */
  async #settle(plans: readonly Planned[], answers: readonly Outcome[], outcomes: Outcome[]): Promise<Waiting[]> {
    const again: Waiting[] = []
    const broken = new Set<string>()
    for (const [index, one] of plans.entries()) {
      const answer = answers[index]!
      if (answer.ok) {
        outcomes[one.at] = await this.#finish(one, answer.results)
        continue
      }
      if (isAny(one.threads, broken)) again.push(one)
      else outcomes[one.at] = answer
      for (const thread of one.threads) broken.add(thread)
    }
    // Should that fail, it is done before the next append.
    if (broken.size > 0) await this.#counters.cut(broken).catch(() => {})
    this.#counters.forget(await this.#removals.finish())
    return again
  }

  /** What follows the commit of a group. */
  async #finish(one: Planned, results: readonly unknown[]): Promise<Outcome> {
    try {
      return { ok: true, results: await this.#results(one, results) }
    } catch (error) {
      return { ok: false, message: messageOf(error) }
    }
  }

  async #results({ slots, group }: Planned, results: readonly unknown[]): Promise<unknown[]> {
    const answers: unknown[] = []
    for (const slot of slots) {
      if (slot.kind === 'value') answers.push(slot.value)
      else if (slot.kind === 'remove') answers.push(await this.#removeEvents(slot.op))
      else answers.push(results[slot.at])
    }
    for (const op of group.ops) if (op.name === 'seq.move') this.#counters.forget([op.thread_id])
    return answers
  }

  async #removeEvents({ thread_id, run_id, user }: OpOf<'events.remove'>): Promise<number> {
    const nextSeq = await this.#database.events.nextSeq(thread_id)
    if (nextSeq === null) return 0
    // Resolved by the plan.
    const count = await this.#untilDone(() => this.#events.remove(thread_id, run_id, user ?? null))
    this.#counters.forget([thread_id])
    if (run_id === null) await this.#untilDone(() => this.#startAgain(thread_id, nextSeq))
    return count
  }

  /** The counter of a thread starts again when nothing is left whose seq it could give a second time [Store 5]. */
  async #startAgain(threadId: string, from: number): Promise<void> {
    const left = await this.#events.count({ threadId, owner: null, after: 0, before: from })
    if (left > 0 || from === 1) return
    await this.#database.apply([{ ops: [{ name: 'seq.move', thread_id: threadId, from, to: 1 }] }])
  }

  /** Something is committed, so what belongs to it must be done as well, whatever stands in its way for the moment. */
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
