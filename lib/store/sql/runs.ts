// Runs as rows of both databases.
import { runNamespace } from '../../conversation/state.ts'
import { type Feedback, type FeedbackStats, NO_TOTALS, type Run, type RunTotals, UNPLACED } from '../../base/types.ts'
import type { Admission, FeedbackReads, NewRun, RunReads, Settlement, TokenUsage } from '../store.ts'
import {
  ask,
  askOne,
  ownedBy,
  type Param,
  parseObject,
  places,
  type RunSteps,
  type Statement,
  type StepReads,
  type Steps,
  type StepWrites,
  visibleTo
} from './steps.ts'
import { needsNoHold } from './holds.ts'
import { needsThread } from './threads.ts'
import { PRESENT } from './removal.ts'

export type RunRow = Omit<Run, 'metadata' | 'kwargs'> & { readonly metadata_json: string; readonly kwargs_json: string }

// The members of an object are those of its type, where it is a literal.
const TOTALS = Object.keys(NO_TOTALS) as (keyof RunTotals)[]

/** Columns an insert sets; the database assigns `key`. */
const GIVEN_NAMES = [
  'run_id',
  'thread_id',
  'user_id',
  'assistant_id',
  'status',
  'ordinal',
  'attempts',
  'model_name',
  'multitask_strategy',
  'metadata_json',
  'kwargs_json',
  'error',
  'stop_reason',
  'follow_up_to_run_id',
  'first_human_message',
  'last_ai_message',
  ...TOTALS,
  'last_cursor',
  'final_checkpoint_id',
  'idempotency_key',
  'idempotency_hash',
  'created_at',
  'updated_at'
] as const satisfies readonly (keyof RunRow)[]
export const COLUMNS = `key, ${GIVEN_NAMES.join(', ')}`

/** Inserts a run. `more`: columns that only one of the databases has. `below`: while its user has fewer in flight; 0: always. */
export function insertRun(
  { metadata, kwargs, ...run }: Omit<Run, 'key'>,
  more: Record<string, Param> = {},
  below = 0
): Statement {
  const row = { metadata_json: JSON.stringify(metadata), kwargs_json: JSON.stringify(kwargs), ...run }
  const params = [...GIVEN_NAMES.map((name) => row[name]), ...Object.values(more)]
  const columns = [...GIVEN_NAMES, ...Object.keys(more)]
  const into = `INSERT INTO runs (${columns.join(', ')})`
  const n = params.length
  if (below === 0 || run.user_id === null) return { sql: `${into} VALUES (${places(n)})`, params }
  const isBelow = `(${inFlightOf(`CAST($${n + 1} AS varchar)`)}) < CAST($${n + 2} AS bigint)`
  return { sql: `${into} SELECT ${places(n)} WHERE ${isBelow}`, params: [...params, run.user_id, below] }
}

/** pending -> running, or the next attempt at a running run: $1 the run, $2 now, $3 the attempt. `more`: further columns. */
export const startRun = (more = '') => `UPDATE runs SET status = 'running', updated_at = $2, attempts = $3${more}
  WHERE run_id = $1 AND (status = 'pending' OR (status = 'running' AND attempts < $3)) RETURNING 1`

export const IN_FLIGHT = "status IN ('pending', 'running')"
const inFlightOf = (user: string) => `SELECT count(*) AS n FROM runs WHERE user_id = ${user} AND ${IN_FLIGHT}`

/** The + makes SQLite use the index on status: by the index on ordinal it would read all runs of the thread. */
const IN_FLIGHT_OF_THREAD = `SELECT ${COLUMNS} FROM runs WHERE thread_id = $1 AND ${IN_FLIGHT} AND ${PRESENT} ORDER BY +ordinal`
const BY_KEY = `SELECT ${COLUMNS} FROM runs WHERE coalesce(user_id, '') = $1 AND idempotency_key = $2`
const GET = `SELECT ${COLUMNS} FROM runs WHERE run_id = $2 AND ${visibleTo(1)}`
/** $1 the user, $2 the thread, $3 a status, $4 a pattern of metadata; either may be null. */
const LISTED = `thread_id = $2 AND (CAST($3 AS text) IS NULL OR status = $3)
  AND (CAST($4 AS text) IS NULL OR metadata_json LIKE $4 ESCAPE '!') AND ${visibleTo(1)}`
const LIST = `SELECT ${COLUMNS} FROM runs WHERE ${LISTED} ORDER BY ordinal DESC LIMIT $5 OFFSET $6`
/** The same with at most about $7 bytes of kwargs per page: after the run that exceeds them, kwargs are empty. */
const LIST_SHORT = `WITH page AS (
    SELECT key, ordinal, octet_length(kwargs_json) AS bytes FROM runs
    WHERE ${LISTED}
    ORDER BY ordinal DESC LIMIT $5 OFFSET $6),
  sized AS (SELECT key AS page_key, sum(bytes) OVER (ORDER BY ordinal DESC) - bytes AS before FROM page)
  SELECT ${['key', ...GIVEN_NAMES.filter((name) => name !== 'kwargs_json')].join(', ')},
    CASE WHEN before < $7 THEN kwargs_json ELSE '{}' END AS kwargs_json
  FROM sized JOIN runs ON key = page_key ORDER BY ordinal DESC`
const AFTER = `SELECT ${COLUMNS} FROM runs WHERE thread_id = $2 AND ordinal > $3 AND ordinal < ${UNPLACED}
    AND ${visibleTo(1)} ORDER BY ordinal LIMIT 1`
const UNFINISHED = `SELECT ${COLUMNS} FROM runs WHERE ${IN_FLIGHT} AND ${visibleTo(1)} ORDER BY key`
const BEGUN = `SELECT ${COLUMNS} FROM runs WHERE key > $2 AND ${visibleTo(1)} ORDER BY key DESC LIMIT $3`
// PostgreSQL sums bigint as numeric, which arrives as text.
const TOKENS = `SELECT coalesce(model_name, 'unknown') AS model, count(*) AS runs,
    CAST(sum(total_input_tokens) AS bigint) AS input, CAST(sum(total_output_tokens) AS bigint) AS output,
    CAST(sum(total_tokens) AS bigint) AS total, CAST(sum(lead_agent_tokens) AS bigint) AS lead_agent,
    CAST(sum(subagent_tokens) AS bigint) AS subagent, CAST(sum(middleware_tokens) AS bigint) AS middleware
  FROM runs WHERE thread_id = $2 AND status NOT IN ('pending', 'running') AND ${visibleTo(1)} GROUP BY 1`

export function runReads(run: RunSteps): RunReads {
  const one = async (sql: string, ...params: Param[]) => {
    const row = await run(askOne<RunRow>(sql, ...params))
    return row ? toRun(row) : null
  }
  const all = async (sql: string, ...params: Param[]) => (await run(ask<RunRow>(sql, ...params))).map(toRun)
  return {
    get: (runId, user) => one(GET, user, runId),
    byKey: (key, userId) => one(BY_KEY, userId ?? '', key),
    list: (threadId, { limit, offset, status = null, metadataKey, kwargsBytes }, user) => {
      const pattern = metadataKey === undefined ? null : keyPattern(metadataKey)
      const page = [user, threadId, status, pattern, limit, offset]
      return kwargsBytes === undefined ? all(LIST, ...page) : all(LIST_SHORT, ...page, kwargsBytes)
    },
    after: (threadId, ordinal, user) => one(AFTER, user, threadId, ordinal),
    inFlight: (threadId) => all(IN_FLIGHT_OF_THREAD, threadId),
    unfinished: (user) => all(UNFINISHED, user),
    begun: async (after, limit, user) => {
      const [last] = await run(ask<{ newest: number }>('SELECT coalesce(max(key), 0) AS newest FROM runs'))
      return { newest: last!.newest, runs: (await all(BEGUN, user, after, limit)).reverse() }
    },
    tokens: async (threadId, user) => toUsage(await run(ask<UsageRow>(TOKENS, user, threadId)))
  }
}

/** JSON text that has a member of this name, for LIKE. */
function keyPattern(key: string): string {
  return `%${JSON.stringify(key).replace(/[!%_]/g, '!$&')}:%`
}

export function* hasRunInFlight(threadId: string): Steps<boolean> {
  const sql = `SELECT 1 AS found FROM runs WHERE thread_id = $1 AND ${IN_FLIGHT} LIMIT 1`
  return (yield* ask(sql, threadId)).length > 0
}

/** Whether a user has so many runs in flight. 0: any. */
export function* hasRuns(userId: string | null, max: number): Steps<boolean> {
  if (max === 0 || userId === null) return false
  return Number((yield* askOne<{ n: number }>(inFlightOf('$1'), userId))!.n) >= max
}

/** Removes one run: its row, frames and feedback. Its messages stay in the thread. */
export const runRemoval: StepWrites<'run.remove'> = {
  *'run.remove'({ run_id, thread_id, user }) {
    yield* needsNoHold('thread', thread_id)
    const sql = `DELETE FROM runs WHERE run_id = $2 AND thread_id = $3 AND status NOT IN ('pending', 'running')
      AND ${ownedBy(1)} RETURNING key`
    const [row] = yield* ask<{ key: number }>(sql, user, run_id, thread_id)
    if (!row) return false
    yield* ask('DELETE FROM frames WHERE run_key = $1', row.key)
    yield* ask('DELETE FROM graph_values WHERE thread_id = $1 AND ns = $2', thread_id, runNamespace(row.key))
    yield* ask('DELETE FROM feedback WHERE run_id = $1', run_id)
    yield* ask('DELETE FROM aliases WHERE run_id = $1', run_id)
    return true
  }
}

/** The run an idempotency key made earlier, and whether its body was the same; null: the key is new, or there is none. */
export function* repeated(run: NewRun): Steps<Admission | null> {
  if (run.idempotency_key === null) return null
  const before = yield* askOne<RunRow>(BY_KEY, run.user_id ?? '', run.idempotency_key)
  if (!before) return null
  return before.idempotency_hash === run.idempotency_hash
    ? { outcome: 'repeated', run: toRun(before) }
    : { outcome: 'key_reused' }
}

/** The last successful run of thread $2 visible to $1. */
export const LATEST_SUCCESS = `SELECT run_id FROM runs WHERE thread_id = $2 AND status = 'success' AND ${ownedBy(1)}
  ORDER BY ordinal DESC LIMIT 1`

/** Columns that a run's end sets. */
const SETTLED = [
  'status',
  'error',
  'stop_reason',
  'model_name',
  'last_cursor',
  'final_checkpoint_id',
  'first_human_message',
  'last_ai_message',
  ...TOTALS
] as const satisfies readonly (keyof Settlement & keyof RunRow)[]
/** Those of them that a null leaves as they are. */
const LEFT_BY_NULL: readonly string[] = ['model_name', 'first_human_message', 'last_ai_message']
const SETS = SETTLED.map((name, at) => {
  const value = `$${at + 6}`
  return `${name} = ${LEFT_BY_NULL.includes(name) ? `coalesce(${value}, ${name})` : value}`
})

/** The last parameter. */
const STORED = `$${SETTLED.length + 6}`

/** Ends a run in flight; parameters are those of `settledOf`, here and in SETTLE_THREAD. */
export const SETTLE_RUN = `UPDATE runs SET ${SETS.join(', ')}, updated_at = $3 WHERE run_id = $1 AND ${IN_FLIGHT} RETURNING 1`
export const SETTLE_THREAD = `UPDATE threads_meta SET status = coalesce($4, status),
    display_name = coalesce(nullif($5, ''), display_name), updated_at = $3, stored_bytes = stored_bytes + ${STORED}
  WHERE thread_id = $2`

export function settledOf(end: Settlement): (string | number | null)[] {
  const { run_id, thread_id, now, thread_status, title, stored_bytes = 0 } = end
  return [run_id, thread_id, now, thread_status, title, ...SETTLED.map((name) => end[name]), stored_bytes]
}

export function toRun({ metadata_json, kwargs_json, ...row }: RunRow): Run {
  return { ...row, metadata: parseObject(metadata_json), kwargs: parseObject(kwargs_json) }
}

/** Sums over the runs of one model. */
type Sums = 'runs' | 'input' | 'output' | 'total' | 'lead_agent' | 'subagent' | 'middleware'
type UsageRow = { readonly model: string } & Readonly<Record<Sums, number>>

function toUsage(rows: readonly UsageRow[]): TokenUsage {
  const sum = (pick: (row: UsageRow) => number) => rows.reduce((total, row) => total + pick(row), 0)
  return {
    total_tokens: sum((row) => row.total),
    total_input_tokens: sum((row) => row.input),
    total_output_tokens: sum((row) => row.output),
    total_runs: sum((row) => row.runs),
    by_model: Object.fromEntries(rows.map((row) => [row.model, { tokens: row.total, runs: row.runs }])),
    by_caller: {
      lead_agent: sum((row) => row.lead_agent),
      subagent: sum((row) => row.subagent),
      middleware: sum((row) => row.middleware)
    }
  }
}

// ----------------------------------------------- Feedback as rows of both databases: one record per user and run

const FEEDBACK_COLUMNS = 'feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at'
/** Own records only: feedback on a shared thread still belongs to its author. */
const OWN = `(CAST($1 AS text) IS NULL OR user_id = $1) AND ${PRESENT}`
const LIST_MAX = 100

function* stats(threadId: string, runId: string): Steps<FeedbackStats> {
  const sql = `SELECT count(*) AS total, count(*) FILTER (WHERE rating = 1) AS positive,
    count(*) FILTER (WHERE rating = -1) AS negative FROM feedback WHERE thread_id = $1 AND run_id = $2 AND ${PRESENT}`
  const [row] = yield* ask<FeedbackStats>(sql, threadId, runId)
  return row!
}

function* byRuns(threadId: string, runIds: readonly string[], user: string | null): Steps<Map<string, Feedback>> {
  const sql = `SELECT ${FEEDBACK_COLUMNS} FROM feedback WHERE thread_id = $2 AND run_id = ANY($3) AND ${OWN}`
  const rows = yield* ask<Feedback>(sql, user, threadId, runIds)
  return new Map(rows.map((row) => [row.run_id, row]))
}

const LIST_FEEDBACK = `SELECT ${FEEDBACK_COLUMNS} FROM feedback WHERE thread_id = $2 AND run_id = $3 AND ${OWN}
  ORDER BY created_at, feedback_id COLLATE "C" LIMIT ${LIST_MAX}`

const NEWEST_FEEDBACK = `SELECT ${FEEDBACK_COLUMNS} FROM feedback WHERE ${PRESENT}
  ORDER BY created_at DESC, feedback_id COLLATE "C" DESC LIMIT $1`

export const feedbackReads: StepReads<FeedbackReads> = {
  list: (threadId, runId, user) => ask<Feedback>(LIST_FEEDBACK, user, threadId, runId),
  stats,
  byRuns,
  newest: (limit) => ask<Feedback>(NEWEST_FEEDBACK, limit)
}

export const feedbackWrites: StepWrites<'feedback.upsert' | 'feedback.remove' | 'feedback.removeById'> = {
  *'feedback.upsert'({ feedback }) {
    const { feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at } = feedback
    yield* needsThread(thread_id)
    const replaced = `SELECT 1 FROM feedback WHERE thread_id = $1 AND run_id = $2 AND user_id = $3
      AND NOT (rating = $4 AND coalesce(comment, '') = $5)`
    if ((yield* ask(replaced, thread_id, run_id, user_id, rating, comment ?? '')).length > 0)
      yield* needsNoHold('thread', thread_id)
    const sql = `INSERT INTO feedback (${FEEDBACK_COLUMNS}) VALUES (${places(8)})
      ON CONFLICT (thread_id, run_id, user_id) DO UPDATE SET
        rating = excluded.rating, comment = excluded.comment, message_id = excluded.message_id, created_at = excluded.created_at
      RETURNING ${FEEDBACK_COLUMNS}`
    const values = [feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at]
    const [row] = yield* ask<Feedback>(sql, ...values)
    return row!
  },

  *'feedback.remove'({ thread_id, run_id, user }) {
    yield* needsNoHold('thread', thread_id)
    const sql = `DELETE FROM feedback WHERE thread_id = $2 AND run_id = $3 AND ${OWN} RETURNING 1`
    return (yield* ask(sql, user, thread_id, run_id)).length > 0
  },

  *'feedback.removeById'({ feedback_id, thread_id, run_id, user }) {
    yield* needsNoHold('thread', thread_id)
    const sql = `DELETE FROM feedback WHERE feedback_id = $4 AND thread_id = $2 AND run_id = $3 AND ${OWN} RETURNING 1`
    return (yield* ask(sql, user, thread_id, run_id, feedback_id)).length > 0
  }
}
