// Runs in SQLite.
import type Database from 'better-sqlite3'
import type { RunStatus } from '../../types.ts'
import { Refused } from '../refused.ts'
import { PRESENT } from '../sql/removal.ts'
import { COLUMNS, IN_FLIGHT, type RunRow, toRun, toUsage, type UsageRow } from '../sql/runs.ts'
import type { Admission, NewRun, RunReads } from '../store.ts'
import { OWNED, VISIBLE, type Writers } from './rows.ts'

/** By the index of the status, hence the +: in the order of the other index all runs of the thread would be read. */
export const IN_FLIGHT_OF_THREAD = `thread_id = ? AND ${IN_FLIGHT} AND ${PRESENT} ORDER BY +ordinal`

const BY_KEY = `SELECT ${COLUMNS} FROM runs WHERE coalesce(user_id, '') = ? AND idempotency_key = ?`

export function runReads(db: Database.Database): RunReads {
  const get = db.prepare<{ id: string; owner: string | null }, RunRow>(
    `SELECT ${COLUMNS} FROM runs WHERE run_id = @id AND ${VISIBLE}`
  )
  const list = db.prepare<
    { thread: string; status: RunStatus | null; limit: number; offset: number; owner: string | null },
    RunRow
  >(
    `SELECT ${COLUMNS} FROM runs WHERE thread_id = @thread AND (@status IS NULL OR status = @status) AND ${VISIBLE}
     ORDER BY ordinal DESC LIMIT @limit OFFSET @offset`
  )
  const after = db.prepare<{ thread: string; ordinal: number; owner: string | null }, RunRow>(
    `SELECT ${COLUMNS} FROM runs WHERE thread_id = @thread AND ordinal > @ordinal AND ${VISIBLE} ORDER BY ordinal LIMIT 1`
  )
  const byKey = db.prepare<[string, string], RunRow>(BY_KEY)
  const inFlight = db.prepare<[string], RunRow>(`SELECT ${COLUMNS} FROM runs WHERE ${IN_FLIGHT_OF_THREAD}`)
  const unfinished = db.prepare<[], RunRow>(
    `SELECT ${COLUMNS} FROM runs WHERE ${IN_FLIGHT} AND ${PRESENT} ORDER BY key`
  )
  const tokens = db.prepare<{ thread: string; owner: string | null }, UsageRow>(`
    SELECT coalesce(model_name, 'unknown') AS model, count(*) AS runs, sum(total_input_tokens) AS input, sum(total_output_tokens) AS output,
      sum(total_tokens) AS total, sum(lead_agent_tokens) AS lead_agent, sum(subagent_tokens) AS subagent, sum(middleware_tokens) AS middleware
    FROM runs WHERE thread_id = @thread AND status NOT IN ('pending', 'running') AND ${VISIBLE} GROUP BY 1`)
  return {
    async get(runId, user) {
      const row = get.get({ id: runId, owner: user })
      return row ? toRun(row) : null
    },
    async byKey(key, userId) {
      const row = byKey.get(userId ?? '', key)
      return row ? toRun(row) : null
    },
    async list(threadId, page, user) {
      const { limit, offset, status } = page
      return list.all({ thread: threadId, status: status ?? null, limit, offset, owner: user }).map(toRun)
    },
    async after(threadId, ordinal, user) {
      const row = after.get({ thread: threadId, ordinal, owner: user })
      return row ? toRun(row) : null
    },
    async inFlight(threadId) {
      return inFlight.all(threadId).map(toRun)
    },
    async unfinished() {
      return unfinished.all().map(toRun)
    },
    async tokens(threadId, user) {
      return toUsage(tokens.all({ thread: threadId, owner: user }))
    }
  }
}

type RunOps = 'run.create' | 'run.start' | 'run.settle'

export function runWrites(db: Database.Database): Writers<RunOps> {
  const nextOrdinal = db.prepare<[string], { ordinal: number }>(
    'UPDATE threads_meta SET next_ordinal = next_ordinal + 1 WHERE thread_id = ? RETURNING next_ordinal - 1 AS ordinal'
  )
  const threadExists = db.prepare('SELECT 1 FROM threads_meta WHERE thread_id = ?')
  const inFlight = db.prepare<[string], { run_id: string }>(`SELECT run_id FROM runs WHERE ${IN_FLIGHT_OF_THREAD}`)
  const byKey = db.prepare<[string, string], RunRow>(BY_KEY)
  const latestSuccess = db.prepare<{ thread: string; owner: string | null }, { run_id: string }>(
    `SELECT run_id FROM runs WHERE thread_id = @thread AND status = 'success' AND ${OWNED} ORDER BY ordinal DESC LIMIT 1`
  )
  const insert = db.prepare(`
    INSERT INTO runs (run_id, thread_id, user_id, assistant_id, status, ordinal, model_name, multitask_strategy, metadata_json, kwargs_json,
      error, stop_reason, follow_up_to_run_id, first_human_message, last_ai_message, total_input_tokens, total_output_tokens,
      total_tokens, llm_call_count, lead_agent_tokens, subagent_tokens, middleware_tokens, message_count, last_cursor,
      final_checkpoint_id, idempotency_key, idempotency_hash, created_at, updated_at)
    VALUES (@run_id, @thread_id, @user_id, @assistant_id, @status, @ordinal, @model_name, @multitask_strategy, @metadata_json, @kwargs_json,
      @error, @stop_reason, @follow_up_to_run_id, @first_human_message, @last_ai_message, @total_input_tokens, @total_output_tokens,
      @total_tokens, @llm_call_count, @lead_agent_tokens, @subagent_tokens, @middleware_tokens, @message_count, @last_cursor,
      @final_checkpoint_id, @idempotency_key, @idempotency_hash, @created_at, @updated_at)`)
  const start = db.prepare("UPDATE runs SET status = 'running', updated_at = ? WHERE run_id = ? AND status = 'pending'")
  const threadStatus = db.prepare('UPDATE threads_meta SET status = ?, updated_at = ? WHERE thread_id = ?')
  const settle = db.prepare(`
    UPDATE runs SET status = @status, error = @error, stop_reason = @stop_reason, model_name = coalesce(@model_name, model_name),
      last_cursor = @last_cursor, final_checkpoint_id = @final_checkpoint_id,
      first_human_message = coalesce(@first_human_message, first_human_message), last_ai_message = coalesce(@last_ai_message, last_ai_message),
      total_input_tokens = @total_input_tokens, total_output_tokens = @total_output_tokens, total_tokens = @total_tokens,
      llm_call_count = @llm_call_count, lead_agent_tokens = @lead_agent_tokens, subagent_tokens = @subagent_tokens,
      middleware_tokens = @middleware_tokens, message_count = @message_count, updated_at = @now
    WHERE run_id = @run_id AND ${IN_FLIGHT}`)
  const settleThread = db.prepare(`
    UPDATE threads_meta SET status = coalesce(@thread_status, status), display_name = coalesce(nullif(@title, ''), display_name), updated_at = @now
    WHERE thread_id = @thread_id`)

  const requireThread = (threadId: string): void => {
    if (!threadExists.get(threadId)) throw new Refused(`thread ${threadId} is gone`)
  }
  const repeated = (run: NewRun): Admission | null => {
    if (run.idempotency_key === null) return null
    const before = byKey.get(run.user_id ?? '', run.idempotency_key)
    if (!before) return null
    return before.idempotency_hash === run.idempotency_hash
      ? { outcome: 'repeated', run: toRun(before) }
      : { outcome: 'key_reused' }
  }

  return {
    'run.create': ({ run, autoFollowUp }) => {
      const earlier = repeated(run)
      if (earlier) return earlier
      if (!threadExists.get(run.thread_id)) return { outcome: 'thread_missing' }
      const before = inFlight.all(run.thread_id).map((row) => row.run_id)
      if (before.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
      const followUp = autoFollowUp
        ? (latestSuccess.get({ thread: run.thread_id, owner: run.user_id })?.run_id ?? null)
        : run.follow_up_to_run_id
      const ordinal = nextOrdinal.get(run.thread_id)!.ordinal
      const admitted = { ordinal, ...run, follow_up_to_run_id: followUp }
      const { metadata, kwargs, ...row } = admitted
      const { lastInsertRowid } = insert.run({
        metadata_json: JSON.stringify(metadata),
        kwargs_json: JSON.stringify(kwargs),
        ...row
      })
      return { outcome: 'created', run: { key: Number(lastInsertRowid), ...admitted }, inFlight: before }
    },
    'run.start': ({ run_id, thread_id, now }) => {
      requireThread(thread_id)
      if (start.run(now, run_id).changes === 0) return false
      threadStatus.run('running', now, thread_id)
      return true
    },
    'run.settle': (settlement) => {
      requireThread(settlement.thread_id)
      const { name: _, thread_status, title, thread_id, ...row } = settlement
      if (settle.run(row).changes === 0) return false
      settleThread.run({ thread_status, title, thread_id, now: settlement.now })
      return true
    }
  }
}
