// What every noun of this store needs to go between rows and records: JSON columns, the owner filter, refusals.
import type { Json, JsonObject } from '../../types.ts'
import type { Op, OpName, OpOf, Result } from '../store.ts'
import type { UserArg } from '../../scope.ts'
import { ownerOf } from '../../scope.ts'

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { [P in K]: (op: OpOf<P>) => Result<P> }
export type AnyWriter = (op: Op) => unknown

/** A group that must not be written: its run or request learns the message, the others of the batch are kept. */
export class Refused extends Error {}

/** JSON of a column that this store wrote itself. */
export function parseObject(text: string): JsonObject {
  // The column is only ever written from a JsonObject.
  return JSON.parse(text) as JsonObject
}
export function parseJson(text: string): Json {
  return JSON.parse(text) as Json
}

/**
 * The owner filter of [Auth 7] as SQL: own rows and rows without an owner, or everything when the argument is null.
 * Bind the answer of `ownerParam` to @owner.
 */
export const OWNED = '(@owner IS NULL OR user_id = @owner OR user_id IS NULL)'
export function ownerParam(user: UserArg, method: string): string | null {
  return ownerOf(user, method)
}

/**
 * The user of an op, which its writer has resolved [Auth 7].
 * @throws Refused when it has not: nothing may be written unfiltered by mistake.
 */
export function resolved(user: UserArg): string | null {
  if (user === undefined) throw new Refused('the user of this op was not resolved')
  return user
}
