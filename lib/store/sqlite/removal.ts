// What removed threads have left in SQLite, and how it goes: a step within the transaction that removes the thread, which is all for
// most of them, the others by themselves, whenever the thread that writes has nothing else to do.
import type Database from 'better-sqlite3'
import { STEP_ROWS } from '../sql/removal.ts'

/** Between two steps, in ms: batches go first. */
const PAUSE_MS = 5
/** After a step that could not be made: somebody holds a lock, or the disk is full. */
const AGAIN_MS = 1000

export interface Removal {
  /** The first step; what it leaves is unseen from now on. Within a transaction. */
  begin(threadId: string): void
  /** All that a thread of this id has left: another one is about to be made. Within a transaction. */
  finish(threadId: string): void
  /** One step for one of those that have left something. False: there are none. */
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
  // Their keys may come again, and nobody is to take them for runs that were cut off.
  const closeRuns =
    db.prepare(`UPDATE runs SET idempotency_key = NULL, status = iif(status IN ('pending', 'running'), 'error', status)
    WHERE thread_id = ? AND (idempotency_key IS NOT NULL OR status IN ('pending', 'running'))`)
  const next = db.prepare<[], string>('SELECT thread_id FROM removed_threads LIMIT 1').pluck()
  const isLeft = db.prepare('SELECT 1 FROM removed_threads WHERE thread_id = ?')
  const forget = db.prepare('DELETE FROM removed_threads WHERE thread_id = ?')

  /** Frames before the runs that lead to them. True: nothing is left. */
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

/** Makes the steps, one after the other, with pauses. */
export class Remover {
  readonly #removal: Removal
  #timer: NodeJS.Timeout | null = null

  constructor(db: Database.Database) {
    this.#removal = removal(db)
    this.wake()
  }

  /** There may be something to do. */
  wake(): void {
    this.#timer ??= setTimeout(() => this.#step(), PAUSE_MS)
  }

  stop(): void {
    if (this.#timer) clearTimeout(this.#timer)
  }

  #step(): void {
    this.#timer = null
    try {
      if (this.#removal.step()) this.wake()
    } catch {
      // Who writes next meets the same, and tells.
      this.#timer = setTimeout(() => this.#step(), AGAIN_MS)
    }
  }
}
