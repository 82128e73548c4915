// Pages of a list: order, limit and offset, selected members, pagination headers.
import * as v from 'valibot'
import type { Reply } from '../http/route.ts'
import { jsonList } from '../http/reply.ts'
import { integer } from '../http/schema.ts'

const LIMIT_MAX = 1_000

export const pageEntries = {
  limit: v.nullish(integer({ min: 1, max: LIMIT_MAX }), 10),
  offset: v.nullish(integer({ min: 0 }), 0)
}
export const orderEntry = v.nullish(v.picklist(['asc', 'desc']), 'desc')

interface PageOf {
  readonly limit: number
  readonly offset: number
  readonly select?: readonly string[] | null | undefined
}

export async function pageReply(all: readonly object[], { limit, offset, select }: PageOf): Promise<Reply> {
  const textOf = (one: object) => JSON.stringify(select ? pick(one, select) : one)
  const { jsonText, count } = await jsonList(all.slice(offset, offset + limit), textOf)
  return { jsonText, headers: paginationHeaders(all.length, offset, count) }
}

/** @param count items in this page; an empty page has no next one */
export function paginationHeaders(total: number, offset: number, count: number): Record<string, string> {
  const next = offset + count
  return {
    'X-Pagination-Total': String(total),
    ...(next < total && count > 0 && { 'X-Pagination-Next': String(next) })
  }
}

/** The named members of an object. */
export function pick(record: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)))
}

/** Sorted by a text member, then by id. null counts as ''. */
export function sorted<One extends Readonly<Record<Key, string | null>>, Key extends string>(
  list: readonly One[],
  by: Key,
  id: Key,
  order: 'asc' | 'desc'
): One[] {
  const direction = order === 'asc' ? 1 : -1
  return list.toSorted((one, other) => direction * (compare(one[by], other[by]) || compare(one[id], other[id])))
}

function compare(one: string | null, other: string | null): number {
  const [left, right] = [one ?? '', other ?? '']
  return left < right ? -1 : left > right ? 1 : 0
}
