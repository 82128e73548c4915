// Feedback in SQLite: one record a user and run.
import type Database from 'better-sqlite3'
import type { Feedback, FeedbackStats } from '../../types.ts'
import { Refused } from '../refused.ts'
import { PRESENT } from '../sql/removal.ts'
import type { FeedbackReads } from '../store.ts'
import { ORIGINS, originsIn, originsParams, type OriginsParams } from './origins.ts'
import type { Writers } from './rows.ts'

const NAMES = ['feedback_id', 'run_id', 'thread_id', 'user_id', 'message_id', 'rating', 'comment', 'created_at']
const COLUMNS = NAMES.join(', ')
/** Own records only: feedback on a shared thread is still its author's, so rows of others never match. */
const OWN = `(@owner IS NULL OR user_id = @owner) AND ${PRESENT}`
const LIST_MAX = 100

export function feedbackReads(db: Database.Database): FeedbackReads {
  const list = db.prepare<{ thread: string; run: string; owner: string | null }, Feedback>(
    `SELECT ${COLUMNS} FROM feedback WHERE thread_id = @thread AND run_id = @run AND ${OWN} ORDER BY created_at, feedback_id LIMIT ${LIST_MAX}`
  )
  const stats = db.prepare<[string, string], FeedbackStats>(
    `SELECT count(*) AS total, coalesce(sum(rating = 1), 0) AS positive, coalesce(sum(rating = -1), 0) AS negative
     FROM feedback WHERE thread_id = ? AND run_id = ? AND ${PRESENT}`
  )
  const byRuns = db.prepare<{ thread: string; runs: string; owner: string | null }, Feedback>(
    `SELECT ${COLUMNS} FROM feedback WHERE thread_id = @thread AND run_id IN (SELECT value FROM json_each(@runs)) AND ${OWN}`
  )
  const beside = db.prepare<OriginsParams, { origins: string; feedback: string }>(
    `SELECT ${ORIGINS} AS origins,
       (SELECT json_group_array(json_object(${NAMES.map((name) => `'${name}', ${name}`)}))
        FROM feedback WHERE thread_id = @thread AND ${OWN}) AS feedback`
  )
  return {
    async list(threadId, runId, user) {
      return list.all({ thread: threadId, run: runId, owner: user })
    },
    async stats(threadId, runId) {
      return stats.get(threadId, runId) ?? { total: 0, positive: 0, negative: 0 }
    },
    async byRuns(threadId, runIds, user) {
      const rows = byRuns.all({
        thread: threadId,
        runs: JSON.stringify(runIds),
        owner: user
      })
      return new Map(rows.map((row) => [row.run_id, row]))
    },
    async besideMessages(threadId, messageIds, owner) {
      // A statement of expressions alone has one row.
      const found = beside.get(originsParams(threadId, messageIds, owner))!
      const origins = originsIn(found.origins, messageIds)
      // Made by the statement, of the columns of a Feedback.
      const given = JSON.parse(found.feedback) as Feedback[]
      const runs = new Set(given.length > 0 ? [...origins.values()].map(({ run_id }) => run_id) : [])
      const feedback = new Map(given.filter(({ run_id }) => runs.has(run_id)).map((one) => [one.run_id, one]))
      return { origins, feedback }
    }
  }
}

type FeedbackOps = 'feedback.upsert' | 'feedback.remove' | 'feedback.removeById'

export function feedbackWrites(db: Database.Database): Writers<FeedbackOps> {
  const threadExists = db.prepare('SELECT 1 FROM threads_meta WHERE thread_id = ?')
  const upsert = db.prepare<[Feedback], Feedback>(`
    INSERT INTO feedback (${COLUMNS})
    VALUES (@feedback_id, @run_id, @thread_id, @user_id, @message_id, @rating, @comment, @created_at)
    ON CONFLICT (thread_id, run_id, user_id) DO UPDATE SET
      rating = excluded.rating, comment = excluded.comment, message_id = excluded.message_id, created_at = excluded.created_at
    RETURNING ${COLUMNS}`)
  const remove = db.prepare(`DELETE FROM feedback WHERE thread_id = @thread AND run_id = @run AND ${OWN}`)
  const removeById = db.prepare(
    `DELETE FROM feedback WHERE feedback_id = @id AND thread_id = @thread AND run_id = @run AND ${OWN}`
  )
  return {
    'feedback.upsert': ({ feedback }) => {
      if (!threadExists.get(feedback.thread_id)) throw new Refused(`thread ${feedback.thread_id} is gone`)
      return upsert.get(feedback)!
    },
    'feedback.remove': ({ thread_id, run_id, user }) =>
      remove.run({ thread: thread_id, run: run_id, owner: user }).changes > 0,
    'feedback.removeById': ({ feedback_id, thread_id, run_id, user }) =>
      removeById.run({ id: feedback_id, thread: thread_id, run: run_id, owner: user }).changes > 0
  }
}
