// The search for threads as SQL that both databases take: only the conditions that are asked for, and one's own threads and those
// that nobody owns one after the other, each in the order of its index, which "or" would lose.
import type { Owner } from '../../scope.ts'
import type { ThreadQuery } from '../store.ts'
import { COLUMNS, orderOf, sortColumn } from './threads.ts'

/** How a database asks for a member of a list, and for all of some terms; given the parameter's name. */
export interface SearchDialect {
  isIn(column: string, list: string): string
  hasTerms(terms: string): string
}

/** A statement with $1, $2... and what they stand for. */
export interface Bound {
  readonly sql: string
  readonly params: readonly (string | number)[]
}

/** Lists as the database takes them; null: no condition. */
export interface SearchLists {
  readonly ids: string | null
  readonly terms: string | null
}

export function pageStatement(query: ThreadQuery, owner: Owner, lists: SearchLists, dialect: SearchDialect): Bound {
  return bound((bind) => {
    const end = bind(query.offset + query.limit)
    const parts = wheresOf(query, owner, lists, dialect, bind).map(
      // The user is the same in all of them, NULL too: PostgreSQL takes an index in its order only when told so.
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

/** Rows of an index, few of them, answer it: no condition but the status, in an order that an index has. */
export function isShort(query: ThreadQuery, { ids, terms }: SearchLists): boolean {
  if (ids !== null) return true
  if (terms !== null || query.offset + query.limit > SHORT_ROWS) return false
  const column = sortColumn(query)
  return query.status ? column === 'updated_at' : column !== 'status'
}

/** Rows that are read in no time: a page, and some before it. */
const SHORT_ROWS = 1000

type Bind = (value: string | number) => string

function bound(make: (bind: Bind) => string): Bound {
  const params: (string | number)[] = []
  const sql = make((value) => `$${params.push(value)}`)
  return { sql, params }
}

/** The conditions, once for each part of what the owner may see. */
function wheresOf(
  { status }: ThreadQuery,
  owner: Owner,
  { ids, terms }: SearchLists,
  dialect: SearchDialect,
  bind: Bind
): string[] {
  const all: string[] = []
  if (status) all.push(`status = ${bind(status)}`)
  if (ids !== null) all.push(dialect.isIn('thread_id', bind(ids)))
  if (terms !== null) all.push(dialect.hasTerms(bind(terms)))
  const scopes = owner === null ? ['TRUE'] : [`user_id = ${bind(owner)}`, 'user_id IS NULL']
  return scopes.map((scope) => [scope, ...all].join(' AND '))
}
