// Thread search as SQL for both databases. Only the conditions asked for; own threads and ownerless ones are separate
// parts, each in the order of its index, which an "or" would lose.
import { createHash } from 'node:crypto'
import type { Owner } from '../../base/scope.ts'
import type { ThreadQuery } from '../store.ts'
import { COLUMNS, orderOf, sortColumn } from './threads.ts'
import type { Json, JsonObject } from '../../base/types.ts'

// ---------------------------------------------------------- Metadata for searching: one term per top-level entry

/**
 * A digest of each entry: of key and typed value, with object keys sorted. Entries come from outside, of any length and
 * with any characters; digests are neither.
 */
export function metadataDigests(metadata: JsonObject): Buffer[] {
  return Object.entries(metadata).map((entry) =>
    createHash('sha256')
      .update(JSON.stringify(entry.map(inOrder)))
      .digest()
  )
}

function inOrder(value: Json): Json {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(inOrder)
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(entries.map(([key, member]) => [key, inOrder(member)]))
}

/** How a database tests for membership in a list, and for all of several terms; given the parameter's name. */
export interface SearchDialect {
  isIn(column: string, list: string): string
  hasTerms(terms: string): string
}

interface Bound {
  readonly sql: string
  readonly params: readonly (string | number)[]
}

/** Lists in the database's form; null: no condition. */
interface SearchLists {
  readonly ids: string | null
  readonly terms: string | null
}

export function pageStatement(query: ThreadQuery, owner: Owner, lists: SearchLists, dialect: SearchDialect): Bound {
  return bound((bind) => {
    const end = bind(query.offset + query.limit)
    const parts = wheresOf(query, owner, lists, dialect, bind).map(
      // The user is constant in each part, even NULL, but PostgreSQL only uses the index order when told so.
      (where, at) => `SELECT * FROM (SELECT ${COLUMNS} FROM threads_meta WHERE ${where}
        ORDER BY ${owner === null ? '' : `user_id ${query.sortOrder ?? 'desc'}, `}${orderOf(query)} LIMIT ${end}) AS part_${at}`
    )
    return `${parts.join(' UNION ALL ')} ORDER BY ${orderOf(query)} LIMIT ${bind(query.limit)} OFFSET ${bind(query.offset)}`
  })
}

export function countStatement(query: ThreadQuery, owner: Owner, lists: SearchLists, dialect: SearchDialect): Bound {
  return bound((bind) => {
    const wheres = wheresOf(query, owner, lists, dialect, bind)
    return `SELECT ${wheres.map((where) => `(SELECT count(*) FROM threads_meta WHERE ${where})`).join(' + ')} AS total`
  })
}

/** Whether a few rows of an index answer it: no condition but the status, in an order an index has. */
export function isShort(query: ThreadQuery, { ids, terms }: SearchLists): boolean {
  if (ids !== null) return true
  if (terms !== null || query.offset + query.limit > SHORT_ROWS) return false
  const column = sortColumn(query)
  return query.status ? column === 'updated_at' : column !== 'status'
}

/** Rows that are read quickly: a page, and some before it. */
const SHORT_ROWS = 1000

type Bind = (value: string | number) => string

function bound(make: (bind: Bind) => string): Bound {
  const params: (string | number)[] = []
  const sql = make((value) => `$${params.push(value)}`)
  return { sql, params }
}

/** The conditions, once per part of what the owner may see. */
function wheresOf(
  { status }: ThreadQuery,
  owner: Owner,
  { ids, terms }: SearchLists,
  dialect: SearchDialect,
  bind: Bind
): string[] {
  // Those that are made for one run are nobody's to find.
  const all: string[] = ['is_temporary = 0']
  if (status) all.push(`status = ${bind(status)}`)
  if (ids !== null) all.push(dialect.isIn('thread_id', bind(ids)))
  if (terms !== null) all.push(dialect.hasTerms(bind(terms)))
  const scopes = owner === null ? ['TRUE'] : [`user_id = ${bind(owner)}`, 'user_id IS NULL']
  return scopes.map((scope) => [scope, ...all].join(' AND '))
}
