// Types for the writes of this store.
import type { OpName, OpOf, Result } from '../store.ts'
import type { EventTexts } from './event-texts.ts'

/** An op in the form the writer thread takes. */
type WriterOpOf<K extends OpName> = K extends 'events.append' ? EventTexts : OpOf<K>
export type WriterOp = WriterOpOf<OpName>

export interface WriterGroup {
  readonly ops: readonly WriterOp[]
}

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { [P in K]: (op: WriterOpOf<P>) => Result<P> }
export type AnyWriter = (op: WriterOp) => unknown
