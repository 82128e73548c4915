// Thread records in memory.
import { isDeepStrictEqual } from 'node:util'
import { isVisible, type Owner } from '../../scope.ts'
import type { Json, Thread } from '../../types.ts'
import { Refused } from '../refused.ts'
import type { CheckpointWrite, ThreadQuery, ThreadReads } from '../store.ts'
import { type ThreadOwned, byText, copyOf, type Noun } from './rows.ts'
import type { Undo } from './undo.ts'

/** The rows themselves, as the other nouns need them: does it exist, and may it be written for. */
export class ThreadRows {
  readonly #byId = new Map<string, Thread>()
  /** Rows by owner, so that a search reads its user's threads and not everybody's. */
  readonly #byOwner = new Map<Owner, Map<string, Thread>>()

  get(threadId: string): Thread | undefined {
    return this.#byId.get(threadId)
  }

  /** @throws Refused when there is no such thread (any more): a late writer cannot bring it back [Store 8]. */
  require(threadId: string): Thread {
    const thread = this.#byId.get(threadId)
    if (!thread) throw new Refused(`thread ${threadId} is gone`)
    return thread
  }

  /** Rows that a user may see: its own and those without an owner; null: all of them. */
  *of(owner: Owner): Iterable<Thread> {
    if (owner === null) {
      yield* this.#byId.values()
      return
    }
    yield* this.#byOwner.get(owner)?.values() ?? []
    yield* this.#byOwner.get(null)?.values() ?? []
  }

  /** Writes a row, new or changed. Its owner never changes. */
  set(thread: Thread, undo: Undo): void {
    let mine = this.#byOwner.get(thread.user_id)
    if (!mine) {
      mine = new Map()
      undo.set(this.#byOwner, thread.user_id, mine)
    }
    undo.set(this.#byId, thread.thread_id, thread)
    undo.set(mine, thread.thread_id, thread)
  }

  delete(thread: Thread, undo: Undo): void {
    undo.delete(this.#byId, thread.thread_id)
    const mine = this.#byOwner.get(thread.user_id)
    if (!mine) return
    undo.delete(mine, thread.thread_id)
    if (mine.size === 0) undo.delete(this.#byOwner, thread.user_id)
  }
}

/** Typed equality: true is not 1, and a key that is inherited is none. */
function holds(thread: Thread, [key, value]: readonly [string, Json]): boolean {
  if (!Object.hasOwn(thread.metadata, key)) return false
  const found = thread.metadata[key]
  return found === value || (typeof value === 'object' && isDeepStrictEqual(found, value))
}

function matches(thread: Thread, query: ThreadQuery, wanted: readonly (readonly [string, Json])[]): boolean {
  if (query.status !== undefined && thread.status !== query.status) return false
  return wanted.every((pair) => holds(thread, pair))
}

/** By the wanted column, then by id downwards: pages need a total order. */
function inOrder({ sortBy = 'updated_at', sortOrder = 'desc' }: ThreadQuery): (left: Thread, right: Thread) => number {
  const direction = sortOrder === 'asc' ? 1 : -1
  return (left, right) => direction * byText(left[sortBy], right[sortBy]) || byText(right.thread_id, left.thread_id)
}

function threadReads(rows: ThreadRows): ThreadReads {
  return {
    async get(threadId, owner) {
      const thread = rows.get(threadId)
      return thread && isVisible(thread, owner) ? copyOf(thread) : null
    },
    async ownerOf(threadId) {
      return rows.get(threadId)?.user_id
    },
    async search(query, owner) {
      const ids = query.ids && new Set(query.ids)
      const wanted = Object.entries(query.metadata ?? {})
      const found = [...rows.of(owner)].filter(
        (thread) => (!ids || ids.has(thread.thread_id)) && matches(thread, query, wanted)
      )
      const page = found.sort(inOrder(query)).slice(query.offset, query.offset + query.limit)
      return { threads: copyOf(page), total: found.length }
    }
  }
}

/** What the life of a thread touches beside its row. */
export interface ThreadParts {
  putCheckpoint(checkpoint: CheckpointWrite, undo: Undo): void
  /** In the order in which they are forgotten. */
  readonly belongings: readonly ThreadOwned[]
}

export function memoryThreads(
  rows: ThreadRows,
  parts: ThreadParts
): Noun<ThreadReads, 'thread.create' | 'thread.patch' | 'thread.remove'> {
  const owned = (threadId: string, owner: Owner): Thread | null => {
    const thread = rows.get(threadId)
    return thread && isVisible(thread, owner) ? thread : null
  }
  return {
    reads: threadReads(rows),
    writes: {
      'thread.create': ({ thread, checkpoint }, undo) => {
        const found = rows.get(thread.thread_id)
        if (found) {
          // Here null is no bypass: the system that creates a shared thread must not be given somebody's own.
          const mine = found.user_id === null || found.user_id === thread.user_id
          return mine ? { thread: found, created: false } : null
        }
        rows.set(thread, undo)
        parts.putCheckpoint(checkpoint, undo)
        return { thread, created: true }
      },
      'thread.patch': (op, undo) => {
        const before = owned(op.thread_id, op.user)
        if (!before) return null
        const after = { ...before, metadata: { ...before.metadata, ...op.metadata }, updated_at: op.now }
        rows.set(after, undo)
        return after
      },
      'thread.remove': (op, undo) => {
        const thread = owned(op.thread_id, op.user)
        if (!thread) return false
        for (const belonging of parts.belongings) belonging.forget(op.thread_id, undo)
        rows.delete(thread, undo)
        return true
      }
    }
  }
}
