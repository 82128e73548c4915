// Threads on their way out: their rows go first, with the commit, and their events behind it. In between they are announced, so that
// a start can finish what a crash has interrupted.
import type { EventStore, Op, Store } from '../store.ts'

export type Warn = (fields: object, text: string) => void

export class Removals {
  readonly #database: Store
  readonly #events: EventStore
  readonly #warn: Warn
  readonly #threads = new Set<string>()

  constructor(database: Store, events: EventStore, warn: Warn) {
    this.#database = database
    this.#events = events
    this.#warn = warn
  }

  /** Before the commit of ops that may remove threads. */
  async announce(ops: readonly Op[]): Promise<void> {
    const before = this.#threads.size
    for (const op of ops) if (op.name === 'thread.remove') this.#threads.add(op.thread_id)
    if (this.#threads.size > before) await this.#events.announce?.([...this.#threads])
  }

  /**
   * Behind the commit: nobody can ask for the events of these threads any more, and they may go. Whether a thread was removed is
   * looked up, because the answer to its removal may have got lost. Answers the threads it has dealt with.
   */
  async finish(announced: readonly string[] = []): Promise<readonly string[]> {
    for (const threadId of announced) this.#threads.add(threadId)
    const threads = [...this.#threads]
    if (threads.length === 0) return threads
    try {
      for (const threadId of threads) {
        // One that is there was not removed, or was made anew: then what is left of the old one is cut.
        if ((await this.#database.events.nextSeq(threadId)) === null) await this.#events.remove(threadId, null, null)
        this.#threads.delete(threadId)
      }
      await this.#events.announce?.([])
    } catch (error) {
      this.#warn({ err: error, threads: [...this.#threads] }, 'the events of removed threads are still there')
    }
    return threads
  }
}
