// Retention as rows of both databases: each step takes a few of the oldest, found by an index.
import type { Retained, RetentionReads } from '../store.ts'
import { UNHELD, UNHELD_AUDIT } from './holds.ts'
import { putJob } from './jobs.ts'
import { PRESENT, runBodiesRemoval } from './removal.ts'
import { ask, askOne, type StepReads, type Steps, type StepWrites } from './steps.ts'

const ENDED = "status NOT IN ('pending', 'running')"
const TRACE = "category <> 'message'"
/** A thread with a removal of its own goes by that: it is going already, or has a time to live, which would be lost. */
const UNUSED = `is_temporary = 0 AND updated_at < $1 AND ${PRESENT} AND ${UNHELD}
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE kind = 'removal' AND key = threads_meta.thread_id)`

const OLD: Readonly<Record<Retained, string>> = {
  events: `FROM run_events WHERE ${TRACE} AND created_at < $1 AND ${UNHELD}`,
  runs: `FROM runs WHERE ${ENDED} AND updated_at < $1 AND ${PRESENT} AND ${UNHELD}`,
  threads: `FROM threads_meta WHERE ${UNUSED}`,
  audit: `FROM audit WHERE at < $1 AND ${UNHELD_AUDIT}`
}

export const retentionReads: StepReads<RetentionReads> = {
  *count(of, before) {
    return Number((yield* askOne<{ n: number }>(`SELECT count(*) AS n ${OLD[of]}`, before))!.n)
  }
}

function* sweepRuns(before: string, limit: number): Steps<number> {
  const sql = `SELECT run_id ${OLD.runs} ORDER BY updated_at LIMIT $2`
  const ids = (yield* ask<{ run_id: string }>(sql, before, limit)).map(({ run_id }) => run_id)
  if (ids.length === 0) return 0
  yield* ask('DELETE FROM frames WHERE run_key IN (SELECT key FROM runs WHERE run_id = ANY($1))', ids)
  yield* ask(runBodiesRemoval('run_id = ANY($1)'), ids)
  for (const table of ['feedback', 'aliases']) yield* ask(`DELETE FROM ${table} WHERE run_id = ANY($1)`, ids)
  yield* ask(`DELETE FROM run_events WHERE run_id = ANY($1) AND ${TRACE}`, ids)
  yield* ask('DELETE FROM runs WHERE run_id = ANY($1)', ids)
  return ids.length
}

/** Their removal waits for a run in flight, and comes to nothing when they are used meanwhile. */
function* sweepThreads(before: string, limit: number): Steps<number> {
  const sql = `SELECT thread_id, user_id ${OLD.threads} ORDER BY updated_at LIMIT $2`
  const rows = yield* ask<{ thread_id: string; user_id: string | null }>(sql, before, limit)
  const payload = JSON.stringify({ unused_since: before })
  for (const { thread_id, user_id } of rows)
    yield* putJob({ kind: 'removal', key: thread_id, user_id, thread_id, due: 0, payload })
  return rows.length
}

function* sweepRows(table: 'run_events' | 'audit', before: string, limit: number): Steps<number> {
  const [of, key, by] = table === 'audit' ? (['audit', 'audit_id', 'at'] as const) : EVENT_KEY
  const sql = `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} ${OLD[of]} ORDER BY ${by} LIMIT $2) RETURNING 1`
  return (yield* ask(sql, before, limit)).length
}

const EVENT_KEY = ['events', 'thread_id, seq', 'created_at'] as const

export const retentionWrites: StepWrites<'retention.sweep'> = {
  *'retention.sweep'({ of, before, limit }) {
    switch (of) {
      case 'events':
        return yield* sweepRows('run_events', before, limit)
      case 'audit':
        return yield* sweepRows('audit', before, limit)
      case 'runs':
        return yield* sweepRuns(before, limit)
      case 'threads':
        return yield* sweepThreads(before, limit)
    }
  }
}
