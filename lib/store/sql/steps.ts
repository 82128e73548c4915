// Work of a noun in the words of both databases: the statements that it makes one after the other, each with the rows of the one
// before. One database runs them at once, the other waits for each answer; what they are is written once.
import type { OpName, OpOf, Result } from '../store.ts'
import { PRESENT } from './removal.ts'

/** A list is for `= ANY($1)`. */
export type Param = string | number | boolean | null | readonly string[]

/**
 * In PostgreSQL's words, with $1, $2...; a cast is written `CAST($1 AS text)`, which both know. SQLite reads `= ANY($1)` as a look into the
 * list, and leaves out what it has no need for: `FOR UPDATE`, because it has one writer, and `COLLATE "C"`, which is its only order.
 */
export interface Statement {
  readonly sql: string
  readonly params: readonly Param[]
  /** Where one writer writes there is nobody to lock out. */
  readonly isLock?: boolean
}

/** Each statement is answered with its rows: none where it has no RETURNING. */
export type Steps<T> = Generator<Statement, T, readonly unknown[]>

/** The writing functions of one noun, by op. */
export type StepWrites<K extends OpName> = { readonly [P in K]: (op: OpOf<P>) => Steps<Result<P>> }

/** Answers steps outside of a transaction. */
export type RunSteps = <T>(steps: Steps<T>) => Promise<T>

/** One statement; its rows are what the SQL says. */
export function* ask<Row>(sql: string, ...params: Statement['params']): Steps<Row[]> {
  return (yield { sql, params }) as Row[]
}

/** The first row of a statement. */
export function* askOne<Row>(sql: string, ...params: Statement['params']): Steps<Row | undefined> {
  return (yield* ask<Row>(sql, ...params))[0]
}

/** Keeps other processes out for the rest of the transaction. */
export function* lock(sql: string, ...params: Statement['params']): Steps<void> {
  yield { sql, params, isLock: true }
}

/** The owner filter of [Auth 7] for the n-th parameter: own rows and rows without an owner, or everything for null. */
export function ownedBy(n: number): string {
  return `(CAST($${n} AS text) IS NULL OR user_id = $${n} OR user_id IS NULL)`
}

/** The same of rows that belong to a thread, which must not have been removed. */
export function visibleTo(n: number): string {
  return `${ownedBy(n)} AND ${PRESENT}`
}

/** `$1, $2...`: n parameters. */
export function places(n: number): string {
  return Array.from({ length: n }, (_, at) => `$${at + 1}`).join(', ')
}
