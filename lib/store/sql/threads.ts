// A thread as a row.
import type { Thread } from '../../types.ts'
import type { ThreadQuery } from '../store.ts'
import { parseObject } from './json.ts'

export type ThreadRow = Omit<Thread, 'metadata'> & { readonly metadata_json: string }

export const COLUMNS = 'thread_id, user_id, assistant_id, display_name, status, metadata_json, created_at, updated_at'

export function toThread({ metadata_json, ...row }: ThreadRow): Thread {
  return { ...row, metadata: parseObject(metadata_json) }
}

/** What a search may sort by. The word comes from outside: only these get into the SQL. */
const SORT_COLUMNS = {
  thread_id: 'thread_id',
  created_at: 'created_at',
  updated_at: 'updated_at',
  status: 'status'
} as const

export function sortColumn({ sortBy = 'updated_at' }: ThreadQuery): string {
  return SORT_COLUMNS[sortBy]
}

/** What follows ORDER BY: by the column, or what stands for it, then by id downwards: pages need a total order. */
export function orderOf(query: ThreadQuery, column: string = sortColumn(query)): string {
  return `${column} ${query.sortOrder === 'asc' ? 'ASC' : 'DESC'}, thread_id DESC`
}
