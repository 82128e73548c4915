// Runs in PostgreSQL.
import type { Run } from '../../types.ts'
import { Refused } from '../refused.ts'
import { PRESENT } from '../sql/removal.ts'
import { COLUMNS, GIVEN, IN_FLIGHT, type RunRow, toRun, toUsage, type UsageRow } from '../sql/runs.ts'
import type { Admission, NewRun, RunReads } from '../store.ts'
import type { Batch } from './batch.ts'
import { type Db, owned, params, visible } from './db.ts'
import type { Writers } from './rows.ts'

function valuesOf(run: Omit<Run, 'key'>) {
  return [
    run.run_id,
    run.thread_id,
    run.user_id,
    run.assistant_id,
    run.status,
    run.ordinal,
    run.model_name,
    run.multitask_strategy,
    JSON.stringify(run.metadata),
    JSON.stringify(run.kwargs),
    run.error,
    run.stop_reason,
    run.follow_up_to_run_id,
    run.first_human_message,
    run.last_ai_message,
    run.total_input_tokens,
    run.total_output_tokens,
    run.total_tokens,
    run.llm_call_count,
    run.lead_agent_tokens,
    run.subagent_tokens,
    run.middleware_tokens,
    run.message_count,
    run.last_cursor,
    run.final_checkpoint_id,
    run.idempotency_key,
    run.idempotency_hash,
    run.created_at,
    run.updated_at
  ]
}

const BY_KEY = `SELECT ${COLUMNS} FROM runs WHERE coalesce(user_id, '') = $1 AND idempotency_key = $2`

export function runReads(db: Db): RunReads {
  return {
    async get(runId, user) {
      const sql = `SELECT ${COLUMNS} FROM runs WHERE run_id = $2 AND ${visible(1)}`
      const [row] = await db.rows<RunRow>(sql, [user, runId])
      return row ? toRun(row) : null
    },
    async byKey(key, userId) {
      const [row] = await db.rows<RunRow>(BY_KEY, [userId ?? '', key])
      return row ? toRun(row) : null
    },
    async list(threadId, { limit, offset, status }, user) {
      const sql = `SELECT ${COLUMNS} FROM runs WHERE thread_id = $2 AND ($3::text IS NULL OR status = $3) AND ${visible(1)}
        ORDER BY ordinal DESC LIMIT $4 OFFSET $5`
      const rows = await db.rows<RunRow>(sql, [user, threadId, status ?? null, limit, offset])
      return rows.map(toRun)
    },
    async after(threadId, ordinal, user) {
      const sql = `SELECT ${COLUMNS} FROM runs WHERE thread_id = $2 AND ordinal > $3 AND ${visible(1)} ORDER BY ordinal LIMIT 1`
      const [row] = await db.rows<RunRow>(sql, [user, threadId, ordinal])
      return row ? toRun(row) : null
    },
    async inFlight(threadId) {
      const sql = `SELECT ${COLUMNS} FROM runs WHERE thread_id = $1 AND ${IN_FLIGHT} AND ${PRESENT} ORDER BY ordinal`
      return (await db.rows<RunRow>(sql, [threadId])).map(toRun)
    },
    async unfinished() {
      return (await db.rows<RunRow>(`SELECT ${COLUMNS} FROM runs WHERE ${IN_FLIGHT} AND ${PRESENT} ORDER BY key`)).map(
        toRun
      )
    },
    async tokens(threadId, user) {
      // Sums of bigint are numeric, which has no end and comes as a text.
      const sql = `SELECT coalesce(model_name, 'unknown') AS model, count(*) AS runs, sum(total_input_tokens)::bigint AS input,
          sum(total_output_tokens)::bigint AS output, sum(total_tokens)::bigint AS total, sum(lead_agent_tokens)::bigint AS lead_agent,
          sum(subagent_tokens)::bigint AS subagent, sum(middleware_tokens)::bigint AS middleware
        FROM runs WHERE thread_id = $2 AND status NOT IN ('pending', 'running') AND ${visible(1)} GROUP BY 1`
      return toUsage(await db.rows<UsageRow>(sql, [user, threadId]))
    }
  }
}

type RunOps = 'run.create' | 'run.start' | 'run.settle'

/** The run that the same key made before, and whether it was asked for with the same body; null: the key is new, or there is none. */
async function repeated(run: NewRun, batch: Batch): Promise<Admission | null> {
  if (run.idempotency_key === null) return null
  const [before] = await batch.rows<RunRow>(BY_KEY, [run.user_id ?? '', run.idempotency_key])
  if (!before) return null
  return before.idempotency_hash === run.idempotency_hash
    ? { outcome: 'repeated', run: toRun(before) }
    : { outcome: 'key_reused' }
}

/** Written at once with the counter of its thread, which stays where it is when the run is not written. Answers the key, or null. */
async function insert(run: Omit<Run, 'key'>, owner: string, batch: Batch): Promise<number | null> {
  const sql = `WITH made AS (
      INSERT INTO runs (${GIVEN}, owner) VALUES (${params(1, 30)}) ON CONFLICT DO NOTHING RETURNING key
    ), counted AS (
      UPDATE threads_meta SET next_ordinal = next_ordinal + 1 WHERE thread_id = $2 AND EXISTS (SELECT 1 FROM made)
    )
    SELECT key FROM made`
  const [made] = await batch.rows<{ key: number }>(sql, [...valuesOf(run), owner])
  return made?.key ?? null
}

export const runWrites: Writers<RunOps> = {
  'run.create': async ({ run, autoFollowUp }, batch) => {
    const { thread_id } = run
    const [earlier, [thread], before, [success]] = await Promise.all([
      repeated(run, batch),
      batch.rows<{ next_ordinal: number }>('SELECT next_ordinal FROM threads_meta WHERE thread_id = $1', [thread_id]),
      batch.rows<{ run_id: string; owner: string | null }>(
        `SELECT run_id, writer_id AS owner FROM runs LEFT JOIN writers ON writer_id = owner
          WHERE thread_id = $1 AND ${IN_FLIGHT} ORDER BY ordinal`,
        [thread_id]
      ),
      batch.rows<{ run_id: string }>(
        `SELECT run_id FROM runs WHERE thread_id = $2 AND status = 'success' AND ${owned(1)} ORDER BY ordinal DESC LIMIT 1`,
        [run.user_id, thread_id]
      )
    ])
    if (earlier) return earlier
    if (!thread) return { outcome: 'thread_missing' }
    if (before.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
    const follow_up_to_run_id = autoFollowUp ? (success?.run_id ?? null) : run.follow_up_to_run_id
    const admitted = { ...run, ordinal: thread.next_ordinal, follow_up_to_run_id }
    // A thread that is busy is one process's, which alone can keep its runs in order [Store 10].
    const owner = before.find((run) => run.owner !== null)?.owner ?? batch.writerId
    const key = await insert(admitted, owner, batch)
    if (key !== null)
      return {
        outcome: 'created',
        run: { ...admitted, key },
        inFlight: before.map(({ run_id }) => run_id),
        owner
      }
    // Somebody was faster: with the same key on another thread, or with the same id.
    const faster = await repeated(run, batch)
    if (faster) return faster
    throw new Refused(`run ${run.run_id} exists already`)
  },

  'run.start': async ({ run_id, thread_id, now }, batch) => {
    batch.needs(thread_id)
    const sql = `WITH started AS (
        UPDATE runs SET status = 'running', updated_at = $3 WHERE run_id = $1 AND status = 'pending' RETURNING 1
      )
      UPDATE threads_meta SET status = 'running', updated_at = $3 WHERE thread_id = $2 AND EXISTS (SELECT 1 FROM started)`
    return (await batch.changes(sql, [run_id, thread_id, now])) > 0
  },

  'run.settle': async (end, batch) => {
    batch.needs(end.thread_id)
    const sql = `WITH ended AS (
        UPDATE runs SET status = $3, error = $4, stop_reason = $5, model_name = coalesce($6, model_name), last_cursor = $7,
          final_checkpoint_id = $8, first_human_message = coalesce($9, first_human_message),
          last_ai_message = coalesce($10, last_ai_message), total_input_tokens = $11, total_output_tokens = $12, total_tokens = $13,
          llm_call_count = $14, lead_agent_tokens = $15, subagent_tokens = $16, middleware_tokens = $17, message_count = $18,
          updated_at = $19
        WHERE run_id = $1 AND ${IN_FLIGHT} RETURNING 1
      )
      UPDATE threads_meta SET status = coalesce($20, status), display_name = coalesce(nullif($21, ''), display_name), updated_at = $19
      WHERE thread_id = $2 AND EXISTS (SELECT 1 FROM ended)`
    const changed = await batch.changes(sql, [
      end.run_id,
      end.thread_id,
      end.status,
      end.error,
      end.stop_reason,
      end.model_name,
      end.last_cursor,
      end.final_checkpoint_id,
      end.first_human_message,
      end.last_ai_message,
      end.total_input_tokens,
      end.total_output_tokens,
      end.total_tokens,
      end.llm_call_count,
      end.lead_agent_tokens,
      end.subagent_tokens,
      end.middleware_tokens,
      end.message_count,
      end.now,
      end.thread_status,
      end.title
    ])
    return changed > 0
  }
}
