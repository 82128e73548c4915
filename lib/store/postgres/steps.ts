// Runs the steps of a noun, one after the other.
import type { OpName } from '../store.ts'
import { type Param, runLater, type StepWrites, type Steps } from '../sql/steps.ts'
import type { Db } from './db.ts'
import type { Writers } from './rows.ts'
import { texts } from './text.ts'

/** Parameters as the server takes them. */
export function boundParams(params: readonly Param[]): (string | number | boolean | null)[] {
  return params.map((value) => (typeof value === 'object' && value !== null ? texts(value) : value))
}

/** A statement for PostgreSQL: without index hints. */
function postgresText(sql: string): string {
  return sql.includes(' INDEXED BY ') ? sql.replace(/ INDEXED BY \w+/g, '') : sql
}

export function runSteps<T>(db: Db, steps: Steps<T>): Promise<T> {
  return runLater(steps, ({ sql, params }) => db.rows(postgresText(sql), boundParams(params)))
}

export function stepWriters<K extends OpName>(writes: StepWrites<K>): Writers<K> {
  // Wraps each function by name, which the compiler cannot follow.
  const entries = Object.entries(writes) as [K, (op: never) => Steps<unknown>][]
  const around = entries.map(([name, steps]) => [name, (op: never, batch: Db) => runSteps(batch, steps(op))])
  return Object.fromEntries(around) as unknown as Writers<K>
}
