// Threads as rows of both databases.
import type { Thread } from '../../base/types.ts'
import { Refused } from '../ports/ops.ts'
import type { ThreadQuery, ThreadReads } from '../store.ts'
import { ask, askOne, ownedBy, type RunSteps, type Steps, withObjects } from './steps.ts'

export type ThreadRow = Omit<Thread, 'metadata'> & { readonly metadata_json: string }

export const COLUMNS = 'thread_id, user_id, assistant_id, display_name, status, metadata_json, created_at, updated_at'

export function toThread({ metadata_json, ...row }: ThreadRow): Thread {
  return withObjects(row, { metadata: metadata_json })
}

/** The row of thread $2, if visible to $1. */
export const GET_THREAD = `SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = $2 AND ${ownedBy(1)}`

export function* hasThread(threadId: string): Steps<boolean> {
  return (yield* ask('SELECT 1 AS found FROM threads_meta WHERE thread_id = $1', threadId)).length > 0
}

/** @throws Refused when there is no such thread [Store 8] */
export function* needsThread(threadId: string): Steps<void> {
  if (!(yield* hasThread(threadId))) throw new Refused(`thread ${threadId} is gone`)
}

/** Whether one more thread would be too many. Counts no further than to the limit; the user is locked in PostgreSQL (batch.ts). */
export function* hasThreads(userId: string | null, max: number): Steps<boolean> {
  if (max === 0 || userId === null) return false
  const sql = `SELECT count(*) AS found FROM (
    SELECT 1 FROM threads_meta WHERE user_id = $1 AND is_temporary = 0 LIMIT $2) AS counted`
  return Number((yield* askOne<{ found: number }>(sql, userId, max))!.found) >= max
}

export function threadReads(run: RunSteps, search: ThreadReads['search']): ThreadReads {
  return {
    async get(threadId, user) {
      const row = await run(askOne<ThreadRow>(GET_THREAD, user, threadId))
      return row ? toThread(row) : null
    },
    async ownerOf(threadId) {
      const sql = 'SELECT user_id FROM threads_meta WHERE thread_id = $1'
      return (await run(askOne<{ user_id: string | null }>(sql, threadId)))?.user_id
    },
    async idsOf(userId, limit) {
      const sql = 'SELECT thread_id FROM threads_meta WHERE user_id = $1 LIMIT $2'
      return (await run(ask<{ thread_id: string }>(sql, userId, limit))).map(({ thread_id }) => thread_id)
    },
    search
  }
}

/** Sortable columns. The name comes from outside: only these get into the SQL. */
const SORT_COLUMNS = {
  thread_id: 'thread_id',
  created_at: 'created_at',
  updated_at: 'updated_at',
  status: 'status'
} as const

export function sortColumn({ sortBy = 'updated_at' }: ThreadQuery): string {
  return SORT_COLUMNS[sortBy]
}

/** The ORDER BY clause: by the column or its expression, then by id descending, because pages need a total order. */
export function orderOf(query: ThreadQuery, column: string = sortColumn(query)): string {
  return `${column} ${query.sortOrder === 'asc' ? 'ASC' : 'DESC'}, thread_id DESC`
}
