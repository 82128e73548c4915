// Temporary threads: the thread of a stateless run whose client wants nothing kept. Removed once the run's end was delivered.
import { setTimeout as pause } from 'node:timers/promises'
import type { StreamWriter } from '../stream-writer.ts'
import { type Run, timestamp } from '../types.ts'
import { removeThread, type RemovalServices } from './remove-thread.ts'
import type { RunBody } from './run-request.ts'
import type { Services } from './services.ts'

/** How long it stays for a client that was cut off or has not asked yet, in ms. */
const STAYS_MS = 60_000
const OUTLIVES_MINUTES = 60

/** The default of LangGraph's clients; the service's own continue in the thread. */
export function isForOnce({ on_completion: wanted }: RunBody, isLangGraph: boolean): boolean {
  return wanted ? wanted === 'delete' || wanted === 'complete' : isLangGraph
}

export class TemporaryThreads {
  readonly #services: RemovalServices & Pick<Services, 'webhooks'>
  readonly #going = new Map<string, Promise<void>>()

  constructor(services: RemovalServices & Pick<Services, 'webhooks'>) {
    this.#services = services
  }

  has({ kwargs }: Run): boolean {
    return kwargs.temporary === true
  }

  /** The run's end was delivered: removes its thread, once. Never rejects. */
  remove(run: Run): Promise<void> {
    const { thread_id, user_id } = run
    const known = this.#going.get(thread_id)
    if (known) return known
    const { webhooks } = this.#services
    const going = webhooks
      .prepare(run)
      .then(() => removeThread(this.#services, thread_id, user_id))
      .then(() => {})
      .catch(() => {})
      .finally(() => this.#going.delete(thread_id))
    this.#going.set(thread_id, going)
    return going
  }

  /** Nobody waits for the end, or the client was cut off and may come back. */
  async removeLater(run: Run): Promise<void> {
    await this.#outlive(run).catch(() => {})
    await this.#services.registry.settled(run.run_id)
    await pause(STAYS_MS, undefined, { ref: false })
    await this.remove(run)
  }

  /** If this process does not live that long, another one removes it. */
  async #outlive({ thread_id }: Run): Promise<void> {
    const { store, writer } = this.#services
    const thread = await store.threads.get(thread_id, null)
    if (!thread) return
    const expires_at = timestamp(Date.now() + OUTLIVES_MINUTES * 60_000)
    const ttl = { thread_id, made_at: thread.created_at, minutes: OUTLIVES_MINUTES, expires_at }
    await writer.write({ name: 'ttl.set', ttl })
  }

  /** A stream of the run: with its clean end the thread is gone. */
  around(run: Run, writer: StreamWriter): StreamWriter {
    if (!this.has(run)) return writer
    let isTold = false
    writer.onClose(() => {
      if (!isTold) void this.removeLater(run)
    })
    return {
      write: (bytes) => writer.write(bytes),
      reset: () => writer.reset(),
      onDrain: (listener) => writer.onDrain(listener),
      onClose: (listener) => writer.onClose(listener),
      end: (last) => {
        isTold = true
        void this.remove(run).then(() => writer.end(last))
      }
    }
  }
}
