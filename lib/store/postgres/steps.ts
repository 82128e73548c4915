// Steps of a noun run one after the other.
import type { OpName } from '../store.ts'
import type { Param, StepWrites, Steps } from '../sql/steps.ts'
import type { Db } from './db.ts'
import type { Writers } from './rows.ts'
import { texts } from './text.ts'

function postgresValue(value: Param): string | number | boolean | null {
  return typeof value === 'object' && value !== null ? texts(value) : value
}

export async function runSteps<T>(db: Db, steps: Steps<T>): Promise<T> {
  let step = steps.next()
  while (!step.done) step = steps.next(await db.rows(step.value.sql, step.value.params.map(postgresValue)))
  return step.value
}

export function stepWriters<K extends OpName>(writes: StepWrites<K>): Writers<K> {
  // By name as they are, with what runs them around them, which the compiler cannot follow.
  const entries = Object.entries(writes) as [K, (op: never) => Steps<unknown>][]
  const around = entries.map(([name, steps]) => [name, (op: never, batch: Db) => runSteps(batch, steps(op))])
  return Object.fromEntries(around) as unknown as Writers<K>
}
