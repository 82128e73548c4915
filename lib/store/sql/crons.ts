// Crons as rows of both databases.
import type { Owner } from '../../base/scope.ts'
import type { Cron } from '../../base/types.ts'
import type { CronReads } from '../store.ts'
import { needsNoHold } from './holds.ts'
import { putJob, removeJob } from './jobs.ts'
import { ask, ownedBy, places, type StepReads, type Steps, type StepWrites, withObjects } from './steps.ts'

type CronRow = Omit<Cron, 'payload' | 'metadata' | 'enabled'> & {
  readonly payload_json: string
  readonly metadata_json: string
  readonly enabled: number
}

const STORED = `cron_id, user_id, assistant_id, thread_id, schedule, timezone, payload_json, metadata_json, on_run_completed, enabled,
  end_time, created_at, updated_at`
/** The next turn is a job: its time stands there alone. */
const COLUMNS = `${STORED}, (SELECT due_at FROM jobs WHERE kind = 'turn' AND key = cron_id) AS next_run_date`

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

export const cronReads: StepReads<CronReads> = { get, list }

type CronOps = 'cron.create' | 'cron.update' | 'cron.remove'

export const cronWrites: StepWrites<CronOps> = {
  *'cron.create'({ cron, max }) {
    const [counted] = yield* ask<{ total: number }>(
      'SELECT count(*) AS total FROM crons WHERE user_id = $1',
      cron.user_id
    )
    if (Number(counted?.total) >= max) return 'too_many'
    const { cron_id, user_id, assistant_id, thread_id, created_at } = cron
    const given = [cron_id, user_id, assistant_id, thread_id, ...contentOf(cron), created_at, cron.updated_at]
    yield* ask(`INSERT INTO crons (${STORED}) VALUES (${places(13)})`, ...given)
    yield* setTurn(cron)
    return 'created'
  },

  *'cron.update'({ cron_id, set, user, now }) {
    const before = yield* get(cron_id, user)
    if (!before) return null
    const after: Cron = { ...before, ...set, updated_at: now }
    yield* ask(
      `UPDATE crons SET schedule = $1, timezone = $2, payload_json = $3, metadata_json = $4, on_run_completed = $5, enabled = $6,
         end_time = $7, updated_at = $8 WHERE cron_id = $9`,
      ...contentOf(after),
      now,
      cron_id
    )
    if (set.next_run_date !== undefined) yield* setTurn(after)
    return after
  },

  *'cron.remove'({ cron_id, user }) {
    yield* needsNoHold('user', user)
    const sql = `DELETE FROM crons WHERE cron_id = $2 AND ${ownedBy(1)} RETURNING cron_id`
    if ((yield* ask(sql, user, cron_id)).length === 0) return false
    yield* removeJob('turn', cron_id)
    return true
  }
}

/** Whoever has claimed the turn before is refused. */
function* setTurn({ cron_id: key, user_id, thread_id, next_run_date: due }: Cron): Steps<void> {
  if (due === null) yield* removeJob('turn', key)
  else yield* putJob({ kind: 'turn', key, user_id, thread_id, due, payload: '{}' })
}

function contentOf({ schedule, timezone, payload, metadata, on_run_completed, enabled, end_time }: Cron) {
  const jsons = [JSON.stringify(payload), JSON.stringify(metadata)]
  return [schedule, timezone, ...jsons, on_run_completed, enabled ? 1 : 0, end_time]
}
