// Origins of messages in SQLite: which run recorded each message of a thread.
import type Database from 'better-sqlite3'
import type { EventReads, MessageOrigin } from '../store.ts'
import { visibleTo } from '../sql/steps.ts'

/** Parameters: message ids as a JSON list, and the number of messages in the thread above which each id is looked up. */
interface OriginsParams {
  thread: string
  ids: string
  most: number
  /** The user who asks. */
  1: string | null
}

type OriginRow = readonly [message_id: string, seq: number, run_id: string, event_type: string]

/** Records as one JSON list: together with other lists it is one row. */
const recorded = (source: string) =>
  `SELECT json_group_array(json_array(message_id, seq, run_id, event_type)) FROM ${source} AND ${visibleTo(1)}`

/**
 * An expression answered by the index alone. For half of a thread's messages or more it reads the whole thread:
 * scanning the index costs a quarter of that many lookups.
 */
const ORIGINS = `
  CASE WHEN NOT EXISTS (
    SELECT 1 FROM run_events INDEXED BY ix_events_message_4
    WHERE thread_id = @thread AND message_id IS NOT NULL LIMIT 1 OFFSET @most)
  THEN (${recorded('run_events INDEXED BY ix_events_message_4 WHERE thread_id = @thread AND message_id IS NOT NULL')})
  ELSE (${recorded(`(SELECT DISTINCT value FROM json_each(@ids)) AS asked CROSS JOIN run_events INDEXED BY ix_events_message_4
    WHERE thread_id = @thread AND message_id = asked.value`)}) END`

export function originReads(db: Database.Database): EventReads['runsOfMessages'] {
  const origins = db.prepare<OriginsParams, string>(`SELECT ${ORIGINS}`).pluck()
  return async (thread, messageIds, owner) => {
    const params = { thread, ids: JSON.stringify(messageIds), most: 2 * messageIds.length, 1: owner }
    return originsIn(origins.get(params)!, messageIds)
  }
}

function originsIn(answer: string, messageIds: readonly string[]): Map<string, MessageOrigin> {
  // Written by the expression above.
  const rows = JSON.parse(answer) as OriginRow[]
  const newest = new Map<string, OriginRow>()
  for (const row of rows) newest.set(row[0], row)
  // Several runs have recorded a message: the newest record wins.
  if (newest.size < rows.length) for (const row of rows.sort(bySeq)) newest.set(row[0], row)
  const origins = new Map<string, MessageOrigin>()
  for (const id of messageIds) {
    const row = newest.get(id)
    if (row) origins.set(id, { run_id: row[2], event_type: row[3] })
  }
  return origins
}

function bySeq(one: OriginRow, other: OriginRow): number {
  return one[1] - other[1]
}
