// Run events in memory beside a database that keeps everything else (`run_events.backend: memory`): gone with the process.
import { isVisible } from '../../scope.ts'
import type { EventQuery, EventRecord, EventStore } from '../store.ts'
import { messageIdOf } from '../event.ts'
import { copyOf, firstNotBelow, sizeOf } from './rows.ts'

/** Limit for all events, in bytes, about; above it the least recently written thread loses its events. */
export const EVENT_BYTES_MAX = 256 * 1024 * 1024

/** Records of one thread; each list ascending by seq. */
interface ThreadRecords {
  readonly all: EventRecord[]
  readonly byRun: Map<string, EventRecord[]>
  bytes: number
}

export interface MemoryEventOptions {
  readonly bytesMax?: number
  /** A thread's events were evicted. */
  readonly onForget?: (threadId: string) => void
}

export function openMemoryEvents({
  bytesMax = EVENT_BYTES_MAX,
  onForget = () => {}
}: MemoryEventOptions = {}): EventStore {
  /** Least recently written first. */
  const threads = new Map<string, ThreadRecords>()
  let bytesKept = 0

  const put = (threadId: string, records: readonly EventRecord[]): void => {
    bytesKept -= threads.get(threadId)?.bytes ?? 0
    threads.delete(threadId)
    if (records.length === 0) return
    const thread: ThreadRecords = { all: [], byRun: new Map(), bytes: 0 }
    for (const record of records) add(thread, record)
    threads.set(threadId, thread)
    bytesKept += thread.bytes
  }

  const append = (threadId: string, records: readonly EventRecord[]): void => {
    const thread = threads.get(threadId) ?? { all: [], byRun: new Map(), bytes: 0 }
    const before = thread.bytes
    for (const record of records) add(thread, copyOf(record))
    threads.delete(threadId)
    threads.set(threadId, thread)
    bytesKept += thread.bytes - before
  }

  const forgetOldest = (): void => {
    for (const threadId of threads.keys()) {
      if (bytesKept <= bytesMax || threads.size === 1) return
      put(threadId, [])
      onForget(threadId)
    }
  }

  return {
    async select(query, limit, which) {
      const found: EventRecord[] = []
      for (const record of matching(threads.get(query.threadId), query, which)) {
        if (found.length >= limit) break
        found.push(record)
      }
      return copyOf(which === 'last' ? found.reverse() : found)
    },
    async append(records) {
      const byThread = new Map<string, EventRecord[]>()
      for (const record of records) {
        const mine = byThread.get(record.thread_id)
        if (mine) mine.push(record)
        else byThread.set(record.thread_id, [record])
      }
      for (const [threadId, mine] of byThread) append(threadId, mine)
      forgetOldest()
    },
    async truncate(threadId, nextSeq) {
      const all = threads.get(threadId)?.all
      if (all?.length && all.at(-1)!.seq >= nextSeq) put(threadId, all.slice(0, firstFrom(all, nextSeq)))
    },
    async remove(threadId) {
      put(threadId, [])
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

function firstFrom(records: readonly EventRecord[], seq: number): number {
  return firstNotBelow(records, (record) => record.seq < seq)
}

function* matching(
  thread: ThreadRecords | undefined,
  { runId, after, before, owner, category, types, messageIds }: EventQuery,
  which: 'first' | 'last'
): Iterable<EventRecord> {
  const records = (runId === undefined ? thread?.all : thread?.byRun.get(runId)) ?? []
  const from = firstFrom(records, after + 1)
  const to = firstFrom(records, before)
  // A history needs all messages of its thread.
  const wanted = messageIds && new Set(messageIds)
  for (let step = 0; step < to - from; step++) {
    const record = records[which === 'first' ? from + step : to - 1 - step]!
    if (!isVisible(record, owner)) continue
    if (category !== undefined && record.category !== category) continue
    if (types && !types.includes(record.event_type)) continue
    if (wanted && !wanted.has(messageIdOf(record) ?? '')) continue
    yield record
  }
}
