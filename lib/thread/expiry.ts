// Removes threads whose time to live has expired.
import type { Store, Writer } from '../store/store.ts'
import { timestamp } from '../types.ts'

const EVERY_MS = 60_000
const PAGE = 100

export interface ExpiryDeps {
  readonly store: Pick<Store, 'threads' | 'runs' | 'ttls'>
  readonly writer: Writer
  /** Removes a thread with everything that belongs to it. */
  readonly remove: (threadId: string) => Promise<unknown>
  readonly onTrouble: (error: unknown) => void
}

export class ThreadExpiry {
  readonly #deps: ExpiryDeps
  #timer: NodeJS.Timeout | null = null

  constructor(deps: ExpiryDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#timer = setInterval(() => void this.sweep().catch(this.#deps.onTrouble), EVERY_MS)
    this.#timer.unref()
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** Removes expired threads, but not while a run is in flight. */
  async sweep(now = Date.now()): Promise<number> {
    const { store, writer, remove } = this.#deps
    let removed = 0
    for (const { thread_id, made_at } of await store.ttls.due(timestamp(now), PAGE)) {
      const thread = await store.threads.get(thread_id, null)
      if (thread?.created_at === made_at) {
        if ((await store.runs.inFlight(thread_id)).length > 0) continue
        await remove(thread_id)
        removed++
      }
      await writer.write({ name: 'ttl.remove', thread_id })
    }
    return removed
  }
}
