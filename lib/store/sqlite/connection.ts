// A connection to the database file.
import type Database from 'better-sqlite3'
import { Sqlite } from '../../base/sqlite-driver.ts'
import type { OpName } from '../store.ts'
import {
  type Param,
  runLater,
  type RunSnapshot,
  type RunSteps,
  type Statement,
  type Steps,
  type StepWrites
} from '../sql/steps.ts'
import type { Reader } from './reader.ts'
import type { Writers } from './batch-codec.ts'

/** How long a connection waits for a lock, in ms [Limits]. */
const BUSY_TIMEOUT_MS = 5000
/**
 * Pages of the WAL at which a commit checkpoints it itself, 16 MB: needed only where commits are so frequent that the
 * thread of wal.ts never catches up.
 */
const WAL_PAGES_MAX = 4096
/** The WAL file is cut back to this when a checkpoint has emptied it, in bytes. */
const WAL_SIZE_MAX = 64 * 1024 * 1024

/** Opens a connection with the pragmas the specification requires: to a file, or to a serialized database in memory. */
export function connect(source: string | Buffer): Database.Database {
  const db = new Sqlite(source, { timeout: BUSY_TIMEOUT_MS })
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = NORMAL')
  db.pragma('foreign_keys = ON')
  // What is deleted is overwritten: a file that is copied or stolen has no more than the API shows.
  db.pragma('secure_delete = ON')
  db.pragma(`wal_autocheckpoint = ${WAL_PAGES_MAX}`)
  db.pragma(`journal_size_limit = ${WAL_SIZE_MAX}`)
  return db
}

/**
 * Empties the WAL file, in which pages stand as they were before a deletion. False: somebody writes, or reads an older state, and it is to
 * be tried again.
 */
export function truncateWal(db: Database.Database): boolean {
  const [result] = db.pragma('wal_checkpoint(TRUNCATE)') as { readonly busy: number }[]
  return result?.busy === 0
}

/** Rewrites the file without what was deleted before `secure_delete` was on. @throws Error while somebody keeps the file locked */
export function vacuum(db: Database.Database): void {
  db.exec('VACUUM')
  if (!truncateWal(db)) throw new Error('the write-ahead log is in use: try again')
}

/** Values for $1, $2... of a statement. A loop, because fromEntries costs a fifth of a small read. */
export function bindings(params: readonly unknown[]): object {
  const bound: Record<number, unknown> = {}
  for (let at = 0; at < params.length; at++) bound[at + 1] = params[at]
  return bound
}

// ------------------------------------------------------------------------ Runs the steps of a noun synchronously

/** As `timestamp` writes it. */
const ISO = "'%Y-%m-%dT%H:%M:%f+00:00'"

function sqliteText(sql: string): string {
  return sql
    .replace(/ FOR UPDATE( SKIP LOCKED)?/g, '')
    .replace(/ COLLATE "C"/g, '')
    .replace(
      /clock_timestamp\(\) \+ (CAST\(\$\d+ AS bigint\)) \* interval '1 millisecond'/g,
      `strftime(${ISO}, 'now', ($1 / 1000.0) || ' seconds')`
    )
    .replace(/clock_timestamp\(\)/g, `strftime(${ISO}, 'now')`)
    .replace(/= ANY\((\$\d+)\)/g, 'IN (SELECT value FROM json_each($1))')
}

function sqliteValue(value: Param): string | number | null {
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}

/** Statements are prepared on first use; their number is small. */
export function stepRunner(db: Database.Database): <T>(steps: Steps<T>) => T {
  const prepared = new Map<string, Database.Statement<object>>()
  const rowsOf = ({ sql, params, isLock }: Statement): readonly unknown[] => {
    if (isLock) return []
    let statement = prepared.get(sql)
    if (!statement) {
      statement = db.prepare<object>(sqliteText(sql))
      prepared.set(sql, statement)
    }
    const values = bindings(params.map(sqliteValue))
    if (statement.reader) return statement.all(values)
    statement.run(values)
    return []
  }
  return (steps) => {
    let step = steps.next()
    while (!step.done) {
      const { value } = step
      step = steps.next('sql' in value ? rowsOf(value) : value.together.map(rowsOf))
    }
    return step.value
  }
}

/** For reads: synchronous, behind a promise. */
export function readRunner(db: Database.Database): RunSteps {
  const run = stepRunner(db)
  return async (steps) => run(steps)
}

/** The same in one read transaction: between two statements the writer thread may commit. */
export function snapshotRunner(db: Database.Database): RunSnapshot {
  const run = stepRunner(db)
  const begin = db.prepare('BEGIN')
  const commit = db.prepare('COMMIT')
  return async (make) => {
    begin.run()
    try {
      return run(make())
    } finally {
      commit.run()
    }
  }
}

/** On the reader thread. */
export function runStepsBeside<T>(reader: Reader, steps: Steps<T>): Promise<T> {
  return runLater(steps, ({ sql, params }) => reader.rows(sqliteText(sql), bindings(params.map(sqliteValue))))
}

export function stepWriters<K extends OpName>(db: Database.Database, writes: StepWrites<K>): Writers<K> {
  const run = stepRunner(db)
  // Wraps each function by name, which the compiler cannot follow.
  const entries = Object.entries(writes) as [K, (op: never) => Steps<unknown>][]
  const around = entries.map(([name, steps]) => [name, (op: never) => run(steps(op))])
  return Object.fromEntries(around) as unknown as Writers<K>
}
