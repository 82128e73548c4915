// What every noun of this store needs to go between rows and records: how to ask, JSON columns, the owner filter, refusals.
import type { UserArg } from '../../scope.ts'
import type { Json, JsonObject } from '../../types.ts'
import type { Op, OpName, OpOf, Result } from '../store.ts'
import type { Batch } from './batch.ts'

/** One parameter of a statement. Lists go as text, see text.ts. */
export type Param = string | number | boolean | null | Uint8Array

/** Who answers statements: the pool for reads, the transaction of a batch for writes. Parameters are $1, $2... in the SQL. */
export interface Db {
  /** The rows that a statement answers with. */
  rows<Row>(sql: string, params?: readonly Param[]): Promise<Row[]>
  /** How many rows a statement has changed. */
  changes(sql: string, params?: readonly Param[]): Promise<number>
}

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { readonly [P in K]: (op: OpOf<P>, batch: Batch) => Promise<Result<P>> }
export type AnyWriter = (op: Op, batch: Batch) => Promise<unknown>

/** A group that must not be written: its run or request learns the message, the others of the batch are kept [Store 2]. */
export class Refused extends Error {}

/** JSON of a column that this store wrote itself. */
export function parseObject(text: string): JsonObject {
  // The column is only ever written from a JsonObject.
  return JSON.parse(text) as JsonObject
}
export function parseJson(text: string): Json {
  return JSON.parse(text) as Json
}

/** The owner filter of [Auth 7] as SQL, for the n-th parameter: own rows and rows without an owner, or everything for null. */
export function owned(n: number): string {
  return `($${n}::text IS NULL OR user_id = $${n} OR user_id IS NULL)`
}

/**
 * The user of an op, which its writer has resolved [Auth 7].
 * @throws Refused when it has not: nothing may be written unfiltered by mistake.
 */
export function resolved(user: UserArg): string | null {
  if (user === undefined) throw new Refused('the user of this op was not resolved')
  return user
}

/** `$from, $from+1, ...`: n parameters. */
export function params(from: number, n: number): string {
  return Array.from({ length: n }, (_, at) => `$${from + at}`).join(', ')
}
