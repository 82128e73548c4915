// Feedback in PostgreSQL: one record a user and run.
import type { Feedback, FeedbackStats } from '../../types.ts'
import { PRESENT } from '../sql/removal.ts'
import type { FeedbackReads, MessageOrigin } from '../store.ts'
import { ORIGINS } from './events.ts'
import { type Db, params } from './db.ts'
import type { Writers } from './rows.ts'
import { texts } from './text.ts'

const COLUMNS = 'feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at'
/** Own records only: feedback on a shared thread is still its author's, so rows of others never match. */
const OWN = `($1::text IS NULL OR user_id = $1) AND ${PRESENT}`
const LIST_MAX = 100

/** The feedback is null, every column of it, where there is none. */
interface BesideRow extends Feedback {
  readonly said_id: string
  readonly said_in: string
  readonly event_type: string
}

const BESIDE = `
  WITH said AS (${ORIGINS}), own AS (SELECT ${COLUMNS} FROM feedback WHERE thread_id = $2 AND ${OWN})
  SELECT said.message_id AS said_id, said.run_id AS said_in, event_type, own.*
  FROM said LEFT JOIN own ON own.run_id = said.run_id ORDER BY seq`

export function feedbackReads(db: Db): FeedbackReads {
  return {
    async list(threadId, runId, user) {
      const sql = `SELECT ${COLUMNS} FROM feedback WHERE thread_id = $2 AND run_id = $3 AND ${OWN}
        ORDER BY created_at, feedback_id COLLATE "C" LIMIT ${LIST_MAX}`
      return db.rows<Feedback>(sql, [user, threadId, runId])
    },
    async stats(threadId, runId) {
      const sql = `SELECT count(*) AS total, count(*) FILTER (WHERE rating = 1) AS positive,
        count(*) FILTER (WHERE rating = -1) AS negative FROM feedback WHERE thread_id = $1 AND run_id = $2 AND ${PRESENT}`
      const [row] = await db.rows<FeedbackStats>(sql, [threadId, runId])
      return row ?? { total: 0, positive: 0, negative: 0 }
    },
    async byRuns(threadId, runIds, user) {
      const sql = `SELECT ${COLUMNS} FROM feedback WHERE thread_id = $2 AND run_id = ANY($3::text[]) AND ${OWN}`
      const rows = await db.rows<Feedback>(sql, [user, threadId, texts(runIds)])
      return new Map(rows.map((row) => [row.run_id, row]))
    },
    async besideMessages(threadId, messageIds, owner) {
      const rows = await db.rows<BesideRow>(BESIDE, [owner, threadId, texts(messageIds)])
      const origins = new Map<string, MessageOrigin>()
      const feedback = new Map<string, Feedback>()
      for (const { said_id, said_in, event_type, ...own } of rows) {
        origins.set(said_id, { run_id: said_in, event_type })
        if (own.feedback_id !== null) feedback.set(said_in, own)
      }
      return { origins, feedback }
    }
  }
}

type FeedbackOps = 'feedback.upsert' | 'feedback.remove' | 'feedback.removeById'

export const feedbackWrites: Writers<FeedbackOps> = {
  'feedback.upsert': async ({ feedback }, batch) => {
    const { feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at } = feedback
    batch.needs(thread_id)
    const sql = `INSERT INTO feedback (${COLUMNS}) VALUES (${params(1, 8)})
      ON CONFLICT (thread_id, run_id, user_id) DO UPDATE SET
        rating = excluded.rating, comment = excluded.comment, message_id = excluded.message_id, created_at = excluded.created_at
      RETURNING ${COLUMNS}`
    const values = [feedback_id, run_id, thread_id, user_id, message_id, rating, comment, created_at]
    const [row] = await batch.rows<Feedback>(sql, values)
    return row!
  },
  'feedback.remove': async ({ thread_id, run_id, user }, batch) => {
    const sql = `DELETE FROM feedback WHERE thread_id = $2 AND run_id = $3 AND ${OWN}`
    return (await batch.changes(sql, [user, thread_id, run_id])) > 0
  },
  'feedback.removeById': async ({ feedback_id, thread_id, run_id, user }, batch) => {
    const sql = `DELETE FROM feedback WHERE feedback_id = $4 AND thread_id = $2 AND run_id = $3 AND ${OWN}`
    return (await batch.changes(sql, [user, thread_id, run_id, feedback_id])) > 0
  }
}
