// A store made of somebody's EventStore and a memory database, so that every suite can run on it.
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { splitStore } from '../../lib/store/split/open.ts'
import type { EventStore } from '../../lib/store/store.ts'
import type { Open } from './harness.ts'

/** An event store of nobody else's, and empty. */
export interface OpenedEvents {
  readonly events: EventStore
  /** Opens it again on the same data; it is closed already. Absent: nothing is kept, and the tests of keeping are skipped. */
  reopen?(): Promise<EventStore>
  /** Removes the data; the store is closed already. */
  remove?(): Promise<void>
}

/** @param open Makes a new and empty event store each time. */
export function eventsOverMemory(open: () => Promise<OpenedEvents>): Open {
  return async () => {
    // It outlives the event store, as a database would.
    const database = openMemoryStore()
    const opened = await open()
    let { events } = opened
    const { reopen } = opened
    return {
      store: splitStore(database, events),
      ...(reopen && {
        async reopen() {
          await events.close()
          events = await reopen.call(opened)
          return splitStore(database, events)
        }
      }),
      async close() {
        await events.close()
        await opened.remove?.()
      }
    }
  }
}
