// Runs the steps of a noun synchronously.
import type Database from 'better-sqlite3'
import type { OpName } from '../store.ts'
import {
  type Param,
  type RunSnapshot,
  runLater,
  type RunSteps,
  type Statement,
  type StepWrites,
  type Steps
} from '../sql/steps.ts'
import { noteStatement } from '../slow-statements.ts'
import { bindings } from './connection.ts'
import type { Reader } from './reader.ts'
import type { Writers } from './batch-codec.ts'

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

function sqliteValue(value: Param): string | number | Uint8Array | null {
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value !== 'object' || value === null) return value
  return value instanceof Uint8Array ? value : JSON.stringify(value)
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
    const began = performance.now()
    const rows = statement.reader ? statement.all(values) : []
    if (!statement.reader) statement.run(values)
    noteStatement(sql, began)
    return rows
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
