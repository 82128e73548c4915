// Searching, creating, changing and removing threads in PostgreSQL.
import type { JsonObject } from '../../base/types.ts'
import { Refused } from '../refused.ts'
import { parseObject } from '../sql/json.ts'
import { metadataDigests } from '../sql/metadata-index.ts'
import { countStatement, pageStatement, type SearchDialect } from '../sql/thread-search.ts'
import { putJob, REMOVE_JOBS } from '../sql/jobs.ts'
import { hasRunInFlight } from '../sql/runs.ts'
import { places } from '../sql/steps.ts'
import { COLUMNS, GET_THREAD, type ThreadRow, toThread } from '../sql/threads.ts'
import { StoreUnavailable, type ThreadReads } from '../store.ts'
import { checkpointPut } from './checkpoints.ts'
import { beginRemoval, finishRemoval } from './removal.ts'
import type { Db } from './db.ts'
import type { Writers } from './rows.ts'
import { runSteps } from './steps.ts'
import { texts } from './text.ts'

/** Metadata terms, as the column stores them. */
function termTexts(metadata: JsonObject): string {
  return texts(metadataDigests(metadata).map((digest) => digest.toString('base64')))
}

const DIALECT: SearchDialect = {
  isIn: (column, list) => `${column} = ANY(${list}::text[])`,
  hasTerms: (terms) => `metadata_terms @> ${terms}::text[]`
}

export function threadSearch(db: Db): ThreadReads['search'] {
  return async (query, owner) => {
    const { ids, metadata = {} } = query
    const lists = {
      ids: ids ? texts(ids) : null,
      terms: Object.keys(metadata).length > 0 ? termTexts(metadata) : null
    }
    const page = pageStatement(query, owner, lists, DIALECT)
    const count = countStatement(query, owner, lists, DIALECT)
    const [rows, [counted]] = await Promise.all([
      db.rows<ThreadRow>(page.sql, page.params, 'anew'),
      db.rows<{ total: number }>(count.sql, count.params, 'anew')
    ])
    return { threads: rows.map(toThread), total: counted?.total ?? 0 }
  }
}

export const threadWrites: Writers<'thread.create' | 'thread.patch' | 'thread.remove'> = {
  'thread.create': async ({ thread, checkpoint, isTemporary = false, removal }, batch) => {
    const { thread_id, user_id, assistant_id, display_name, status, metadata, created_at, updated_at } = thread
    const json = JSON.stringify(metadata)
    const row = [thread_id, user_id, assistant_id, display_name, status, json, created_at, updated_at]
    const made = await batch.changes(
      `INSERT INTO threads_meta (${COLUMNS}, metadata_terms, is_temporary) VALUES (${places(8)}, $9::text[], $10) ON CONFLICT DO NOTHING`,
      [...row, termTexts(metadata), Number(isTemporary)]
    )
    if (made === 0) {
      const [found] = await batch.rows<ThreadRow>(`SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = $1`, [
        thread_id
      ])
      if (!found) throw new StoreUnavailable('GONE_MEANWHILE', `thread ${thread_id} was removed while it was created`)
      // Another process created it after this batch had looked.
      if (!batch.threads.has(thread_id)) await batch.load([thread_id])
      if (found.user_id !== null && found.user_id !== user_id) return null
      return { thread: toThread(found), created: false }
    }
    batch.keep(thread_id, 1)
    await finishRemoval(batch, thread_id)
    if (removal) await runSteps(batch, putJob(removal))
    // A legacy thread already has checkpoints: an empty one on top would hide its conversation.
    const before = await batch.rows('SELECT 1 FROM checkpoints WHERE thread_id = $1 LIMIT 1', [thread_id])
    if (before.length === 0) await checkpointPut(checkpoint, batch)
    return { thread, created: true }
  },

  'thread.patch': async ({ thread_id, metadata, user, now }, batch) => {
    const [row] = await batch.rows<ThreadRow>(GET_THREAD, [user, thread_id])
    if (!row) return null
    const merged: JsonObject = { ...parseObject(row.metadata_json), ...metadata }
    await batch.changes(
      'UPDATE threads_meta SET metadata_json = $2, metadata_terms = $3::text[], updated_at = $4 WHERE thread_id = $1',
      [thread_id, JSON.stringify(merged), termTexts(merged), now]
    )
    return { ...toThread(row), metadata: merged, updated_at: now }
  },

  'thread.remove': async ({ thread_id, user, ifIdle = false, files }, batch) => {
    if ((await batch.rows(GET_THREAD, [user, thread_id])).length === 0) return false
    if (ifIdle && (await runSteps(batch, hasRunInFlight(thread_id))))
      throw new Refused(`thread ${thread_id} has a run in flight`)
    await batch.flush()
    // Locked first: another process may be compacting frames of one of them.
    await batch.rows('SELECT 1 FROM runs WHERE thread_id = $1 ORDER BY key FOR UPDATE', [thread_id])
    await Promise.all([
      batch.changes('DELETE FROM threads_meta WHERE thread_id = $1', [thread_id]),
      batch.changes(REMOVE_JOBS, [thread_id]),
      beginRemoval(batch, thread_id)
    ])
    if (files) await runSteps(batch, putJob(files))
    batch.threads.delete(thread_id)
    return true
  }
}
