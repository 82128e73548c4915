// What has been given away of users' quotas, as rows of both databases: one by user, measure and day or month.
import type { QuotaMeasure, QuotaUse } from '../store.ts'
import { IN_FLIGHT } from './runs.ts'
import { ask, askOne, type Steps, type StepWrites } from './steps.ts'

/** What has been used by the sums of usage, where runs count that have ended. `$1` is the user, `first` and `last` are places of days. */
const USED: Readonly<Record<QuotaMeasure, string>> = {
  runs: 'sum(runs)',
  tokens: 'sum(total_tokens)',
  money: 'sum(money_micros)'
}
const usedOf = (measure: QuotaMeasure, first: string, last: string) =>
  `SELECT CAST(coalesce(${USED[measure]}, 0) AS bigint) AS used FROM usage_sums WHERE user_id = $1 AND day >= ${first} AND day <= ${last}`

/** A day's first and last are itself; every day of a month is between these. */
const daysOf = (period: string): [string, string] =>
  period.length > 7 ? [period, period] : [`${period}-01`, `${period}-31`]

const ONE = 'user_id = $1 AND measure = $2 AND period = $3'
const TAKEN = `SELECT taken FROM quota_counts WHERE ${ONE}`

function* usedIn(userId: string, measure: QuotaMeasure, period: string): Steps<number> {
  return Number((yield* askOne<{ used: number }>(usedOf(measure, '$2', '$3'), userId, ...daysOf(period)))!.used)
}

function* takenOf(userId: string, measure: QuotaMeasure, period: string): Steps<number> {
  return Number((yield* askOne<{ taken: number }>(TAKEN, userId, measure, period))?.taken ?? 0)
}

export const quotaWrites: StepWrites<'quota.take' | 'quota.give'> = {
  // PostgreSQL's batch has locked the user.
  *'quota.take'({ user_id, measure, period, want, max }) {
    const used = yield* usedIn(user_id, measure, period)
    const taken = Math.max(used, yield* takenOf(user_id, measure, period))
    const granted = Math.min(want, max - taken)
    if (granted <= 0) return 0
    yield* ask('DELETE FROM quota_counts WHERE user_id = $1 AND measure = $2 AND period < $3', user_id, measure, period)
    const sql = `INSERT INTO quota_counts (user_id, measure, period, taken) VALUES ($1, $2, $3, $4)
      ON CONFLICT (user_id, measure, period) DO UPDATE SET taken = excluded.taken`
    yield* ask(sql, user_id, measure, period, taken + granted)
    return granted
  },

  *'quota.give'({ user_id, measure, period, count }) {
    const sql = `UPDATE quota_counts SET taken = CASE WHEN taken > $4 THEN taken - $4 ELSE 0 END WHERE ${ONE}`
    yield* ask(sql, user_id, measure, period, count)
    return null
  }
}

/** One statement: it is asked for with every look at an account. `$1` the user, `$2` the day, `$3` and `$4` the month's first and last. */
const USE = `SELECT
  (${usedOf('runs', '$2', '$2')}) AS ended,
  (SELECT taken FROM quota_counts WHERE user_id = $1 AND measure = 'runs' AND period = $2) AS taken,
  (${usedOf('tokens', '$2', '$2')}) AS tokens,
  (${usedOf('money', '$3', '$4')}) AS money_micros,
  (SELECT count(*) FROM runs WHERE user_id = $1 AND ${IN_FLIGHT}) AS runs_at_once,
  (SELECT CAST(coalesce(sum(stored_bytes), 0) AS bigint) FROM threads_meta WHERE user_id = $1 AND is_temporary = 0) AS bytes`

/** What somebody has used of a quota, in this day and month. */
export function* quotaUse(userId: string, day: string): Steps<QuotaUse> {
  type Row = Omit<QuotaUse, 'runs'> & { readonly ended: number; readonly taken: number | null }
  const row = (yield* askOne<Row>(USE, userId, day, ...daysOf(day.slice(0, 7))))!
  return {
    runs: Math.max(Number(row.ended), Number(row.taken ?? 0)),
    tokens: Number(row.tokens),
    money_micros: Number(row.money_micros),
    runs_at_once: Number(row.runs_at_once),
    bytes: Number(row.bytes)
  }
}
