// Crons as rows of both databases.
import type { Owner } from '../../scope.ts'
import type { Cron, Timestamp } from '../../types.ts'
import type { CronReads } from '../store.ts'
import { withObjects } from './json.ts'
import { ask, ownedBy, places, type StepReads, type Steps, type StepWrites } from './steps.ts'

type CronRow = Omit<Cron, 'payload' | 'metadata' | 'enabled'> & {
  readonly payload_json: string
  readonly metadata_json: string
  readonly enabled: number
}

const COLUMNS = `cron_id, user_id, assistant_id, thread_id, schedule, timezone, payload_json, metadata_json, on_run_completed, enabled,
  end_time, next_run_date, created_at, updated_at`

/** $1: now. Unclaimed, or the claim has expired. */
const DUE = 'enabled = 1 AND next_run_date <= $1 AND (claimed_until IS NULL OR claimed_until <= $1)'

function toCron({ payload_json, metadata_json, enabled, ...row }: CronRow): Cron {
  return withObjects({ ...row, enabled: enabled === 1 }, { payload: payload_json, metadata: metadata_json })
}

function* get(cronId: string, owner: Owner): Steps<Cron | null> {
  const [row] = yield* ask<CronRow>(`SELECT ${COLUMNS} FROM crons WHERE cron_id = $2 AND ${ownedBy(1)}`, owner, cronId)
  return row ? toCron(row) : null
}

function* list(owner: Owner): Steps<Cron[]> {
  const sql = `SELECT ${COLUMNS} FROM crons WHERE ${ownedBy(1)} ORDER BY created_at DESC, cron_id DESC`
  return (yield* ask<CronRow>(sql, owner)).map(toCron)
}

function* areDue(now: Timestamp): Steps<boolean> {
  return (yield* ask(`SELECT 1 AS one FROM crons WHERE ${DUE} LIMIT 1`, now)).length > 0
}

export const cronReads: StepReads<CronReads> = { get, list, areDue }

type CronOps = 'cron.create' | 'cron.update' | 'cron.remove' | 'cron.claim' | 'cron.advance'

export const cronWrites: StepWrites<CronOps> = {
  *'cron.create'({ cron, max }) {
    const [counted] = yield* ask<{ total: number }>(
      'SELECT count(*) AS total FROM crons WHERE user_id = $1',
      cron.user_id
    )
    if (Number(counted?.total) >= max) return 'too_many'
    const { cron_id, user_id, assistant_id, thread_id, created_at } = cron
    const given = [cron_id, user_id, assistant_id, thread_id, ...contentOf(cron), created_at, cron.updated_at]
    yield* ask(`INSERT INTO crons (${COLUMNS}) VALUES (${places(14)})`, ...given)
    return 'created'
  },

  *'cron.update'({ cron_id, set, user, now }) {
    const before = yield* get(cron_id, user)
    if (!before) return null
    const after: Cron = { ...before, ...set, updated_at: now }
    // A process that has claimed it sees a changed time and leaves it.
    yield* ask(
      `UPDATE crons SET schedule = $1, timezone = $2, payload_json = $3, metadata_json = $4, on_run_completed = $5, enabled = $6,
         end_time = $7, next_run_date = $8, updated_at = $9, claimed_until = NULL WHERE cron_id = $10`,
      ...contentOf(after),
      now,
      cron_id
    )
    return after
  },

  *'cron.remove'({ cron_id, user }) {
    const sql = `DELETE FROM crons WHERE cron_id = $2 AND ${ownedBy(1)} RETURNING cron_id`
    return (yield* ask(sql, user, cron_id)).length > 0
  },

  *'cron.claim'({ now, until, limit }) {
    // The condition is repeated: of two processes that found the same row, the second rechecks it when the first is done.
    const sql = `UPDATE crons SET claimed_until = $2 WHERE ${DUE} AND cron_id IN (
        SELECT cron_id FROM crons WHERE ${DUE} ORDER BY next_run_date LIMIT $3)
      RETURNING ${COLUMNS}`
    return (yield* ask<CronRow>(sql, now, until, limit)).map(toCron)
  },

  *'cron.advance'({ cron_id, from, to }) {
    const sql = `UPDATE crons SET next_run_date = $3, claimed_until = NULL
      WHERE cron_id = $1 AND next_run_date = $2 RETURNING cron_id`
    return (yield* ask(sql, cron_id, from, to)).length > 0
  }
}

function contentOf({
  schedule,
  timezone,
  payload,
  metadata,
  on_run_completed,
  enabled,
  end_time,
  next_run_date
}: Cron) {
  const jsons = [JSON.stringify(payload), JSON.stringify(metadata)]
  return [schedule, timezone, ...jsons, on_run_completed, enabled ? 1 : 0, end_time, next_run_date]
}
