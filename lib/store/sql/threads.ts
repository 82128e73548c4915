// A thread as a row.
import type { Thread } from '../../types.ts'
import { parseObject } from './json.ts'

export type ThreadRow = Omit<Thread, 'metadata'> & { readonly metadata_json: string }

export const COLUMNS = 'thread_id, user_id, assistant_id, display_name, status, metadata_json, created_at, updated_at'

export function toThread({ metadata_json, ...row }: ThreadRow): Thread {
  return { ...row, metadata: parseObject(metadata_json) }
}

/** What a search may sort by. The word comes from outside: only these get into the SQL. */
export const SORT_COLUMNS = {
  thread_id: 'thread_id',
  created_at: 'created_at',
  updated_at: 'updated_at',
  status: 'status'
} as const
