// Temporary threads: the thread of a stateless run is deleted once the end of the run was delivered, unless the client keeps it.
import { setTimeout as pause } from 'node:timers/promises'
import type { StreamWriter } from '../stream-writer.ts'
import { type Run, timestamp } from '../types.ts'
import { removeThread, type RemovalServices } from './remove-thread.ts'
import type { RunBody } from './run-request.ts'
import type { Services } from './services.ts'
import { warnUnexpected } from '../unexpected.ts'

/** How long it is kept for a client that was cut off or has not joined yet, in ms. */
const STAYS_MS = 60_000
const OUTLIVES_MINUTES = 60

/** LangGraph's clients expect deletion by default; others keep the thread. */
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

  /** Deletes the run's thread, once. Never rejects. */
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

  /** Deletes it some time after the run's end: the client may come back, or nobody is waiting. */
  removeLater(run: Run): void {
    this.#removeLater(run).catch(warnUnexpected)
  }

  async #removeLater(run: Run): Promise<void> {
    await this.#outlive(run).catch(() => {})
    // A store that does not answer must not keep the thread: by then it may.
    await this.#services.registry.settled(run.run_id).catch(() => {})
    await pause(STAYS_MS, undefined, { ref: false })
    await this.remove(run)
  }

  /** Sets a TTL, so that another process deletes it if this one dies. */
  async #outlive({ thread_id }: Run): Promise<void> {
    const { store, writer } = this.#services
    const thread = await store.threads.get(thread_id, null)
    if (!thread) return
    const expires_at = timestamp(Date.now() + OUTLIVES_MINUTES * 60_000)
    const ttl = { thread_id, made_at: thread.created_at, minutes: OUTLIVES_MINUTES, expires_at }
    await writer.write({ name: 'ttl.set', ttl })
  }

  /** Wraps a stream of the run: the thread is deleted before the stream ends. */
  around(run: Run, writer: StreamWriter): StreamWriter {
    if (!this.has(run)) return writer
    let isTold = false
    writer.onClose(() => {
      if (!isTold) this.removeLater(run)
    })
    return {
      write: (bytes) => writer.write(bytes),
      reset: () => writer.reset(),
      onDrain: (listener) => writer.onDrain(listener),
      onClose: (listener) => writer.onClose(listener),
      end: (last) => {
        isTold = true
        this.remove(run)
          .then(() => writer.end(last))
          .catch(warnUnexpected)
      }
    }
  }
}
