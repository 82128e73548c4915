// Deletes what removed threads have left in SQLite: one step within the transaction that removes the thread, which is
// enough for most; more steps when the writer thread is idle.
import type Database from 'better-sqlite3'
import { Poller } from '../../base/poller.ts'
import { warnUnexpected } from '../../base/errors.ts'
import { STEP_ROWS } from '../sql/removal.ts'

/** Delay between steps, in ms: batches go first. */
const PAUSE_MS = 5
/** Delay after a failed step, in ms: somebody holds a lock, or the disk is full. */
const AGAIN_MS = 1000

interface Removal {
  /** The first step; what it leaves is hidden from now on. Call within a transaction. */
  begin(threadId: string): void
  /** Deletes everything an earlier thread of this id left, before a new one is created. Call within a transaction. */
  finish(threadId: string): void
  /** One step for one removed thread. False: there are none. */
  step(): boolean
}

export function removal(db: Database.Database): Removal {
  const { frames, ...tables } = STEP_ROWS
  const steps = [
    [
      db.prepare(`DELETE FROM frames WHERE id IN (
        SELECT f.id FROM runs AS r CROSS JOIN frames AS f ON f.run_key = r.key WHERE r.thread_id = ? LIMIT ${frames})`),
      frames
    ] as const,
    ...Object.entries(tables).map(
      ([table, rows]) =>
        [
          db.prepare(
            `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE thread_id = ? LIMIT ${rows})`
          ),
          rows
        ] as const
    )
  ]
  const leave = db.prepare('INSERT OR IGNORE INTO removed_threads (thread_id) VALUES (?)')
  // Frees idempotency keys, and ends runs so that nobody takes them for interrupted ones.
  const closeRuns =
    db.prepare(`UPDATE runs SET idempotency_key = NULL, status = iif(status IN ('pending', 'running'), 'error', status)
    WHERE thread_id = ? AND (idempotency_key IS NOT NULL OR status IN ('pending', 'running'))`)
  const next = db.prepare<[], string>('SELECT thread_id FROM removed_threads LIMIT 1').pluck()
  const isLeft = db.prepare('SELECT 1 FROM removed_threads WHERE thread_id = ?')
  const forget = db.prepare('DELETE FROM removed_threads WHERE thread_id = ?')

  /** Frames before their runs. True: nothing is left. */
  const removeSome = (threadId: string) => steps.every(([statement, rows]) => statement.run(threadId).changes < rows)
  const step = db.transaction(() => {
    const threadId = next.get()
    if (threadId === undefined) return false
    if (removeSome(threadId)) forget.run(threadId)
    return true
  })
  return {
    begin(threadId) {
      if (removeSome(threadId)) return
      leave.run(threadId)
      closeRuns.run(threadId)
    },
    finish(threadId) {
      if (!isLeft.get(threadId)) return
      while (!removeSome(threadId));
      forget.run(threadId)
    },
    step: () => step.immediate()
  }
}

/** Runs the steps one after the other, with pauses. */
export class Remover {
  readonly #poller: Poller

  constructor(db: Database.Database) {
    const steps = removal(db)
    this.#poller = new Poller({
      everyMs: Number.POSITIVE_INFINITY,
      work: async () => {
        if (steps.step()) this.wake()
      },
      // The next write meets the same error and reports it.
      onError: () => this.#poller.wakeIn(AGAIN_MS)
    })
    this.#poller.start(PAUSE_MS)
  }

  /** There may be work. */
  wake(): void {
    this.#poller.wakeIn(PAUSE_MS)
  }

  /** A step is done at once: none is in progress. */
  stop(): void {
    this.#poller.stop().catch(warnUnexpected)
  }
}
