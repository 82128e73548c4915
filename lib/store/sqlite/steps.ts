// Steps of a noun run at once.
import type Database from 'better-sqlite3'
import type { OpName } from '../store.ts'
import type { StepWrites, Steps } from '../sql/steps.ts'
import { bindings } from './connection.ts'
import type { Reader } from './reader.ts'
import type { Writers } from './rows.ts'

/** Statements are prepared when they are needed first: their texts are few. */
export function stepRunner(db: Database.Database): <T>(steps: Steps<T>) => T {
  const prepared = new Map<string, Database.Statement<object>>()
  const rowsOf = (sql: string, params: readonly unknown[]): readonly unknown[] => {
    const statement = prepared.get(sql) ?? db.prepare<object>(sql)
    prepared.set(sql, statement)
    if (statement.reader) return statement.all(bindings(params))
    statement.run(bindings(params))
    return []
  }
  return (steps) => {
    let step = steps.next()
    while (!step.done) step = steps.next(rowsOf(step.value.sql, step.value.params))
    return step.value
  }
}

/** In the thread for reads that may take long. */
export async function runStepsBeside<T>(reader: Reader, steps: Steps<T>): Promise<T> {
  let step = steps.next()
  while (!step.done) step = steps.next(await reader.rows(step.value.sql, bindings(step.value.params)))
  return step.value
}

export function stepWriters<K extends OpName>(db: Database.Database, writes: StepWrites<K>): Writers<K> {
  const run = stepRunner(db)
  // By name as they are, with what runs them around them, which the compiler cannot follow.
  const entries = Object.entries(writes) as [K, (op: never) => Steps<unknown>][]
  const around = entries.map(([name, steps]) => [name, (op: never) => run(steps(op))])
  return Object.fromEntries(around) as unknown as Writers<K>
}
