// A store whose run events lie elsewhere: a database for everything else, and an EventStore (files, memory, somebody's module).
//
// Two places cannot commit together, so one has the last word: the counter of the thread (`threads_meta.next_seq`) in the
// database. A record is there when its seq is below the counter, wherever it lies; there is no other mark of a commit.
//
//   1. plan      give each new record the next seq of its thread; replace `events.append` by `seq.move` from the old counter to
//                the new one
//   2. append    the records go to the event store: written, and below nobody's bound
//   3. commit    the groups go to the database, with the move of the counter in the transaction of everything else of its group
//   4. answer    queries read the counter first, so they see the records from the moment of the commit on, and not before
//
// Hence [Store 2] holds over both places: a group's events are there when its rows are. What may go wrong on the way:
//
//   - The process dies between 2 and 3: records at or above the counter. Nobody ever saw them; `cut` removes them before the next
//     append of the thread, and their seqs are given to what comes instead. So seq stays dense, and no seq that was seen is given
//     twice [Store 5].
//   - The database refuses a group: its records are cut the same way. Groups behind it in the batch had planned with its seqs:
//     the counter does not stand where their `seq.move` expects it, they are refused as well, and go into another round.
//   - The database rejects, and whether it had committed before the line broke is not known: nothing is cut. The next call reads
//     the counter, which tells, and a record whose (run_id, k) is there already is not written again.
//   - A thread is removed: its row first, its records after the commit. It is announced before, so that a start can finish what a
//     crash has interrupted. And should the same id be made anew first, its counter starts at 1 and everything is cut.
import { ownerOf } from '../scope.ts'
import type { RunEvent } from '../types.ts'
import { Counters } from './counters.ts'
import { markedMetadata } from './event.ts'
import {
  type EventQuery,
  type EventReads,
  type EventRecord,
  type EventStore,
  type Group,
  type Op,
  type OpOf,
  type Outcome,
  type SeqPage,
  type Store,
  StoreUnavailable
} from './store.ts'

/** Between two tries of what must follow a commit that has happened, in ms. */
const RETRY_MS = 250

/** One op of a group, as its result will be found. */
type Slot =
  /** A result that is known already. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** The result of the database's op at `at`. */
  | { readonly kind: 'database'; readonly at: number; readonly op: Op }
  | { readonly kind: 'remove'; readonly op: OpOf<'events.remove'> }

/** A group on its way: what the database is given of it, what the event store is, and which threads' events it is about. */
interface Planned {
  readonly at: number
  readonly group: Group
  readonly ops: Op[]
  readonly records: EventRecord[]
  readonly slots: Slot[]
  readonly threads: ReadonlySet<string>
}

interface Waiting {
  readonly at: number
  readonly group: Group
}

/** A group that cannot be written as it is, whatever else is written. */
class Refused extends Error {}

type Warn = (fields: object, text: string) => void

/** `database` with the events of `events`; closing it closes both. */
export function splitStore(database: Store, events: EventStore, warn: Warn = () => {}): Store {
  const writer = new SplitWriter(database, events, warn)
  return {
    ...database,
    events: eventReads(database, events),
    apply: (groups) => writer.apply(groups),
    async close() {
      await writer.stop()
      await events.close()
      await database.close()
    }
  }
}

/** For a start: removes the records of threads whose removal was committed and not finished. */
export async function finishRemovals(database: Store, events: EventStore): Promise<void> {
  const announced = (await events.announced?.()) ?? []
  for (const threadId of announced)
    if ((await database.events.nextSeq(threadId)) === null) await events.remove(threadId, null, null)
  if (announced.length > 0) await events.announce?.([])
}

// --------------------------------------------------------------------------------------------------- reads

function eventReads(database: Store, events: EventStore): EventReads {
  const nextSeq = (threadId: string) => database.events.nextSeq(threadId)

  /** Everything of the thread that is committed at this moment and that the owner may see. */
  const committed = async (threadId: string, owner: string | null): Promise<EventQuery | null> => {
    const before = await nextSeq(threadId)
    return before === null || before <= 1 ? null : { threadId, owner, after: 0, before }
  }
  const messages = async (threadId: string, page: SeqPage, owner: string | null, scope: { runId?: string }) => {
    const all = await committed(threadId, owner)
    if (!all) return []
    const before = Math.min(all.before, page.before ?? all.before)
    const query: EventQuery = { ...all, ...scope, category: 'message', after: page.after ?? 0, before }
    const records = await events.select(query, page.limit, page.after === undefined ? 'last' : 'first')
    return records.map(withoutK)
  }

  return {
    nextSeq,
    async listMessages(threadId, page, user) {
      return messages(threadId, page, ownerOf(user, 'events.listMessages'), {})
    },
    async listMessagesByRun(threadId, runId, page, user) {
      return messages(threadId, page, ownerOf(user, 'events.listMessagesByRun'), { runId })
    },
    async listEvents(threadId, runId, { types, after, limit }, user) {
      const all = await committed(threadId, ownerOf(user, 'events.listEvents'))
      if (!all) return []
      const query: EventQuery = { ...all, runId, after: after ?? 0, ...(types && { types }) }
      return (await events.select(query, limit, 'first')).map(withoutK)
    },
    async countMessages(threadId, user) {
      const all = await committed(threadId, ownerOf(user, 'events.countMessages'))
      return all ? events.count({ ...all, category: 'message' }) : 0
    },
    async lastK(threadId, runId) {
      const all = await committed(threadId, null)
      const [record] = all ? await events.select({ ...all, runId }, 1, 'last') : []
      return record?.k ?? -1
    },
    async runsOfMessages(threadId, messageIds, user) {
      const all = await committed(threadId, ownerOf(user, 'events.runsOfMessages'))
      if (!all || messageIds.length === 0) return new Map()
      const query: EventQuery = { ...all, category: 'message', messageIds }
      const records = await events.select(query, Number.MAX_SAFE_INTEGER, 'last')
      // Ascending: a message that several runs recorded belongs to the newest of them.
      return new Map(records.map(({ content, run_id, event_type }) => [idIn(content), { run_id, event_type }]))
    }
  }
}

function withoutK({ k: _, ...event }: EventRecord): RunEvent {
  return event
}

function idIn(content: RunEvent['content']): string {
  // Selected by `messageIds`: it is an object with that member.
  return (content as { id: string }).id
}

// -------------------------------------------------------------------------------------------------- writes

class SplitWriter {
  readonly #database: Store
  readonly #events: EventStore
  readonly #counters: Counters
  readonly #warn: Warn
  /** The call before: batches are planned one after the other, on counters that are known. */
  #before: Promise<unknown> = Promise.resolve()
  /** Threads that a batch removes from the database, until they are removed from the event store. */
  readonly #removals = new Set<string>()
  #isStopped = false

  constructor(database: Store, events: EventStore, warn: Warn) {
    this.#database = database
    this.#events = events
    this.#warn = warn
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
    const { planned, left } = this.#plan(waiting, outcomes)
    let answers: Outcome[]
    try {
      await this.#announce(planned)
      const records = planned.flatMap((one) => one.records)
      if (records.length > 0) await this.#events.append(records)
      answers = await this.#database.apply(planned.map(({ ops }) => ({ ops })))
    } catch (error) {
      // Perhaps some of it was written, perhaps all: the counters of the database tell the next round.
      for (const { threads } of planned) this.#counters.forget(threads)
      throw error
    }
    const again = await this.#settle(planned, answers, outcomes)
    return [...again, ...left]
  }

  /** Gives seqs to the records of all groups, in their order. What must not be in one round with a group before it is left. */
  #plan(waiting: readonly Waiting[], outcomes: Outcome[]): { planned: Planned[]; left: Waiting[] } {
    const planned: Planned[] = []
    const left: Waiting[] = []
    /** Threads whose counters are not foreseeable behind a removal. */
    const closed = new Set<string>()
    for (const { group, at } of waiting) {
      const threads = threadsOf(group)
      if (isAny(threads, closed)) {
        left.push({ group, at })
        for (const thread of threads) closed.add(thread)
        continue
      }
      this.#counters.begin()
      try {
        planned.push({ at, group, threads, ...this.#planGroup(group) })
        this.#counters.keep()
      } catch (error) {
        this.#counters.takeBack()
        if (!(error instanceof Refused)) throw error
        outcomes[at] = { ok: false, message: error.message }
        continue
      }
      for (const thread of removalsIn(group)) closed.add(thread)
    }
    return { planned, left }
  }

  #planGroup({ ops: given }: Group): Pick<Planned, 'ops' | 'records' | 'slots'> {
    const ops: Op[] = []
    const records: EventRecord[] = []
    const removed = new Set<string>()
    const slots = given.map((op): Slot => {
      if (op.name === 'events.append') {
        if (removed.has(op.thread_id)) throw new Refused(`events of thread ${op.thread_id} behind their removal`)
        const { first, move } = this.#place(op, records)
        ops.push(move)
        return { kind: 'value', value: first }
      }
      if (op.name === 'events.remove') {
        if (op.user === undefined) throw new Refused('the user of this op was not resolved')
        removed.add(op.thread_id)
        return { kind: 'remove', op }
      }
      if (op.name === 'thread.remove') removed.add(op.thread_id)
      if (op.name === 'thread.create') this.#counters.created(op.thread.thread_id)
      ops.push(op)
      return { kind: 'database', at: ops.length - 1, op }
    })
    return { ops, records, slots }
  }

  /** Makes records of the events that are new; answers the seq of the first event, new or not, and the move of the counter. */
  #place(op: OpOf<'events.append'>, records: EventRecord[]): { first: number; move: OpOf<'seq.move'> } {
    const { thread_id, run_id, user_id, events } = op
    const from = this.#counters.next(thread_id)
    if (from === null) throw new Refused(`thread ${thread_id} is gone`)
    const seqs = events.map((event) => {
      const stored = this.#counters.seqOf(thread_id, run_id, event.k)
      // The same record handed over again, after a crash or a refused batch: what is stored stays.
      if (stored !== undefined) return stored
      const seq = this.#counters.give(thread_id, run_id, event.k)
      const { k, event_type, category, content, created_at } = event
      const metadata = markedMetadata(event)
      records.push({ thread_id, run_id, user_id, event_type, category, content, metadata, seq, k, created_at })
      return seq
    })
    // Also when nothing is new: it is what finds out whether the thread is still there [Store 8].
    const to = this.#counters.next(thread_id) ?? from
    return { first: seqs[0] ?? from, move: { name: 'seq.move', thread_id, from, to } }
  }

  /** Answers the groups that may be tried again: those whose only fault is a refused one before them. */
  async #settle(planned: readonly Planned[], answers: readonly Outcome[], outcomes: Outcome[]): Promise<Waiting[]> {
    const again: Waiting[] = []
    const broken = new Set<string>()
    for (const [index, one] of planned.entries()) {
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
    await this.#removeAnnounced()
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

  /** Before the commit that removes threads. Whether it does is looked up afterwards: its answer may get lost. */
  async #announce(planned: readonly Planned[]): Promise<void> {
    const before = this.#removals.size
    for (const { ops } of planned)
      for (const op of ops) if (op.name === 'thread.remove') this.#removals.add(op.thread_id)
    if (this.#removals.size > before) await this.#events.announce?.([...this.#removals])
  }

  /** After the commit that removed the threads: nobody can ask for their records any more, and they may go. */
  async #removeAnnounced(): Promise<void> {
    if (this.#removals.size === 0) return
    try {
      for (const threadId of this.#removals) {
        this.#counters.forget([threadId])
        // One that is there was not removed, or was made anew: then what is left of the old one is cut.
        if ((await this.#database.events.nextSeq(threadId)) === null) await this.#events.remove(threadId, null, null)
        this.#removals.delete(threadId)
      }
      await this.#events.announce?.([])
    } catch (error) {
      this.#warn({ err: error, threads: [...this.#removals] }, 'the events of removed threads are still there')
    }
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

function isAny(threads: ReadonlySet<string>, among: ReadonlySet<string>): boolean {
  for (const thread of threads) if (among.has(thread)) return true
  return false
}

/** Threads whose events, or whose counter, the group changes or relies on. */
function threadsOf({ ops }: Group): Set<string> {
  const threads = new Set<string>()
  for (const op of ops) {
    if (op.name === 'thread.create') threads.add(op.thread.thread_id)
    else if (isAboutEvents(op)) threads.add(op.thread_id)
  }
  return threads
}

type EventOp = OpOf<'events.append'> | OpOf<'events.remove'> | OpOf<'thread.remove'> | OpOf<'seq.move'>

function isAboutEvents(op: Op): op is EventOp {
  return (
    op.name === 'events.append' || op.name === 'events.remove' || op.name === 'thread.remove' || op.name === 'seq.move'
  )
}

function removalsIn({ ops }: Group): string[] {
  return ops.flatMap((op) => (isAboutEvents(op) && op.name !== 'events.append' ? [op.thread_id] : []))
}
