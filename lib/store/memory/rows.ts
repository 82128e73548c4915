// What every noun of this store needs between records and callers: copies at the border, the owner filter, order.
import type { Op, OpName, OpOf, Result } from '../store.ts'
import type { Undo } from './undo.ts'

/** The writing functions of one noun, by op. They change maps at once and tell `undo` how to take it back. */
export type Writers<K extends OpName> = { readonly [P in K]: (op: OpOf<P>, undo: Undo) => Result<P> }
export type AnyWriter = (op: Op, undo: Undo) => unknown

/** One noun of the store: what reads it and what writes it, over the same maps. */
export interface Noun<Reads, K extends OpName> {
  readonly reads: Reads
  readonly writes: Writers<K>
}

/** A noun whose records belong to threads, and go with them. */
export interface Belonging {
  /** Removes everything that belongs to the thread. */
  forget(threadId: string, undo: Undo): void
}

/**
 * A copy of plain data. Everything that enters or leaves the store goes through it: a caller that changes what it gave or
 * got would otherwise change what is stored. Bytes are copied by hand, because structuredClone of a view would copy the
 * whole slab that it is a view of.
 */
export function copyOf<T>(value: T): T {
  if (value === null || typeof value !== 'object') return value
  if (value instanceof Uint8Array) return new Uint8Array(value) as T // a Buffer becomes what the interface promises
  if (Array.isArray(value)) return value.map(copyOf) as T // same elements, same type
  // fromEntries defines members and does not assign them, so that a key named __proto__ stays a key.
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, copyOf(member)])) as T
}

/** What plain data takes in memory, in bytes, about: texts by their characters, everything else by the piece. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length
  if (value === null || typeof value !== 'object') return 8
  if (value instanceof Uint8Array) return 64 + value.length
  let bytes = 32
  for (const member of Object.values(value)) bytes += 16 + sizeOf(member)
  return bytes
}

/** Index of the first item of an ascending list that is not below: where a page begins, or an item belongs. */
export function firstNotBelow<T>(list: readonly T[], isBelow: (item: T) => boolean): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBelow(list[middle]!)) low = middle + 1
    else high = middle
  }
  return low
}

/** Order of two texts by code unit, as `sort` wants it. */
export function byText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0
}
