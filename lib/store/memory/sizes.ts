// What each thread takes in memory, about, and which one goes when all of them take too much.
import type { Op } from '../store.ts'
import { type ThreadOwned, sizeOf } from './rows.ts'
import type { Undo } from './undo.ts'

/** Bytes of threads with everything that belongs to them, beside their frames. Some ten thousand long conversations. */
export const BYTES_MAX = 256 * 1024 * 1024

export class Sizes implements ThreadOwned {
  /** Bytes by thread, in the order in which they were written last. */
  readonly #byThread = new Map<string, number>()
  #total = 0

  /** Counts what an op has stored. Frames have a bound of their own. */
  count(op: Op, undo: Undo): void {
    const threadId = threadOf(op)
    if (threadId === null) return
    const bytes = sizeOf(op)
    undo.whenKept(() => {
      const before = this.#byThread.get(threadId) ?? 0
      this.#byThread.delete(threadId)
      this.#byThread.set(threadId, before + bytes)
      this.#total += bytes
    })
  }

  forget(threadId: string, undo: Undo): void {
    undo.whenKept(() => {
      this.#total -= this.#byThread.get(threadId) ?? 0
      this.#byThread.delete(threadId)
    })
  }

  /** Threads that go until the rest fits in `max`, the one that was not written for longest first; the last one written stays. */
  *beyond(max: number): Iterable<string> {
    for (const threadId of [...this.#byThread.keys()].slice(0, -1)) {
      if (this.#total <= max) return
      yield threadId
    }
  }

  isBeyond(max: number): boolean {
    return this.#total > max
  }
}

/** The thread that an op adds something to; null: none, or next to nothing. */
function threadOf(op: Op): string | null {
  switch (op.name) {
    case 'thread.create':
      return op.thread.thread_id
    case 'run.create':
      return op.run.thread_id
    case 'events.append':
    case 'checkpoint.put':
    case 'state.update':
      return op.thread_id
    default:
      return null
  }
}
