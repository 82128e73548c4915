// Deletes the rows of removed threads in PostgreSQL in small steps: the first three within the transaction that removes the thread,
// the others later, by whichever process comes first.
import { Poller } from '../../base/poller.ts'
import { STEP_ROWS } from '../sql/removal.ts'
import type { Group } from '../store.ts'
import type { Pool } from './pool.ts'
import type { Db } from './db.ts'

/** Delay between steps, in ms: the server has other work. */
const PAUSE_MS = 5
/** Delay after a failed step, in ms. */
const AGAIN_MS = 10_000

const { frames: FRAMES, runs: RUNS, ...TABLES } = STEP_ROWS

/** Deletes some rows of the thread being removed. */
const some = ([table, rows]: [table: string, rows: number]) =>
  `of_${table} AS (DELETE FROM ${table} WHERE ctid IN (
    SELECT ctid FROM ${table} WHERE thread_id = (SELECT thread_id FROM one) LIMIT ${rows}))`
const anyOf = (table: string) => `SELECT 1 FROM ${table} WHERE thread_id = (SELECT thread_id FROM one)`

/**
 * One step for $1, or for any thread nobody else is working on when $1 is null. The row lock keeps a new thread of this
 * id waiting. Frames go before the runs they belong to. Returns how many threads were found, and whether this one is
 * done: a step sees the state before it, so the last one deletes nothing.
 */
const STEP = `
  WITH one AS MATERIALIZED (
    SELECT thread_id FROM removed_threads WHERE $1::text IS NULL OR thread_id = $1 LIMIT 1 FOR UPDATE SKIP LOCKED
  ),
  of_frames AS (
    DELETE FROM frames WHERE id IN (
      SELECT f.id FROM runs AS r JOIN frames AS f ON f.run_key = r.key
      WHERE r.thread_id = (SELECT thread_id FROM one) LIMIT ${FRAMES})
  ),
  ${Object.entries(TABLES).map(some).join(', ')},
  of_runs AS (
    DELETE FROM runs WHERE key IN (
      SELECT key FROM runs WHERE thread_id = (SELECT thread_id FROM one)
        AND NOT EXISTS (SELECT 1 FROM frames WHERE run_key = key) LIMIT ${RUNS})
  ),
  done AS (
    DELETE FROM removed_threads WHERE thread_id = (SELECT thread_id FROM one) AND NOT EXISTS (
      ${[...Object.keys(TABLES), 'runs'].map(anyOf).join(' UNION ALL ')})
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM one) AS found, (SELECT count(*) FROM done) AS done`

/** Steps in the transaction that removes a thread: enough for most threads. */
const STEPS_AT_ONCE = 3

function step(db: Db, threadId: string | null): Promise<{ found: number; done: number }[]> {
  return db.rows(STEP, [threadId])
}

/** The thread's row is gone: its data is deleted here, or hidden from now on. */
export async function beginRemoval(db: Db, threadId: string): Promise<void> {
  // Frees idempotency keys, and ends runs so that nobody takes them for interrupted ones.
  const closeRuns = `UPDATE runs SET idempotency_key = NULL,
      status = CASE WHEN status IN ('pending', 'running') THEN 'error' ELSE status END
    WHERE thread_id = $1 AND (idempotency_key IS NOT NULL OR status IN ('pending', 'running'))`
  await Promise.all([
    db.changes('INSERT INTO removed_threads (thread_id) VALUES ($1) ON CONFLICT DO NOTHING', [threadId]),
    db.changes(closeRuns, [threadId]),
    ...Array.from({ length: STEPS_AT_ONCE }, () => step(db, threadId))
  ])
}

/** Deletes everything an earlier thread of this id left, before a new one is created. */
export async function finishRemoval(db: Db, threadId: string): Promise<void> {
  const left = await db.rows('SELECT 1 FROM removed_threads WHERE thread_id = $1 FOR UPDATE', [threadId])
  for (let isLeft = left.length > 0; isLeft; ) isLeft = (await step(db, threadId))[0]?.done === 0
}

/** Runs the steps one after the other, with pauses. */
export class Remover {
  readonly #poller: Poller

  constructor(pool: Pool) {
    this.#poller = new Poller({
      everyMs: Number.POSITIVE_INFINITY,
      work: async () => {
        const [answer] = await step(pool, null)
        if (answer && answer.found > 0) this.#poller.wakeIn(PAUSE_MS)
      },
      onError: () => this.#poller.wakeIn(AGAIN_MS)
    })
    this.#poller.start(PAUSE_MS)
  }

  /** Called after these groups were written. */
  written(groups: readonly Group[]): void {
    if (groups.some(({ ops }) => ops.some(({ name }) => name === 'thread.remove'))) this.#poller.wakeIn(PAUSE_MS)
  }

  close(): Promise<void> {
    return this.#poller.stop()
  }
}
