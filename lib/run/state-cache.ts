// The newest states of threads, so that the next run of a thread does not read its whole conversation again. The store is asked each
// time which checkpoint is newest, so writes by users or other processes are never missed.
import { LRUCache } from 'lru-cache'
import { ofHeap } from '../base/budget.ts'
import { readTurns } from '../base/loop-turns.ts'
import type { Store } from '../store/store.ts'
import { type SavedState, savedState } from '../thread/state.ts'

/** Bytes kept for all threads together, about, and the part of the heap that it may be. */
const KEPT_BYTES = 8 * 1024 * 1024
const PARTS = 32
/** Overhead of a thread, and of each of its texts, in bytes, about. */
const THREAD_BYTES = 512
const BODY_BYTES = 128

function bytesOf({ state }: SavedState): number {
  const { texts, bytes } = state.size
  return bytes + texts * BODY_BYTES + THREAD_BYTES
}

export class StateCache {
  readonly #store: Pick<Store, 'checkpoints'>
  /** By thread. */
  readonly #kept: LRUCache<string, SavedState>

  /** @param most bytes that are kept, if that is less: whether a longer state is too long for a run is looked at when it is read */
  constructor(store: Pick<Store, 'checkpoints'>, most = KEPT_BYTES) {
    this.#store = store
    this.#kept = new LRUCache({ maxSize: Math.min(most, ofHeap(KEPT_BYTES, PARTS)), sizeCalculation: bytesOf })
  }

  /** Bytes kept, about. */
  get bytes(): number {
    return this.#kept.calculatedSize
  }

  /** A run has ended and its last state is stored. */
  left(threadId: string, saved: SavedState): void {
    this.#kept.set(threadId, saved)
  }

  /** The newest state of a thread; null: it has none. */
  async newest(threadId: string): Promise<SavedState | null> {
    const kept = this.#kept.get(threadId)
    return kept && (await this.#isNewest(threadId, kept)) ? kept : this.at(threadId, null)
  }

  /** The state of one checkpoint, or the newest for null. Null when there is none. */
  async at(threadId: string, checkpointId: string | null): Promise<SavedState | null> {
    // From here a run reaches its model without leaving the turn: with a long conversation that takes a tenth of a second.
    await readTurns.enter(threadId)
    const stored = await this.#store.checkpoints.load(threadId, checkpointId)
    return stored && savedState(stored)
  }

  /** Forgets a thread: it was deleted, or its state changes elsewhere. */
  forget(threadId: string): void {
    this.#kept.delete(threadId)
  }

  async #isNewest(threadId: string, { checkpointId }: SavedState): Promise<boolean> {
    const head = await this.#store.checkpoints.load(threadId, null, [])
    return head?.checkpoint_id === checkpointId
  }
}
