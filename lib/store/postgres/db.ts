// How the nouns of this store ask the server, and the owner filter.
import { PRESENT } from '../sql/removal.ts'

/** One parameter of a statement. Lists go as text, see text.ts. */
export type Param = string | number | boolean | null | Uint8Array

export type Planning = 'kept' | 'anew'

/** Who answers statements: the pool for reads, the transaction of a batch for writes. Parameters are $1, $2... in the SQL. */
export interface Db {
  /**
   * The rows that a statement answers with. `plan` anew: the best way depends on the values, and the server is to choose it for these;
   * otherwise it keeps one for all, in the end.
   */
  rows<Row>(sql: string, params?: readonly Param[], plan?: Planning): Promise<Row[]>
  /** How many rows a statement has changed. */
  changes(sql: string, params?: readonly Param[]): Promise<number>
}

/** The owner filter of [Auth 7] as SQL, for the n-th parameter: own rows and rows without an owner, or everything for null. */
export function owned(n: number): string {
  return `($${n}::text IS NULL OR user_id = $${n} OR user_id IS NULL)`
}

/** The same of rows that belong to a thread, which must not have been removed. */
export function visible(n: number): string {
  return `${owned(n)} AND ${PRESENT}`
}

/** `$from, $from+1, ...`: n parameters. */
export function params(from: number, n: number): string {
  return Array.from({ length: n }, (_, at) => `$${from + at}`).join(', ')
}
