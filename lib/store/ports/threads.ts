// Reading threads.
import type { JsonObject, Thread, ThreadStatus } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

export interface ThreadQuery {
  /** Exact, typed equality on every key: true is not 1, null is not missing. */
  readonly metadata?: JsonObject
  readonly status?: ThreadStatus
  readonly ids?: readonly string[]
  readonly sortBy?: 'thread_id' | 'created_at' | 'updated_at' | 'status'
  readonly sortOrder?: 'asc' | 'desc'
  readonly limit: number
  readonly offset: number
}

export interface ThreadPage {
  readonly threads: Thread[]
  /** Number of all matches. */
  readonly total: number
}

export interface ThreadCreation {
  readonly thread: Thread
  readonly created: boolean
}

export interface ThreadReads {
  get(threadId: string, user: Owner): Promise<Thread | null>
  /** The thread's owner, without any filter; undefined: no such thread. Only for the owner check [Auth 6]. */
  ownerOf(threadId: string): Promise<string | null | undefined>
  /** Ids of a user's own threads, at most so many, also of those that are in no search. */
  idsOf(userId: string, limit: number): Promise<string[]>
  /** Default order: updated_at, newest first. */
  search(query: ThreadQuery, user: Owner): Promise<ThreadPage>
}
