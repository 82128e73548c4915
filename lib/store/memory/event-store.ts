// Run events in memory beside a database that keeps everything else (`run_events.backend: memory`): gone with the process.
import { ofHeap } from '../../base/budget.ts'
import type { EventRecord, EventStore } from '../store.ts'
import { firstFrom, grouped, messageIdOf, selectEvents } from '../event-query.ts'
import { copyOf, sizeOf } from './open.ts'

/** Limit for all events, in bytes, about; above it the least recently written thread loses its events. And the part of the heap that it may be. */
const EVENT_BYTES_MAX = 256 * 1024 * 1024
const PARTS = 6

/** Records of one thread; each list ascending by seq. */
interface ThreadRecords {
  readonly all: EventRecord[]
  readonly byRun: Map<string, EventRecord[]>
  bytes: number
}

interface MemoryEventOptions {
  readonly bytesMax?: number
  /** A thread's events were evicted. */
  readonly onForget?: (threadId: string) => void
}

export function openMemoryEvents({
  bytesMax = ofHeap(EVENT_BYTES_MAX, PARTS),
  onForget = () => {}
}: MemoryEventOptions = {}): EventStore {
  /** Least recently written first. */
  const threads = new Map<string, ThreadRecords>()
  let bytesKept = 0

  const forget = (threadId: string): void => {
    bytesKept -= threads.get(threadId)?.bytes ?? 0
    threads.delete(threadId)
  }

  const append = (threadId: string, records: readonly EventRecord[]): void => {
    const thread = threads.get(threadId) ?? { all: [], byRun: new Map(), bytes: 0 }
    forget(threadId)
    for (const record of records) add(thread, record)
    threads.set(threadId, thread)
    bytesKept += thread.bytes
  }

  const forgetOldest = (): void => {
    for (const threadId of threads.keys()) {
      if (bytesKept <= bytesMax || threads.size === 1) return
      forget(threadId)
      onForget(threadId)
    }
  }

  return {
    async select(query, limit, which) {
      const thread = threads.get(query.threadId)
      const records = query.runId === undefined ? thread?.all : thread?.byRun.get(query.runId)
      return copyOf(selectEvents(records ?? [], query, limit, which, messageIdOf))
    },
    async append(records) {
      for (const [threadId, mine] of grouped(records, ({ thread_id }) => thread_id)) append(threadId, copyOf(mine))
      forgetOldest()
    },
    async truncate(threadId, nextSeq) {
      const all = threads.get(threadId)?.all
      if (!all || all.at(-1)!.seq < nextSeq) return
      const kept = all.slice(0, firstFrom(all, nextSeq))
      forget(threadId)
      if (kept.length > 0) append(threadId, kept)
    },
    async remove(threadId) {
      forget(threadId)
    },
    async close() {
      threads.clear()
    }
  }
}

function add(thread: ThreadRecords, record: EventRecord): void {
  thread.all.push(record)
  const run = thread.byRun.get(record.run_id)
  if (run) run.push(record)
  else thread.byRun.set(record.run_id, [record])
  thread.bytes += sizeOf(record)
}
