// A noun's work, written once for both databases: a generator that yields statements and gets their rows. SQLite runs
// it synchronously, PostgreSQL awaits each answer.
import type { OpName, OpOf, Result } from '../store.ts'
import { PRESENT } from './removal.ts'
import type { Json, JsonObject } from '../../base/types.ts'

/** Lists are for `= ANY($1)`. */
export type Param = string | number | boolean | null | Uint8Array | readonly string[]

/**
 * PostgreSQL's dialect, with $1, $2...; casts are written `CAST($1 AS text)`, which both know. SQLite turns `= ANY($1)`
 * into a lookup in the list and drops what it does not need: `FOR UPDATE` (it has one writer) and `COLLATE "C"` (its
 * only order); `clock_timestamp()`, also with milliseconds added, becomes its own. PostgreSQL drops `INDEXED BY`.
 */
export interface Statement {
  readonly sql: string
  readonly params: readonly Param[]
  /** Only a lock: SQLite skips it, having one writer. */
  readonly isLock?: boolean
}

/** Statements that do not depend on each other: PostgreSQL is sent all of them at once. Their rows are not wanted. */
interface Together {
  readonly together: readonly Statement[]
}

/** A statement's rows are sent back in; without RETURNING there are none. */
export type Steps<T> = Generator<Statement | Together, T, readonly unknown[]>

/** The writing functions of one noun, by op. */
export type StepWrites<K extends OpName> = { readonly [P in K]: (op: OpOf<P>) => Steps<Result<P>> }

/** The reads of a noun's port, as steps. */
export type StepReads<Reads> = {
  readonly [M in keyof Reads]: Reads[M] extends (...args: infer A) => Promise<infer T>
    ? (...args: A) => Steps<T>
    : never
}

/** The reads of a port, each run by itself. */
export function readsBy<Reads>(run: RunSteps, reads: StepReads<Reads>): Reads {
  return snapshotsBy((make) => run(make()), reads)
}

/** The same, where the statements of a read must see the same moment. */
export function snapshotsBy<Reads>(run: RunSnapshot, reads: StepReads<Reads>): Reads {
  // Wraps each function by name, which the compiler cannot follow.
  const entries = Object.entries(reads) as [string, (...args: unknown[]) => Steps<unknown>][]
  const around = entries.map(([name, steps]) => [name, (...args: unknown[]) => run(() => steps(...args))])
  return Object.fromEntries(around) as Reads
}

/** Runs steps outside a transaction. */
export type RunSteps = <T>(steps: Steps<T>) => Promise<T>
/** Runs steps in one snapshot; a second time when the connection was lost. */
export type RunSnapshot = <T>(make: () => Steps<T>) => Promise<T>

/** One statement; its SQL determines the shape of its rows. */
export function* ask<Row>(sql: string, ...params: Statement['params']): Steps<Row[]> {
  return (yield { sql, params }) as Row[]
}

/** Runs steps on a connection that answers later. */
export async function runLater<T>(steps: Steps<T>, rowsOf: (statement: Statement) => Promise<unknown[]>): Promise<T> {
  let step = steps.next()
  while (!step.done) {
    const { value } = step
    step = steps.next(await ('sql' in value ? rowsOf(value) : Promise.all(value.together.map(rowsOf))))
  }
  return step.value
}

export function* askOne<Row>(sql: string, ...params: Statement['params']): Steps<Row | undefined> {
  return (yield* ask<Row>(sql, ...params))[0]
}

/** Locks out other processes until the transaction ends. */
export function* lock(sql: string, ...params: Statement['params']): Steps<void> {
  yield { sql, params, isLock: true }
}

/** The owner filter of [Auth 7] on the n-th parameter: own rows and rows without an owner; everything for null. */
export function ownedBy(n: number): string {
  return `(CAST($${n} AS text) IS NULL OR user_id = $${n} OR user_id IS NULL)`
}

/** The same for rows of a thread, which must not have been removed. */
export function visibleTo(n: number): string {
  return `${ownedBy(n)} AND ${PRESENT}`
}

/** `$1, $2...`: n parameters. */
export function places(n: number): string {
  return Array.from({ length: n }, (_, at) => `$${at + 1}`).join(', ')
}

// ------------------------------------------------------------------ JSON in columns the store has written itself

export function parseObject(text: string): JsonObject {
  // The column is only ever written from a JsonObject.
  return JSON.parse(text) as JsonObject
}

/** The row with members that are parsed when they are read: in a long list most never are. */
export function withObjects<Row extends object, Name extends string>(
  row: Row,
  texts: Readonly<Record<Name, string>>
): Row & Readonly<Record<Name, JsonObject>> {
  for (const [name, text] of Object.entries<string>(texts))
    Object.defineProperty(row, name, { enumerable: true, configurable: true, get: () => parseObject(text) })
  // The members that were just defined.
  return row as Row & Readonly<Record<Name, JsonObject>>
}

export function parseJson(text: string): Json {
  // The text is only ever written from Json.
  return JSON.parse(text) as Json
}
