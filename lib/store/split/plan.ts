// The plan of a batch: what the database is given of each group, which records go beside it, and where the results will be found.
import { markedMetadata } from '../event.ts'
import { Refused } from '../refused.ts'
import type { EventRecord, Group, Op, OpOf, Outcome } from '../store.ts'
import type { Counters } from './counters.ts'

/** One op of a group, as its result will be found. */
export type Slot =
  /** A result that is known already. */
  | { readonly kind: 'value'; readonly value: unknown }
  /** The result of the database's op at `at`. */
  | { readonly kind: 'database'; readonly at: number }
  | { readonly kind: 'remove'; readonly op: OpOf<'events.remove'> }

/** A group of a batch and its place in it. */
export interface Waiting {
  readonly at: number
  readonly group: Group
}

/** A group on its way: what goes where, and which threads' events it is about. */
export interface Planned extends Waiting {
  readonly ops: Op[]
  readonly records: EventRecord[]
  readonly slots: Slot[]
  readonly threads: ReadonlySet<string>
}

/**
 * Gives seqs to the records of all groups, in their order, as `counters` foretell. Groups that are refused whatever happens get
 * their outcome; those that must not be in one transaction with a group before them are left.
 */
export function planned(
  waiting: readonly Waiting[],
  counters: Counters,
  outcomes: Outcome[]
): { plans: Planned[]; left: Waiting[] } {
  const plans: Planned[] = []
  const left: Waiting[] = []
  /** Threads whose counters cannot be foretold, because their events are removed. */
  const closed = new Set<string>()
  for (const one of waiting) {
    const threads = threadsOf(one.group)
    if (isAny(threads, closed)) {
      left.push(one)
      for (const thread of threads) closed.add(thread)
      continue
    }
    counters.begin()
    try {
      plans.push({ ...one, threads, ...planGroup(one.group, counters) })
    } catch (error) {
      counters.takeBack()
      if (!(error instanceof Refused)) throw error
      outcomes[one.at] = { ok: false, message: error.message }
      continue
    }
    for (const thread of removalsIn(one.group)) closed.add(thread)
  }
  return { plans, left }
}

function planGroup({ ops: given }: Group, counters: Counters): Pick<Planned, 'ops' | 'records' | 'slots'> {
  const ops: Op[] = []
  const records: EventRecord[] = []
  const removed = new Set<string>()
  const slots = given.map((op): Slot => {
    if (op.name === 'events.append') {
      if (removed.has(op.thread_id)) throw new Refused(`events of thread ${op.thread_id} behind their removal`)
      const { first, move } = place(op, counters, records)
      ops.push(move)
      return { kind: 'value', value: first }
    }
    if (op.name === 'events.remove') {
      removed.add(op.thread_id)
      return { kind: 'remove', op }
    }
    if (op.name === 'thread.remove') removed.add(op.thread_id)
    if (op.name === 'thread.create') counters.created(op.thread.thread_id)
    ops.push(op)
    return { kind: 'database', at: ops.length - 1 }
  })
  return { ops, records, slots }
}

/** Makes records of the events that are new; answers the seq of the first event, new or not, and the move of the counter. */
function place(
  { thread_id, run_id, user_id, events }: OpOf<'events.append'>,
  counters: Counters,
  records: EventRecord[]
): { first: number; move: OpOf<'seq.move'> } {
  const from = counters.next(thread_id)
  if (from === null) throw new Refused(`thread ${thread_id} is gone`)
  const seqs = events.map((event) => {
    const { k, event_type, category, content, created_at } = event
    const stored = counters.seqOf(thread_id, run_id, k)
    // The same record handed over again, after a crash or a refused batch: what is stored stays.
    if (stored !== undefined) return stored
    const seq = counters.give(thread_id, run_id, k)
    const metadata = markedMetadata(event)
    records.push({ thread_id, run_id, user_id, event_type, category, content, metadata, seq, k, created_at })
    return seq
  })
  // Also when nothing is new: it is what finds out whether the thread is still there [Store 8].
  const to = counters.next(thread_id) ?? from
  return { first: seqs[0] ?? from, move: { name: 'seq.move', thread_id, from, to } }
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

export function isAny(threads: ReadonlySet<string>, among: ReadonlySet<string>): boolean {
  for (const thread of threads) if (among.has(thread)) return true
  return false
}
