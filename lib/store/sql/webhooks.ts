// Webhooks as rows of both databases. A row is written before its run, so that none is lost, and becomes due when the run has ended.
import { type Timestamp, timestamp } from '../../types.ts'
import { FULL_MAX } from '../ports/webhooks.ts'
import type { Webhook, WebhookReads } from '../store.ts'
import { PRESENT } from './removal.ts'
import { ask, type StepReads, type Steps, type StepWrites } from './steps.ts'

/** $1: now. */
const DUE = `next_at <= $1 AND (payload IS NOT NULL OR EXISTS (SELECT 1 FROM runs WHERE runs.run_id = webhooks.run_id
  AND status NOT IN ('pending', 'running') AND ${PRESENT}))`
/** Webhooks without a user count as one user's. */
const OWNER = `COALESCE(user_id, '')`
/** How long a webhook without a run is kept. */
const ORPHAN_MS = 3_600_000

function* areDue(now: Timestamp): Steps<boolean> {
  return (yield* ask(`SELECT 1 AS one FROM webhooks WHERE ${DUE} LIMIT 1`, now)).length > 0
}

export const webhookReads: StepReads<WebhookReads> = { areDue }

type WebhookOps = 'webhook.add' | 'webhook.prepare' | 'webhook.claim' | 'webhook.retry' | 'webhook.remove'

export const webhookWrites: StepWrites<WebhookOps> = {
  *'webhook.add'({ run_id, user_id, url, now }) {
    const sql = 'INSERT INTO webhooks (run_id, user_id, url, attempts, next_at) VALUES ($1, $2, $3, 0, $4)'
    yield* ask(sql, run_id, user_id, url, now)
    return null
  },

  *'webhook.prepare'({ run_id, payload }) {
    yield* ask('UPDATE webhooks SET payload = $2 WHERE run_id = $1', run_id, payload)
    return null
  },

  *'webhook.claim'({ now, until, limit, full }) {
    const orphans = `DELETE FROM webhooks WHERE next_at <= $1 AND payload IS NULL
      AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = webhooks.run_id AND ${PRESENT})`
    yield* ask(orphans, timestamp(Date.parse(now) - ORPHAN_MS))
    // The condition is repeated: of two processes that found the same row, the second rechecks it when the first is done.
    const sql = `UPDATE webhooks SET attempts = attempts + 1, next_at = $2 WHERE next_at <= $1 AND run_id IN (
        SELECT run_id FROM (
          SELECT run_id, next_at, ROW_NUMBER() OVER (PARTITION BY ${OWNER} ORDER BY next_at, run_id) AS turn
          FROM webhooks WHERE ${DUE} AND ${OWNER} NOT IN ($4, $5, $6, $7)) AS due
        WHERE turn = 1 ORDER BY next_at LIMIT $3)
      RETURNING run_id, user_id, url, attempts, payload`
    // No user has this id.
    const none = Array.from({ length: FULL_MAX }, (_, n) => (n < full.length ? (full[n] ?? '') : '-'))
    return [...(yield* ask<Webhook>(sql, now, until, limit, ...none))]
  },

  *'webhook.retry'({ run_id, at }) {
    yield* ask('UPDATE webhooks SET next_at = $2 WHERE run_id = $1', run_id, at)
    return null
  },

  *'webhook.remove'({ run_id }) {
    yield* ask('DELETE FROM webhooks WHERE run_id = $1', run_id)
    return null
  }
}
