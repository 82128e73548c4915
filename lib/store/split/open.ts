// A store whose run events lie elsewhere: an EventStore (files, memory, a custom module) beside a database for everything else.
//
// Two places cannot commit together, so the database decides: a record counts when its seq is below the thread's counter
// (`threads_meta.next_seq`). There is no other mark of a commit.
//
//   1. plan      give each new record the next seq of its thread; replace `events.append` by `seq.move` from the old counter to
//                the new one
//   2. append    the records go to the event store, where no query sees them yet
//   3. commit    the groups go to the database, with the move of the counter in the transaction of everything else of its group
//   4. answer    queries read the counter first, so they see the records from the commit on
//
// So [Store 2] holds over both places: a group's events appear with its rows. Seqs are assigned before the commit, so a round has at
// most one group per thread; a batch with two of them is written in two rounds, in order.
// What may go wrong:
//
//   - The database refuses a group: its records are removed again, and their seqs are reused.
//   - The connection breaks during the commit, so its outcome is unknown: nothing is removed. The next call reads the counter, which
//     tells, and a record whose (run_id, k) is stored already is not written again.
//   - The process dies between 2 and 3, or an older database is restored beside newer records: there are records at or above the
//     counter. They are set aside before the thread's next append, and their seqs are not reused: they may have been seen [Store 5].
//   - A thread is removed: its row first, its records after the commit. A tombstone is written before, so that the next start can
//     finish what a crash interrupted.
import type { EventStore, Store, Warn, EventQuery, EventReads, EventRecord, SeqPage } from '../store.ts'
import { Removals, SplitWriter } from './writer.ts'
import type { RunEvent } from '../../base/types.ts'

/** `database` with the events of `events`; closing it closes both. */
export function splitStore(database: Store, events: EventStore, warn: Warn = () => {}): Store {
  return joined(database, events, new Removals(database, events, warn))
}

/** The same at startup: first finishes removals a crash has interrupted. */
export async function openSplitStore(database: Store, events: EventStore, warn: Warn): Promise<Store> {
  const removals = new Removals(database, events, warn)
  await removals.resume()
  return joined(database, events, removals)
}

/** Nouns read from the database itself. */
export const BESIDE_EVENTS = [
  'users',
  'apiTokens',
  'assistants',
  'threads',
  'runs',
  'frames',
  'checkpoints',
  'graphStates',
  'items',
  'crons',
  'jobs',
  'audit',
  'holds',
  'aliases',
  'retention',
  'usage',
  'feedback'
] as const satisfies readonly (keyof Store)[]

function joined(database: Store, events: EventStore, removals: Removals): Store {
  const writer = new SplitWriter(database, events, removals)
  // One by one: a store may be a class instance, which cannot be spread.
  const own = Object.fromEntries(BESIDE_EVENTS.map((noun) => [noun, database[noun]])) as Pick<
    Store,
    (typeof BESIDE_EVENTS)[number]
  >
  return {
    ...own,
    events: eventReads(database, events),
    ...(database.search && { search: database.search }),
    ...(database.peers && { peers: database.peers }),
    ...(database.connections && { connections: database.connections.bind(database) }),
    ...(database.withUrl && { withUrl: database.withUrl.bind(database) }),
    apply: (groups) => writer.apply(groups),
    get trouble() {
      return database.trouble ?? null
    },
    ...(database.size && { size: () => database.size!() }),
    ...(database.purge && { purge: () => database.purge!() }),
    async close() {
      await writer.stop()
      await events.close()
      await database.close()
    }
  }
}

function eventReads(database: Store, events: EventStore): EventReads {
  const nextSeq = (threadId: string) => database.events.nextSeq(threadId)

  /** Everything of the thread that is committed now and visible to the owner. */
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
      return messages(threadId, page, user, {})
    },
    async listMessagesByRun(threadId, runId, page, user) {
      return messages(threadId, page, user, { runId })
    },
    async listEvents(threadId, runId, { types, after, limit }, user) {
      const all = await committed(threadId, user)
      if (!all) return []
      const query: EventQuery = { ...all, runId, after: after ?? 0, ...(types && { types }) }
      return (await events.select(query, limit, 'first')).map(withoutK)
    },
    async lastK(threadId, runId) {
      const all = await committed(threadId, null)
      const [record] = all ? await events.select({ ...all, runId }, 1, 'last') : []
      return record?.k ?? -1
    },
    async runsOfMessages(threadId, messageIds, user) {
      const all = await committed(threadId, user)
      if (!all || messageIds.length === 0) return new Map()
      const query: EventQuery = { ...all, category: 'message', messageIds }
      const records = await events.select(query, Number.MAX_SAFE_INTEGER, 'last')
      // Ascending: the newest of several runs that recorded a message wins.
      return new Map(records.map(({ content, run_id, event_type }) => [idIn(content), { run_id, event_type }]))
    }
  }
}

function withoutK({ k: _, ...event }: EventRecord): RunEvent {
  return event
}

function idIn(content: RunEvent['content']): string {
  // Selected by `messageIds`, so it is an object with that member.
  return (content as { id: string }).id
}
