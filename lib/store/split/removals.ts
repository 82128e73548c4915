// Removal of threads: rows go first, with the commit, then events. A tombstone in between lets a start finish what a crash interrupted.
import type { EventStore, Group, Store, Warn } from '../store.ts'

export class Removals {
  readonly #database: Store
  readonly #events: EventStore
  readonly #warn: Warn
  /** The tombstones last written; null: none yet. */
  readonly #threads = new Map<string, string | null>()

  constructor(database: Store, events: EventStore, warn: Warn) {
    this.#database = database
    this.#events = events
    this.#warn = warn
  }

  /** Called before the commit of groups that may remove threads. */
  async expect(groups: readonly Group[]): Promise<void> {
    const before = this.#threads.size
    for (const { ops } of groups) for (const op of ops) if (op.name === 'thread.remove') this.#add(op.thread_id)
    if (this.#threads.size > before) await this.#events.setTombstones?.([...this.#threads.keys()])
  }

  /** Finishes removals of the previous process. */
  async resume(): Promise<void> {
    for (const threadId of (await this.#events.tombstones?.()) ?? []) this.#add(threadId)
    await this.finish()
  }

  /**
   * Called after the commit: nobody can read these threads' events any more. Whether a thread was really removed is
   * checked, because the answer may have got lost. One that fails is retried later, without affecting others.
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
      // An existing thread was not removed, or was recreated: leftovers of the old one are beyond its counter.
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
