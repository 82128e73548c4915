// A floor of SQLite in a thread of its own: the same bare inserts, for rows that are handed over as they are. What it takes longer
// than the floor is the price of an event loop that never waits for a lock or a disk.
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { NewEvent } from '../lib/store/store.ts'
import { type Sink, sqliteFloor } from './driver-floors.ts'

interface Handed {
  readonly events: readonly NewEvent[]
  readonly from: number
}

/** `path`: as of `sqliteFloor`. One transaction at a time. */
export async function sqliteThreadFloor(path: string): Promise<Sink> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { path } })
  await once(worker, 'message')
  return {
    async append(events, from) {
      const written = once(worker, 'message')
      worker.postMessage({ events, from } satisfies Handed)
      await written
    },
    close: async () => void (await worker.terminate())
  }
}

function serve(path: string): void {
  // It has a parent: it is no main thread.
  const port = parentPort!
  const sink = sqliteFloor(path)
  port.on('message', async ({ events, from }: Handed) => {
    await sink.append(events, from)
    port.postMessage('written')
  })
  port.postMessage('ready')
}

if (!isMainThread && typeof workerData?.path === 'string') serve(workerData.path)
