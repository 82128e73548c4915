// Admitting, starting and settling runs in PostgreSQL: what takes SQLite several statements is one here, to save round trips.
import { type Run, UNPLACED } from '../../base/types.ts'
import { Refused } from '../refused.ts'
import {
  IN_FLIGHT,
  insertRun,
  LATEST_SUCCESS,
  repeated,
  SETTLE_RUN,
  SETTLE_THREAD,
  settledOf,
  startRun
} from '../sql/runs.ts'
import { putJob } from '../sql/jobs.ts'
import type { Batch } from './batch.ts'
import type { Writers } from './rows.ts'
import { boundParams, runSteps } from './steps.ts'

const NEXT_ORDINAL = 'SELECT next_ordinal FROM threads_meta WHERE thread_id = $4'
const START = `WITH started AS (
    ${startRun(`, ordinal = CASE WHEN $5::boolean THEN (${NEXT_ORDINAL}) ELSE ordinal END`)}
  )
  UPDATE threads_meta SET status = 'running', updated_at = $2, next_ordinal = next_ordinal + $5::boolean::int
  WHERE thread_id = $4 AND EXISTS (SELECT 1 FROM started)`

/** Inserts the run and advances its thread's ordinal in one statement; on a conflict neither happens. Returns the key, or null. */
async function insert(run: Omit<Run, 'key'>, owner: string, batch: Batch): Promise<number | null> {
  const insertion = insertRun(run, { owner })
  const sql = `WITH made AS (${insertion.sql} ON CONFLICT DO NOTHING RETURNING key), counted AS (
      UPDATE threads_meta SET next_ordinal = next_ordinal + 1 WHERE thread_id = $2 AND EXISTS (SELECT 1 FROM made)
    )
    SELECT key FROM made`
  const [made] = await batch.rows<{ key: number }>(sql, boundParams(insertion.params))
  return made?.key ?? null
}

export const runWrites: Writers<'run.create' | 'run.start' | 'run.settle'> = {
  'run.create': async ({ run, autoFollowUp, isLater }, batch) => {
    const { thread_id } = run
    const [earlier, [thread], before, [success]] = await Promise.all([
      runSteps(batch, repeated(run)),
      batch.rows<{ next_ordinal: number }>('SELECT next_ordinal FROM threads_meta WHERE thread_id = $1', [thread_id]),
      batch.rows<{ run_id: string; owner: string | null }>(
        `SELECT run_id, writer_id AS owner FROM runs LEFT JOIN writers ON writer_id = owner
          WHERE thread_id = $1 AND ${IN_FLIGHT} ORDER BY ordinal`,
        [thread_id]
      ),
      batch.rows<{ run_id: string }>(LATEST_SUCCESS, [run.user_id, thread_id])
    ])
    if (earlier) return earlier
    // One that another process made after this batch had looked is not held, and its next ordinal may be taken meanwhile.
    if (!thread || !batch.threads.has(thread_id)) return { outcome: 'thread_missing' }
    if (before.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
    const follow_up_to_run_id = autoFollowUp ? (success?.run_id ?? null) : run.follow_up_to_run_id
    const ordinal = thread.next_ordinal + (isLater ? UNPLACED : 0)
    const attempts = before.length === 0 && !isLater ? 1 : 0
    const admitted = { ...run, ordinal, attempts, follow_up_to_run_id }
    // All runs in flight of a thread belong to one process, which alone can keep their order [Store 10].
    const owner = before.find((run) => run.owner !== null)?.owner ?? batch.writerId
    const key = await insert(admitted, owner, batch)
    if (key !== null)
      return {
        outcome: 'created',
        run: { ...admitted, key },
        inFlight: before.map(({ run_id }) => run_id),
        owner
      }
    // Lost a race: against the same key on another thread, or the same id.
    const faster = await runSteps(batch, repeated(run))
    if (faster) return faster
    throw new Refused(`run ${run.run_id} exists already`)
  },

  'run.start': async ({ run_id, thread_id, now, attempt, isLater = false }, batch) => {
    batch.needs(thread_id)
    return (await batch.changes(START, [run_id, now, attempt, thread_id, isLater])) > 0
  },

  'run.settle': async (end, batch) => {
    batch.needs(end.thread_id)
    const sql = `WITH ended AS (${SETTLE_RUN}) ${SETTLE_THREAD} AND EXISTS (SELECT 1 FROM ended)`
    if ((await batch.changes(sql, settledOf(end))) === 0) return false
    for (const job of end.jobs ?? []) await runSteps(batch, putJob(job))
    return true
  }
}
