// What every noun of this store needs to go between rows and records: its writers, and the owner filter.
import type { Op, OpName, OpOf, Result } from '../store.ts'

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { [P in K]: (op: OpOf<P>) => Result<P> }
export type AnyWriter = (op: Op) => unknown

/** The owner filter of [Auth 7] as SQL: own rows and rows without an owner, or everything when @owner is null. */
export const OWNED = '(@owner IS NULL OR user_id = @owner OR user_id IS NULL)'
