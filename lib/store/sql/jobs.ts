// Jobs as rows of both databases. Only the clock of the database counts: those of processes differ.
import { Refused } from '../ports/ops.ts'
import {
  type Due,
  type Job,
  type JobClaim,
  JOB_PAYLOAD_MAX,
  type JobCount,
  type JobReads,
  type NewJob
} from '../ports/jobs.ts'
import type { Timestamp } from '../../base/types.ts'
import { ask, askOne, type Param, type StepReads, type Steps, type StepWrites } from './steps.ts'
import { needsThread } from './threads.ts'

const COLUMNS = 'kind, key, user_id, thread_id, due_at, attempts, last_error, owner, payload'
const NOW = 'clock_timestamp()'
const later = (n: number) => `clock_timestamp() + CAST($${n} AS bigint) * interval '1 millisecond'`
/** Advisory lock of who claims: two claims at once would each give a user its whole share. */
const CLAIM_LOCK = 7_236_003
/** Due times set by a clock that was this far ahead, in ms, are wrong. */
const AHEAD_MS = 60_000

/** $1: who asks. Nobody is at it, or a process that is gone. */
const IS_FREE = '(owner IS NULL OR (owner <> $1 AND NOT EXISTS (SELECT 1 FROM writers WHERE writer_id = jobs.owner)))'
/** What was set by a clock that was ahead is due as well: to be set again, or it would be silent until that time. */
const IS_DUE = `kind = ANY($4) AND (due_at <= ${NOW} OR (due_at IS NOT NULL AND set_at > ${later(2)}))`
/** Jobs without a user count as one user's. */
const WHO = "COALESCE(user_id, '')"
/** $1: who asks, $2: AHEAD_MS, $3: jobs a user may have in progress, $4: kinds. The first of each user that still has a place. */
const CLAIMABLE = `
  busy AS (SELECT ${WHO} AS who, count(*) AS in_progress FROM jobs WHERE owner IS NOT NULL AND NOT ${IS_FREE} GROUP BY 1),
  due AS (
    SELECT kind, key, due_at, ${WHO} AS who, ROW_NUMBER() OVER (PARTITION BY ${WHO} ORDER BY due_at, kind, key) AS place
    FROM jobs WHERE ${IS_DUE} AND ${IS_FREE}),
  claimable AS (
    SELECT kind, key, due_at FROM due LEFT JOIN busy ON busy.who = due.who
    WHERE place + COALESCE(in_progress, 0) <= $3)`
const CLAIM = `WITH ${CLAIMABLE},
  mine AS MATERIALIZED (
    SELECT kind AS mine_kind, key AS mine_key FROM jobs
    WHERE (kind, key) IN (SELECT kind, key FROM claimable ORDER BY due_at LIMIT $5) AND ${IS_DUE} AND ${IS_FREE}
    FOR UPDATE SKIP LOCKED)
  UPDATE jobs SET owner = $1, attempts = attempts + 1
  WHERE (kind, key) IN (SELECT mine_kind, mine_key FROM mine)
  RETURNING ${COLUMNS}`
const NEXT = `WITH ${CLAIMABLE}
  SELECT EXISTS (SELECT 1 FROM claimable) AS is_due, ${NOW} AS now,
    (SELECT min(due_at) FROM jobs WHERE ${IS_FREE} AND kind = ANY($4) AND due_at > ${NOW}) AS next`

const claimParams = ({ owner, perUser, kinds }: JobClaim) => [owner, AHEAD_MS, perUser, kinds] as const

function* dueIn(claim: JobClaim): Steps<number | null> {
  interface Row {
    readonly is_due: boolean | number
    readonly now: Timestamp
    readonly next: Timestamp | null
  }
  const row = (yield* askOne<Row>(NEXT, ...claimParams(claim)))!
  if (row.is_due) return 0
  return row.next === null ? null : Math.max(1, Date.parse(row.next) - Date.parse(row.now))
}

export const jobReads: StepReads<JobReads> = {
  *get(kind, key) {
    return (yield* askOne<Job>(`SELECT ${COLUMNS} FROM jobs WHERE kind = $1 AND key = $2`, kind, key)) ?? null
  },
  ofThread: (threadId) => ask<Job>(`SELECT ${COLUMNS} FROM jobs WHERE thread_id = $1 ORDER BY kind, key`, threadId),
  list: ({ isDead = false, limit, offset }) =>
    ask<Job>(
      `SELECT ${COLUMNS} FROM jobs ${isDead ? 'WHERE due_at IS NULL' : ''}
       ORDER BY due_at IS NULL, due_at, kind, key LIMIT $1 OFFSET $2`,
      limit,
      offset
    ),
  dueIn,
  *counts() {
    const sql = `SELECT kind, due_at IS NULL AS is_dead, count(*) AS jobs FROM jobs GROUP BY 1, 2 ORDER BY 1, 2`
    const rows = yield* ask<Omit<JobCount, 'is_dead'> & { readonly is_dead: boolean | number }>(sql)
    return rows.map(({ kind, is_dead, jobs }) => ({ kind, is_dead: Boolean(is_dead), jobs: Number(jobs) }))
  },
  *now() {
    return (yield* askOne<{ now: Timestamp }>(`SELECT ${NOW} AS now`))!.now
  }
}

/** The SQL of a due time, as the n-th parameter. */
const dueSql = (due: Due, n: number) => (typeof due === 'number' ? later(n) : `$${n}`)

/** Makes a job, or sets it anew: whoever is at it will be refused. */
export function* putJob({ kind, key, user_id, thread_id, due, payload }: NewJob): Steps<void> {
  if (payload.length > JOB_PAYLOAD_MAX) throw new Refused(`the payload of a job is longer than ${JOB_PAYLOAD_MAX}`)
  const sql = `INSERT INTO jobs (kind, key, user_id, thread_id, due_at, payload, attempts, set_at)
    VALUES ($1, $2, $3, $4, ${dueSql(due, 5)}, $6, 0, ${NOW})
    ON CONFLICT (kind, key) DO UPDATE SET user_id = excluded.user_id, thread_id = excluded.thread_id, due_at = excluded.due_at,
      payload = excluded.payload, attempts = 0, last_error = NULL, owner = NULL, set_at = excluded.set_at`
  yield* ask(sql, kind, key, user_id, thread_id, due, payload)
}

export function* removeJob(kind: Job['kind'], key: string): Steps<boolean> {
  return (yield* ask('DELETE FROM jobs WHERE kind = $1 AND key = $2 RETURNING kind', kind, key)).length > 0
}

/** A removed thread has none but webhooks to come, which have all that they send. */
export const REMOVE_JOBS = "DELETE FROM jobs WHERE thread_id = $1 AND (kind <> 'webhook' OR due_at IS NULL)"

/** What was deleted is kept nowhere: a job that has failed for good after its thread had gone. */
const REMOVE_DEAD = `DELETE FROM jobs WHERE kind = $1 AND key = $2 AND due_at IS NULL AND thread_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM threads_meta WHERE threads_meta.thread_id = jobs.thread_id)`

type JobOps = 'job.put' | 'job.change' | 'job.remove' | 'job.claim' | 'job.finish'

export const jobWrites: StepWrites<JobOps> = {
  *'job.put'({ job }) {
    if (job.thread_id !== null) yield* needsThread(job.thread_id)
    yield* putJob(job)
    return null
  },

  *'job.change'({ kind, key, due, payload }) {
    const params: Param[] = [kind, key]
    const sets: string[] = []
    if (payload !== undefined) sets.push(`payload = $${params.push(payload)}`)
    if (due !== undefined)
      sets.push(`due_at = ${dueSql(due, params.push(due))}, set_at = ${NOW}, attempts = 0, owner = NULL`)
    const sql = `UPDATE jobs SET ${sets.join(', ')} WHERE kind = $1 AND key = $2 RETURNING kind`
    return (yield* ask(sql, ...params)).length > 0
  },

  *'job.remove'({ kind, key }) {
    return yield* removeJob(kind, key)
  },

  *'job.claim'({ limit, ...claim }) {
    const tried = (yield {
      sql: 'SELECT pg_try_advisory_xact_lock($1) AS is_locked',
      params: [CLAIM_LOCK],
      isLock: true
    }) as { is_locked: boolean }[]
    // Another process is claiming.
    if (tried[0]?.is_locked === false) return []
    return yield* ask<Job>(CLAIM, ...claimParams(claim), limit)
  },

  *'job.finish'({ kind, key, owner, again }) {
    const where = 'kind = $1 AND key = $2 AND owner = $3 RETURNING kind'
    const params: Param[] = [kind, key, owner]
    const change = () => {
      if (again === null) return `DELETE FROM jobs WHERE ${where}`
      const { due, error, isUncounted } = again
      const at = due === null ? 'NULL' : dueSql(due, params.push(due))
      const counted = isUncounted ? ', attempts = 0' : ''
      return `UPDATE jobs SET owner = NULL, last_error = $${params.push(error)}, due_at = ${at}, set_at = ${NOW}${counted} WHERE ${where}`
    }
    const sql = change()
    if ((yield* ask(sql, ...params)).length === 0) throw new Refused(`job ${kind} ${key} is not this process's`)
    if (again?.due === null) yield* ask(REMOVE_DEAD, kind, key)
    return null
  }
}
