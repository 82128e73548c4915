// Types for the writes of this store.
import type { Op, OpName, OpOf, Result } from '../store.ts'
import type { Batch } from './batch.ts'

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { readonly [P in K]: (op: OpOf<P>, batch: Batch) => Promise<Result<P>> }
export type AnyWriter = (op: Op, batch: Batch) => Promise<unknown>
