// Types for the writes of this store, and its owner filter.
import { PRESENT } from '../sql/removal.ts'
import type { OpName, OpOf, Result } from '../store.ts'
import type { EventTexts } from './event-texts.ts'

/** An op in the form the writer thread takes. */
export type WriterOpOf<K extends OpName> = K extends 'events.append' ? EventTexts : OpOf<K>
export type WriterOp = WriterOpOf<OpName>

export interface WriterGroup {
  readonly ops: readonly WriterOp[]
}

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { [P in K]: (op: WriterOpOf<P>) => Result<P> }
export type AnyWriter = (op: WriterOp) => unknown

/** The owner filter of [Auth 7] as SQL: own rows and rows without an owner, or everything when @owner is null. */
export const OWNED = '(@owner IS NULL OR user_id = @owner OR user_id IS NULL)'

/** The same of rows that belong to a thread, which must not have been removed. */
export const VISIBLE = `${OWNED} AND ${PRESENT}`
