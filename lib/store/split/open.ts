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
// Hence [Store 2] holds over both places: a group's events are there when its rows are. Seqs are given before the commit, so a round
// has one group for each thread whose events it is about; a batch with two of them is written in two rounds, in its order.
// What may go wrong on the way:
//
//   - The database refuses a group: what was appended for it is taken away again, and its seqs are given to what comes instead.
//   - The database rejects, and whether it had committed before the line broke is not known: nothing is taken away. The next call
//     reads the counter, which tells, and a record whose (run_id, k) is there already is not written again.
//   - The process dies between 2 and 3, or somebody puts an older database beside newer records: records at or above the counter.
//     They are set aside before the next append of the thread, and their seqs are not given again: perhaps they were seen [Store 5].
//   - A thread is removed: its row first, its records after the commit. It has a tombstone before, so that a start can finish what a
//     crash has interrupted.
import type { EventStore, Store, Warn } from '../store.ts'
import { eventReads } from './reads.ts'
import { Removals } from './removals.ts'
import { SplitWriter } from './writer.ts'

/** `database` with the events of `events`; closing it closes both. Member by member: a database may be an object of any kind. */
export function splitStore(database: Store, events: EventStore, warn: Warn = () => {}): Store {
  return joined(database, events, new Removals(database, events, warn))
}

/** For a start: finishes what a crash has interrupted, then the same. */
export async function openSplitStore(database: Store, events: EventStore, warn: Warn): Promise<Store> {
  const removals = new Removals(database, events, warn)
  await removals.resume()
  return joined(database, events, removals)
}

/** What is read of the database itself. */
export const BESIDE_EVENTS = [
  'users',
  'apiTokens',
  'assistants',
  'threads',
  'runs',
  'frames',
  'checkpoints',
  'graphStates',
  'ttls',
  'items',
  'crons',
  'webhooks',
  'feedback'
] as const satisfies readonly (keyof Store)[]

function joined(database: Store, events: EventStore, removals: Removals): Store {
  const writer = new SplitWriter(database, events, removals)
  // Named one by one: a store may be an object that nothing can be spread out of.
  const own = Object.fromEntries(BESIDE_EVENTS.map((noun) => [noun, database[noun]])) as Pick<
    Store,
    (typeof BESIDE_EVENTS)[number]
  >
  return {
    ...own,
    events: eventReads(database, events),
    ...(database.peers && { peers: database.peers }),
    apply: (groups) => writer.apply(groups),
    get trouble() {
      return database.trouble ?? null
    },
    ...(database.size && { size: () => database.size!() }),
    async close() {
      await writer.stop()
      await events.close()
      await database.close()
    }
  }
}
