// The search for threads in SQLite.
import type Database from 'better-sqlite3'
import type { Owner } from '../../scope.ts'
import { COLUMNS, type ThreadRow, orderOf, toThread } from '../sql/threads.ts'
import type { ThreadPage, ThreadQuery } from '../store.ts'
import { termSearch } from './term-search.ts'
import { termTexts } from './terms.ts'
import type { ThreadCounts } from './thread-counts.ts'

/** A condition of a search, and what it binds. */
interface Condition {
  readonly sql: string
  readonly params: readonly (string | number)[]
}

function conditions({ status, ids }: ThreadQuery, terms: readonly string[]): Condition[] {
  const all: Condition[] = []
  if (status) all.push({ sql: 'status = ?', params: [status] })
  if (ids) all.push({ sql: 'thread_id IN (SELECT value FROM json_each(?))', params: [JSON.stringify(ids)] })
  for (const term of terms) {
    const sql =
      'EXISTS (SELECT 1 FROM thread_terms WHERE owner = coalesce(user_id, 0) AND term = ? AND thread_key = key)'
    all.push({ sql, params: [term] })
  }
  return all
}

/** Answers searches of an owner, or of null, who sees everything. */
export function threadSearch(
  db: Database.Database,
  counts: ThreadCounts
): (query: ThreadQuery, owner: Owner) => ThreadPage {
  const byTerms = termSearch(db)

  /** Reads the threads of the owner, newest first, or those with the ids. */
  const amongThreads = (query: ThreadQuery, terms: readonly string[], owner: Owner): ThreadPage => {
    const all = conditions(query, terms)
    const params = all.flatMap((one) => one.params)
    // One's own and what nobody owns are looked for one after the other: each in the order of its index, which "or" would lose.
    const owners: readonly Condition[] =
      owner === null
        ? [{ sql: 'TRUE', params: [] }]
        : [
            { sql: 'user_id = ?', params: [owner] },
            { sql: 'user_id IS NULL', params: [] }
          ]
    const wheres = owners.map(({ sql }) => [sql, ...all.map((one) => one.sql)].join(' AND '))
    const bound = owners.map((one) => [...one.params, ...params])
    const order = orderOf(query)
    const end = query.offset + query.limit
    const parts = wheres.map(
      (where) => `SELECT * FROM (SELECT ${COLUMNS} FROM threads_meta WHERE ${where} ORDER BY ${order} LIMIT ?)`
    )
    const rows = db
      .prepare<(string | number)[], ThreadRow>(`${parts.join(' UNION ALL ')} ORDER BY ${order} LIMIT ? OFFSET ?`)
      .all(...bound.flatMap((one) => [...one, end]), query.limit, query.offset)
    const count = () =>
      db
        .prepare<(string | number)[], { total: number }>(
          `SELECT ${wheres.map((where) => `(SELECT count(*) FROM threads_meta WHERE ${where})`).join(' + ')} AS total`
        )
        .get(...bound.flat())?.total ?? 0
    // Without a filter it is a number that changes only when threads come and go.
    const total = all.length > 0 ? count() : counts.of(owner, count)
    return { threads: rows.map(toThread), total }
  }

  return (query, owner) => {
    const terms = termTexts(query.metadata ?? {})
    // Terms are kept by owner, and ids are fewer than any of them has.
    if (terms.length === 0 || query.ids || owner === null) return amongThreads(query, terms, owner)
    return byTerms(query, terms, owner)
  }
}
