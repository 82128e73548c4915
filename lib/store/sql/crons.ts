// Crons as rows of both databases.
import { isDeepStrictEqual } from 'node:util'
import type { Owner } from '../../base/scope.ts'
import type { Cron, JsonObject } from '../../base/types.ts'
import type { CronPatch, CronReads } from '../store.ts'
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

type Stored = string | number | null
const asIs = (value: unknown) => (value ?? null) as Stored
const asJson = (value: unknown) => JSON.stringify(value)

/** What a change may set, in the order of the columns, and how it is stored. */
const CONTENT: readonly {
  of: Exclude<keyof CronPatch, 'next_run_date'>
  column: string
  stored(value: unknown): Stored
}[] = [
  { of: 'thread_id', column: 'thread_id', stored: asIs },
  { of: 'schedule', column: 'schedule', stored: asIs },
  { of: 'timezone', column: 'timezone', stored: asIs },
  { of: 'payload', column: 'payload_json', stored: asJson },
  { of: 'metadata', column: 'metadata_json', stored: asJson },
  { of: 'on_run_completed', column: 'on_run_completed', stored: asIs },
  { of: 'enabled', column: 'enabled', stored: Number },
  { of: 'end_time', column: 'end_time', stored: asIs }
]

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
    const { cron_id, user_id, assistant_id, created_at } = cron
    const given = [cron_id, user_id, assistant_id, ...contentOf(cron), created_at, cron.updated_at]
    yield* ask(`INSERT INTO crons (${STORED}) VALUES (${places(13)})`, ...given)
    yield* setTurn(cron)
    return 'created'
  },

  *'cron.update'({ cron_id, set, user, now }) {
    if (yield* hasOtherWords(cron_id, user, set)) yield* needsNoHold('user', user)
    // Only what is given: a change made at the same time stays.
    const given = CONTENT.filter(({ of }) => set[of] !== undefined)
    const sets = given.map(({ column }, at) => `, ${column} = $${at + 4}`).join('')
    const sql = `UPDATE crons SET updated_at = $3${sets} WHERE cron_id = $2 AND ${ownedBy(1)} RETURNING cron_id`
    const values = given.map(({ of, stored }) => stored(set[of]))
    if ((yield* ask(sql, user, cron_id, now, ...values)).length === 0) return null
    const after = yield* get(cron_id, user)
    if (!after || set.next_run_date === undefined) return after
    const changed = { ...after, next_run_date: set.next_run_date }
    yield* setTurn(changed)
    return changed
  },

  *'cron.remove'({ cron_id, user }) {
    yield* needsNoHold('user', user)
    const sql = `DELETE FROM crons WHERE cron_id = $2 AND ${ownedBy(1)} RETURNING cron_id`
    if ((yield* ask(sql, user, cron_id)).length === 0) return false
    yield* removeJob('turn', cron_id)
    return true
  }
}

/** Who starts the runs is no word of a user, and may be another one. */
const withoutCaller = ({ caller: _, ...rest }: JsonObject) => rest

function* hasOtherWords(cronId: string, user: Owner, { payload, metadata }: CronPatch): Steps<boolean> {
  if (!payload && !metadata) return false
  const before = yield* get(cronId, user)
  if (!before) return false
  const isSame =
    isDeepStrictEqual(withoutCaller(payload ?? before.payload), withoutCaller(before.payload)) &&
    isDeepStrictEqual(metadata ?? before.metadata, before.metadata)
  return !isSame
}

/** Whoever has claimed the turn before is refused. */
function* setTurn({ cron_id: key, user_id, thread_id, next_run_date: due }: Cron): Steps<void> {
  if (due === null) yield* removeJob('turn', key)
  else yield* putJob({ kind: 'turn', key, user_id, thread_id, due, payload: '{}' })
}

function contentOf(cron: Cron) {
  return CONTENT.map(({ of, stored }) => stored(cron[of]))
}
