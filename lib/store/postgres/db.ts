// How the nouns of this store run statements, and the steps they are written in.
import { type Param as StepParam, runLater, type Steps } from '../sql/steps.ts'
import { texts } from './text.ts'

/** A statement parameter. Lists go as text, see text.ts. */
export type Param = string | number | boolean | null | Uint8Array

export type Planning = 'kept' | 'anew'

/** Runs statements: the pool for reads, a batch's transaction for writes. Parameters are $1, $2... in the SQL. */
export interface Db {
  /**
   * Rows of a statement. `plan` anew: the server plans for these values, because the best plan depends on them; otherwise it may keep one.
   */
  rows<Row>(sql: string, params?: readonly Param[], plan?: Planning): Promise<Row[]>
  /** Number of rows a statement changed. */
  changes(sql: string, params?: readonly Param[]): Promise<number>
}

/** Runs reads: the pool. */
export interface ReadDb extends Db {
  /** Runs `work` on one connection, whose statements all see the same moment. A second time when the connection was lost. */
  snapshot<T>(work: (db: Db) => Promise<T>): Promise<T>
}

// ----------------------------------------------------------------- Runs the steps of a noun, one after the other

/** Parameters as the server takes them. */
export function boundParams(params: readonly StepParam[]): (string | number | boolean | null)[] {
  return params.map((value) => (typeof value === 'object' && value !== null ? texts(value) : value))
}

/** A statement for PostgreSQL: without index hints. */
function postgresText(sql: string): string {
  return sql.includes(' INDEXED BY ') ? sql.replace(/ INDEXED BY \w+/g, '') : sql
}

export function runSteps<T>(db: Db, steps: Steps<T>): Promise<T> {
  return runLater(steps, ({ sql, params }) => db.rows(postgresText(sql), boundParams(params)))
}
