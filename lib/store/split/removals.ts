// Threads on their way out: their rows go first, with the commit, and their events behind it. In between they have a tombstone, so
// that a start can finish what a crash has interrupted.
import type { EventStore, Group, Store } from '../store.ts'

export type Warn = (fields: object, text: string) => void

export class Removals {
  readonly #database: Store
  readonly #events: EventStore
  readonly #warn: Warn
  /** With what was warned of; null: nothing yet. */
  readonly #threads = new Map<string, string | null>()

  constructor(database: Store, events: EventStore, warn: Warn) {
    this.#database = database
    this.#events = events
    this.#warn = warn
  }

  /** Before the commit of groups that may remove threads. */
  async expect(groups: readonly Group[]): Promise<void> {
    const before = this.#threads.size
    for (const { ops } of groups) for (const op of ops) if (op.name === 'thread.remove') this.#add(op.thread_id)
    if (this.#threads.size > before) await this.#events.setTombstones?.([...this.#threads.keys()])
  }

  /** What the process before this one has left. */
  async resume(): Promise<void> {
    for (const threadId of (await this.#events.tombstones?.()) ?? []) this.#add(threadId)
    await this.finish()
  }

  /**
   * Behind the commit: nobody can ask for the events of these threads any more, and they may go. Whether a thread was removed is
   * looked up, because the answer to its removal may have got lost. One that resists stays for the next time, and for nobody else.
   */
  async finish(): Promise<void> {
    if (this.#threads.size === 0) return
    const before = this.#threads.size
    for (const threadId of this.#threads.keys()) await this.#finishOne(threadId)
    if (this.#threads.size === before) return
    await this.#events.setTombstones?.([...this.#threads.keys()]).catch((error: unknown) => {
      this.#warn({ err: error }, 'the list of removed threads could not be written: the next start looks at them again')
    })
  }

  async #finishOne(threadId: string): Promise<void> {
    try {
      // One that is there was not removed, or was made anew: what is left of the old one lies beyond its counter.
      if ((await this.#database.events.nextSeq(threadId)) === null) await this.#events.remove(threadId)
      this.#threads.delete(threadId)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      if (this.#threads.get(threadId) === why) return
      this.#threads.set(threadId, why)
      this.#warn({ err: error, thread_id: threadId }, 'the events of a removed thread are still there')
    }
  }

  #add(threadId: string): void {
    if (!this.#threads.has(threadId)) this.#threads.set(threadId, null)
  }
}
