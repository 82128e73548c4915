// Feedback as rows of both databases: one record per user and run.
import type { Feedback, FeedbackStats } from '../../base/types.ts'
import type { FeedbackReads } from '../store.ts'
import { PRESENT } from './removal.ts'
import { ask, places, type StepReads, type Steps, type StepWrites } from './steps.ts'
import { needsThread } from './threads.ts'

const COLUMNS = 'feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at'
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
  const sql = `SELECT ${COLUMNS} FROM feedback WHERE thread_id = $2 AND run_id = ANY($3) AND ${OWN}`
  const rows = yield* ask<Feedback>(sql, user, threadId, runIds)
  return new Map(rows.map((row) => [row.run_id, row]))
}

const LIST = `SELECT ${COLUMNS} FROM feedback WHERE thread_id = $2 AND run_id = $3 AND ${OWN}
  ORDER BY created_at, feedback_id COLLATE "C" LIMIT ${LIST_MAX}`

export const feedbackReads: StepReads<FeedbackReads> = {
  list: (threadId, runId, user) => ask<Feedback>(LIST, user, threadId, runId),
  stats,
  byRuns
}

export const feedbackWrites: StepWrites<'feedback.upsert' | 'feedback.remove' | 'feedback.removeById'> = {
  *'feedback.upsert'({ feedback }) {
    const { feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at } = feedback
    yield* needsThread(thread_id)
    const sql = `INSERT INTO feedback (${COLUMNS}) VALUES (${places(8)})
      ON CONFLICT (thread_id, run_id, user_id) DO UPDATE SET
        rating = excluded.rating, comment = excluded.comment, message_id = excluded.message_id, created_at = excluded.created_at
      RETURNING ${COLUMNS}`
    const values = [feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at]
    const [row] = yield* ask<Feedback>(sql, ...values)
    return row!
  },

  *'feedback.remove'({ thread_id, run_id, user }) {
    const sql = `DELETE FROM feedback WHERE thread_id = $2 AND run_id = $3 AND ${OWN} RETURNING 1`
    return (yield* ask(sql, user, thread_id, run_id)).length > 0
  },

  *'feedback.removeById'({ feedback_id, thread_id, run_id, user }) {
    const sql = `DELETE FROM feedback WHERE feedback_id = $4 AND thread_id = $2 AND run_id = $3 AND ${OWN} RETURNING 1`
    return (yield* ask(sql, user, thread_id, run_id, feedback_id)).length > 0
  }
}
