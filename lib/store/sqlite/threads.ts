// Creating, changing and removing threads in SQLite.
import type Database from 'better-sqlite3'
import type { JsonObject } from '../../base/types.ts'
import { parseObject } from '../sql/json.ts'
import { Refused } from '../refused.ts'
import { putCheckpoint } from '../sql/checkpoints.ts'
import { putJob, REMOVE_JOBS } from '../sql/jobs.ts'
import { hasRunInFlight } from '../sql/runs.ts'
import { ownedBy } from '../sql/steps.ts'
import { COLUMNS, type ThreadRow, toThread } from '../sql/threads.ts'
import { insertBodies } from './checkpoints.ts'
import { metadataIndexWrites } from './metadata-index.ts'
import { removal } from './removal.ts'
import type { Writers } from './rows.ts'
import { stepRunner } from './steps.ts'

export function threadWrites(db: Database.Database): Writers<'thread.create' | 'thread.patch' | 'thread.remove'> {
  const any = db.prepare<[string], ThreadRow>(`SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = ?`)
  const owned = db.prepare<object, ThreadRow & { key: number; is_temporary: number }>(
    `SELECT key, is_temporary, ${COLUMNS} FROM threads_meta WHERE thread_id = $2 AND ${ownedBy(1)}`
  )
  const insert = db.prepare(`INSERT INTO threads_meta (${COLUMNS}, is_temporary) VALUES (@thread_id, @user_id,
    @assistant_id, @display_name, @status, @metadata_json, @created_at, @updated_at, @is_temporary)`)
  const hasCheckpoint = db.prepare('SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1')
  const setMetadata = db.prepare('UPDATE threads_meta SET metadata_json = ?, updated_at = ? WHERE thread_id = ?')
  const removeThread = db.prepare('DELETE FROM threads_meta WHERE thread_id = ?')
  const removeJobs = db.prepare<object>(REMOVE_JOBS)
  const run = stepRunner(db)
  const terms = metadataIndexWrites(db)
  const removed = removal(db)

  return {
    'thread.create': ({ thread, checkpoint, isTemporary = false, removal }) => {
      const found = any.get(thread.thread_id)
      if (found) {
        const visible = found.user_id === null || found.user_id === thread.user_id
        return visible ? { thread: toThread(found), created: false } : null
      }
      removed.finish(thread.thread_id)
      const { lastInsertRowid } = insert.run({
        ...thread,
        metadata_json: JSON.stringify(thread.metadata),
        is_temporary: Number(isTemporary)
      })
      // Without terms no search by metadata finds it.
      if (!isTemporary) terms.add(thread.user_id, Number(lastInsertRowid), thread.metadata)
      if (removal) run(putJob(removal))
      // A legacy thread has checkpoints already: an empty one on top would hide its conversation.
      if (!hasCheckpoint.get(thread.thread_id)) run(putCheckpoint(checkpoint, insertBodies))
      return { thread, created: true }
    },
    'thread.patch': ({ thread_id, metadata, user, now }) => {
      const row = owned.get({ 1: user, 2: thread_id })
      if (!row) return null
      const { key, is_temporary, ...thread } = row
      const before = parseObject(row.metadata_json)
      const replaced = Object.fromEntries(Object.entries(before).filter(([name]) => Object.hasOwn(metadata, name)))
      const merged: JsonObject = { ...before, ...metadata }
      if (!is_temporary) {
        terms.remove(row.user_id, key, replaced)
        terms.add(row.user_id, key, metadata)
      }
      setMetadata.run(JSON.stringify(merged), now, thread_id)
      return { ...toThread(thread), metadata: merged, updated_at: now }
    },
    'thread.remove': ({ thread_id, user, ifIdle = false, files }) => {
      const row = owned.get({ 1: user, 2: thread_id })
      if (!row) return false
      if (ifIdle && run(hasRunInFlight(thread_id))) throw new Refused(`thread ${thread_id} has a run in flight`)
      removeJobs.run({ 1: thread_id })
      terms.remove(row.user_id, row.key, parseObject(row.metadata_json))
      removeThread.run(thread_id)
      removed.begin(thread_id)
      if (files) run(putJob(files))
      return true
    }
  }
}
