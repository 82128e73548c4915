// The search for threads by their metadata: among the entries of the rarest term that is asked for.
import type Database from 'better-sqlite3'
import { COLUMNS, type ThreadRow, orderOf, sortColumn, toThread } from '../sql/threads.ts'
import type { ThreadPage, ThreadQuery } from '../store.ts'
import type { TermOwner } from './terms.ts'

/** One's own threads, or those that nobody owns: the names of what is bound for them, and which rows they are. */
const SCOPES = {
  own: { owner: '@owner', rows: 'user_id = @owner', term: '@own_term', span: '@own_span' },
  nobodys: { owner: '0', rows: 'user_id IS NULL', term: '@nobodys_term', span: '@nobodys_span' }
} as const
type Scope = (typeof SCOPES)[keyof typeof SCOPES]

interface SizeRow {
  readonly owner: TermOwner
  /** The rarest of the terms, and how many threads have it. */
  readonly term: string
  readonly entries: number
  /** How many have all that is asked for. */
  readonly total: number
}

/** A scope in which there is something. */
interface Part extends SizeRow {
  readonly scope: Scope
  readonly way: 'walk' | 'collect'
}

/** How many entries are collected in the time in which one thread is walked past, and a few: a walk that failed cost little. */
const ENTRIES_A_STEP = 4

const WANTED = 'wanted AS MATERIALIZED (SELECT value AS term FROM json_each(@terms))'

/** Whether the thread with this key has all the terms, and the status. */
const hasAll = (owner: string, key: string) => `
  NOT EXISTS (SELECT 1 FROM wanted AS w WHERE NOT EXISTS (
    SELECT 1 FROM thread_terms AS h WHERE h.owner = ${owner} AND h.term = w.term AND h.thread_key = ${key}))
  AND (@status IS NULL OR (SELECT s.status FROM threads_meta AS s WHERE s.key = ${key}) = @status)`

const SIZES = `
  WITH ${WANTED},
    owners(owner) AS (VALUES (@owner), (0)),
    sizes AS (
      SELECT owner, term, (SELECT count(*) FROM thread_terms AS h WHERE h.owner = o.owner AND h.term = w.term) AS entries
      FROM owners AS o CROSS JOIN wanted AS w),
    -- Beside min() a column is that of the row that has it.
    rarest AS (SELECT owner, term, min(entries) AS entries FROM sizes GROUP BY owner)
  SELECT owner, term, entries, CASE WHEN @is_plain THEN entries ELSE (
    SELECT count(*) FROM thread_terms AS one
    WHERE one.owner = rarest.owner AND one.term = rarest.term AND ${hasAll('one.owner', 'one.thread_key')}) END AS total
  FROM rarest`

/** The first threads of one's own or of nobody's, from the newest on, down to where the walk ends. */
const walk = ({ owner, rows, span }: Scope) => `
  SELECT key, updated_at AS place, thread_id FROM threads_meta AS t INDEXED BY ix_threads_user_updated
  WHERE ${rows} AND (updated_at, thread_id) >= (
      SELECT updated_at, thread_id FROM threads_meta INDEXED BY ix_threads_user_updated WHERE ${rows}
      ORDER BY updated_at DESC, thread_id DESC LIMIT 1 OFFSET ${span})
    AND ${hasAll(owner, 't.key')}
  ORDER BY updated_at DESC, thread_id DESC LIMIT @end`

/** The first of all that have the term, in the order that is asked for. `limit`: as an expression. */
const collect = ({ owner, term }: Scope, query: ThreadQuery, limit: string) => `
  SELECT key, ${sortColumn(query)} AS place, thread_id
  FROM thread_terms AS one CROSS JOIN threads_meta AS t ON t.key = one.thread_key
  WHERE one.owner = ${owner} AND one.term = ${term} AND ${hasAll(owner, 'one.thread_key')}
  ORDER BY ${orderOf(query, 'place')} LIMIT ${limit}`

function pageSql(query: ThreadQuery, parts: readonly Part[]): string {
  const tables = [WANTED]
  const found: string[] = []
  for (const [index, { scope, way }] of parts.entries()) {
    if (way === 'collect') {
      found.push(`SELECT * FROM (${collect(scope, query, '@end')})`)
      continue
    }
    const walked = `walked_${index}`
    tables.push(`${walked} AS MATERIALIZED (${walk(scope)})`)
    const isFull = `(SELECT count(*) FROM ${walked}) = @end`
    found.push(
      `SELECT * FROM ${walked} WHERE ${isFull}`,
      `SELECT * FROM (${collect(scope, query, `(SELECT iif(${isFull}, 0, @end))`)})`
    )
  }
  return `
    WITH ${tables.join(', ')},
      found AS (${found.join(' UNION ALL ')} ORDER BY ${orderOf(query, 'place')} LIMIT @limit OFFSET @offset)
    SELECT ${COLUMNS} FROM (SELECT key AS found_key FROM found) CROSS JOIN threads_meta ON key = found_key
    ORDER BY ${orderOf(query)}`
}

/**
 * The newest are found in two ways: by walking past all threads from the newest on until the page is full, which is soon when many
 * have the term, or by collecting all that have it, which are few then. Nobody knows how the term lies among the threads; the walk
 * ends when it has cost a part of collecting.
 */
function wayOf({ sortBy = 'updated_at', sortOrder = 'desc', offset, limit }: ThreadQuery, { entries, total }: SizeRow) {
  const end = offset + limit
  const isNewest = sortBy === 'updated_at' && sortOrder === 'desc'
  return isNewest && total >= end && entries / ENTRIES_A_STEP >= end ? 'walk' : 'collect'
}

/** Answers a search by terms, at least one, of an owner: in two statements, of which the second is left out when nothing matches. */
export function termSearch(
  db: Database.Database
): (query: ThreadQuery, terms: readonly string[], owner: string) => ThreadPage {
  const sizes = db.prepare<object, SizeRow>(SIZES)
  // By their text, of which there are as many as ways, columns and directions.
  const pages = new Map<string, Database.Statement<object, ThreadRow>>()
  const prepared = (sql: string) => {
    const statement = pages.get(sql) ?? db.prepare<object, ThreadRow>(sql)
    pages.set(sql, statement)
    return statement
  }

  return (query, terms, owner) => {
    const { status = null, limit, offset } = query
    const wanted = { owner, terms: JSON.stringify(terms), status }
    const parts = sizes
      .all({ ...wanted, is_plain: terms.length === 1 && status === null ? 1 : 0 })
      .filter(({ total }) => total > 0)
      .map((row): Part => ({ ...row, scope: row.owner === 0 ? SCOPES.nobodys : SCOPES.own, way: wayOf(query, row) }))
    const total = parts.reduce((sum, part) => sum + part.total, 0)
    if (total <= offset) return { threads: [], total }
    const bound = Object.fromEntries(
      parts.flatMap(({ scope, term, entries }) => [
        [scope.term.slice(1), term],
        [scope.span.slice(1), Math.floor(entries / ENTRIES_A_STEP)]
      ])
    )
    const rows = prepared(pageSql(query, parts)).all({ ...wanted, ...bound, end: offset + limit, limit, offset })
    return { threads: rows.map(toThread), total }
  }
}
