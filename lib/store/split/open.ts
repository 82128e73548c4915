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
import type { EventStore, Store } from '../store.ts'
import { besideMessages } from '../beside.ts'
import { eventReads } from './events.ts'
import { Removals, type Warn } from './removals.ts'
import { SplitWriter } from './writer.ts'

/** `database` with the events of `events`; closing it closes both. */
export function splitStore(database: Store, events: EventStore, warn: Warn = () => {}): Store {
  const writer = new SplitWriter(database, events, new Removals(database, events, warn))
  const reads = eventReads(database, events)
  const { feedback } = database
  return {
    ...database,
    events: reads,
    feedback: feedback && { ...feedback, besideMessages: besideMessages(reads, feedback) },
    apply: (groups) => writer.apply(groups),
    get trouble() {
      return database.trouble ?? null
    },
    async close() {
      await writer.stop()
      await events.close()
      await database.close()
    }
  }
}

/** For a start: finishes what a crash has interrupted, then the same. */
export async function openSplitStore(database: Store, events: EventStore, warn: Warn): Promise<Store> {
  await new Removals(database, events, warn).finish((await events.announced?.()) ?? [])
  return splitStore(database, events, warn)
}
