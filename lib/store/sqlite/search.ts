// The search for threads in SQLite.
import type Database from 'better-sqlite3'
import type { Owner } from '../../scope.ts'
import { COLUMNS, type ThreadRow, orderOf, toThread } from '../sql/threads.ts'
import type { Group, ThreadPage, ThreadQuery } from '../store.ts'
import { Counts } from './counts.ts'
import { TermSearch } from './term-search.ts'
import { termTexts } from './terms.ts'

/** A condition of a search, and what it binds. */
interface Condition {
  readonly sql: string
  readonly params: readonly (string | number)[]
}

function conditions({ status, ids }: ThreadQuery, terms: readonly string[]): Condition[] {
  const all: Condition[] = []
  if (status) all.push({ sql: 'status = ?', params: [status] })
  if (ids) all.push({ sql: 'thread_id IN (SELECT value FROM json_each(?))', params: [JSON.stringify(ids)] })
  if (terms.length > 0) {
    const has =
      'SELECT 1 FROM thread_terms WHERE owner = coalesce(user_id, 0) AND term = w.value AND thread_key = threads_meta.key'
    const sql = `NOT EXISTS (SELECT 1 FROM json_each(?) AS w WHERE NOT EXISTS (${has}))`
    all.push({ sql, params: [JSON.stringify(terms)] })
  }
  return all
}

/** Answers searches of an owner, or of null, who sees everything. */
export class ThreadSearch {
  readonly #db: Database.Database
  readonly #byTerms: TermSearch
  /** How many threads each owner sees. */
  readonly #totals = new Counts<Owner, number>(['thread.create', 'thread.remove'])

  constructor(db: Database.Database) {
    this.#db = db
    this.#byTerms = new TermSearch(db)
  }

  page(query: ThreadQuery, owner: Owner): ThreadPage {
    const terms = termTexts(query.metadata ?? {})
    // Terms are kept by owner; and who names ids names few.
    if (terms.length === 0 || query.ids || owner === null) return this.#amongThreads(query, terms, owner)
    return this.#byTerms.page(query, terms, owner)
  }

  /** These were written. To be told before anybody hears of it [Store 4]. */
  written(groups: readonly Group[]): void {
    this.#totals.written(groups)
    this.#byTerms.written(groups)
  }

  /** Reads the threads of the owner in their order, or those with the ids. */
  #amongThreads(query: ThreadQuery, terms: readonly string[], owner: Owner): ThreadPage {
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
    const rows = this.#db
      .prepare<(string | number)[], ThreadRow>(`${parts.join(' UNION ALL ')} ORDER BY ${order} LIMIT ? OFFSET ?`)
      .all(...bound.flatMap((one) => [...one, end]), query.limit, query.offset)
    const count = () =>
      this.#db
        .prepare<(string | number)[], { total: number }>(
          `SELECT ${wheres.map((where) => `(SELECT count(*) FROM threads_meta WHERE ${where})`).join(' + ')} AS total`
        )
        .get(...bound.flat())?.total ?? 0
    // Without a filter it is a number that changes only when threads come and go.
    const total = all.length > 0 ? count() : this.#totals.of(owner, count)
    return { threads: rows.map(toThread), total }
  }
}
