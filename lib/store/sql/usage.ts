// Sums of usage as rows of both databases: one by day, user, agent and model. '' stands for none, because a key has no NULL.
import type { Settlement, UsageKey, UsageReads, UsageRow, UsageSums } from '../store.ts'
import { quotaUse } from './quotas.ts'
import { ask, askOne, type Param, places, type StepReads, type Steps } from './steps.ts'

const SUMS = ['runs', 'input_tokens', 'output_tokens', 'total_tokens', 'money_micros'] as const
const KEYS = 'day, user_id, agent, model'
const COLUMNS = `${KEYS}, ${SUMS.join(', ')}`
const TOTALS = SUMS.map((name) => `CAST(sum(${name}) AS bigint)`).join(', ')
const ADDED = `ON CONFLICT (${KEYS}) DO UPDATE SET
  ${SUMS.map((name) => `${name} = usage_sums.${name} + excluded.${name}`).join(', ')}`

/** `rows`: VALUES, or a SELECT with a WHERE. */
const add = (rows: string) => `INSERT INTO usage_sums (${COLUMNS}) ${rows} ${ADDED}`

/** A row to add: the key, then the sums. */
export type UsageAddition = readonly [
  day: string,
  userId: string,
  agent: string,
  model: string,
  ...sums: [number, number, number, number, number]
]

/** What a run's end adds. */
export function additionsOf({ usage, now }: Settlement): UsageAddition[] {
  if (!usage) return []
  const day = now.slice(0, 10)
  return usage.models.map((one, at) => [
    day,
    usage.user_id ?? '',
    usage.agent ?? '',
    one.model,
    at === 0 ? 1 : 0,
    one.input_tokens,
    one.output_tokens,
    one.total_tokens,
    one.money_micros
  ])
}

const ADD_ONE = add(`VALUES (${places(9)})`)

export function* addUsage(additions: readonly UsageAddition[]): Steps<void> {
  for (const addition of additions) yield* ask(ADD_ONE, ...addition)
}

/** Many at once; $1 to $9 are arrays, a column each. Rows are locked in the order of their keys, so that two processes cannot deadlock. */
export const ADD_MANY = add(`SELECT * FROM (
    SELECT ${KEYS}, ${TOTALS}
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
      AS added (${COLUMNS})
    GROUP BY ${KEYS} ORDER BY day, user_id COLLATE "C", agent COLLATE "C", model COLLATE "C") AS additions`)

/**
 * Of somebody who is gone: the sums stay, as nobody's, and of their agents those of the installation; others were named by a user. Locked
 * in the same order.
 */
export function* forgetUsage(userId: string, agents: readonly string[]): Steps<void> {
  const known = agents.map((_, at) => `$${at + 2}`).join(', ')
  const used = agents.length === 0 ? "''" : `CASE WHEN agent IN (${known}) THEN agent ELSE '' END`
  const gone = add(`SELECT * FROM (SELECT day, '' AS nobody, ${used} AS used, model, ${TOTALS} FROM usage_sums
      WHERE user_id = $1 GROUP BY day, nobody, used, model) AS gone
    ORDER BY day, used COLLATE "C", model COLLATE "C"`)
  yield* ask(gone, userId, ...agents)
  yield* ask('DELETE FROM usage_sums WHERE user_id = $1', userId)
}

// PostgreSQL sums bigint as numeric, which arrives as text.
const SUMMED = SUMS.map((name) => `CAST(coalesce(sum(${name}), 0) AS bigint) AS ${name}`).join(', ')

const COLUMN_OF: Readonly<Record<UsageKey, string>> = { day: 'day', user: 'user_id', agent: 'agent', model: 'model' }

type Row = UsageSums & { day?: string; user_id?: string; email?: string | null; agent?: string; model?: string }

export const usageReads: StepReads<UsageReads> = {
  quotaUse,

  *list({ since, until, by, agent, model, limit, offset }, user) {
    const params: Param[] = [since, until]
    const conditions = ['day >= $1', 'day <= $2']
    for (const [column, value] of Object.entries({ user_id: user, agent, model })) {
      if (value === null || value === undefined) continue
      params.push(value)
      conditions.push(`${column} = $${params.length}`)
    }
    const from = `FROM usage_sums WHERE ${conditions.join(' AND ')}`
    const keys = by.map((key) => COLUMN_OF[key]).join(', ')
    const order = by.map((key) => (key === 'day' ? 'day DESC' : `${COLUMN_OF[key]} COLLATE "C"`)).join(', ')
    const sums = yield* askOne<UsageSums>(`SELECT ${SUMMED} ${from}`, ...params)
    if (by.length === 0) return { rows: [], total: { ...sums!, rows: 0 } }
    const counted = yield* askOne<{ n: number }>(
      `SELECT count(*) AS n FROM (SELECT 1 ${from} GROUP BY ${keys}) AS found`,
      ...params
    )
    const email = by.includes('user') ? ', (SELECT email FROM users WHERE id = user_id) AS email' : ''
    const page = `SELECT *${email} FROM (SELECT ${keys}, ${SUMMED} ${from} GROUP BY ${keys}
      ORDER BY ${order} LIMIT $${params.length + 1} OFFSET $${params.length + 2}) AS page`
    const rows = yield* ask<Row>(page, ...params, limit, offset)
    return { rows: rows.map(toRow), total: { ...sums!, rows: Number(counted!.n) } }
  }
}

function toRow({ user_id, ...row }: Row): UsageRow {
  return user_id === undefined ? row : { ...row, user_id: user_id === '' ? null : user_id }
}
