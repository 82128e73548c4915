// Thread search in SQLite.
import type Database from 'better-sqlite3'
import { LRUCache } from 'lru-cache'
import type { Owner } from '../../base/scope.ts'
import type { WordDialect } from '../sql/search.ts'
import { countStatement, isShort, metadataDigests, pageStatement, type SearchDialect } from '../sql/thread-search.ts'
import { COLUMNS, orderOf, sortColumn, type ThreadRow, toThread } from '../sql/threads.ts'
import type { OpName, ThreadPage, ThreadQuery } from '../store.ts'
import { bindings } from './connection.ts'
import type { Reader } from './reader.ts'
import type { JsonObject } from '../../base/types.ts'
import { parseObject } from '../sql/steps.ts'

// --------------------------------------------------- Searches threads by metadata, starting from the rarest term

// ----------------------------------------------------------------------------------------------------
// The metadata index in SQLite: which threads of an owner have an entry. Whatever writes metadata updates it.

/** Owner of an index row: a user, or nobody. */
type IndexOwner = string | 0

/** Bytes kept of a digest: enough to rule out collisions; there is one per entry and thread. */
const TERM_BYTES = 16

/** Terms of metadata, as the table stores them. */
function indexEntries(metadata: JsonObject): string[] {
  return metadataDigests(metadata).map((digest) => digest.toString('base64url', 0, TERM_BYTES))
}

/** `terms_of(json)`, for the migration that fills the table: the terms of metadata as a JSON list. */
export function addIndexFunction(db: Database.Database): void {
  db.function('terms_of', { deterministic: true }, (json) => JSON.stringify(indexEntries(parseObject(String(json)))))
}

interface MetadataIndexWrites {
  add(owner: string | null, key: number, metadata: JsonObject): void
  remove(owner: string | null, key: number, metadata: JsonObject): void
}

export function metadataIndexWrites(db: Database.Database): MetadataIndexWrites {
  const insert = db.prepare<[IndexOwner, string, number]>('INSERT INTO thread_terms VALUES (?, ?, ?)')
  const remove = db.prepare<[IndexOwner, string, number]>(
    'DELETE FROM thread_terms WHERE owner = ? AND term = ? AND thread_key = ?'
  )
  const each = (statement: typeof insert) => (owner: string | null, key: number, metadata: JsonObject) => {
    for (const term of indexEntries(metadata)) statement.run(owner ?? 0, term, key)
  }
  return { add: each(insert), remove: each(remove) }
}

/** One part of the search: own threads or ownerless ones, with their bindings and condition. */
const SCOPES = {
  own: { owner: '@owner', rows: 'user_id = @owner', term: '@own_term', span: '@own_span' },
  nobodys: { owner: '0', rows: 'user_id IS NULL', term: '@nobodys_term', span: '@nobodys_span' }
} as const
type Scope = (typeof SCOPES)[keyof typeof SCOPES]

interface SizeRow {
  readonly owner: IndexOwner
  /** The rarest term, and how many threads have it. */
  readonly term: string
  readonly entries: number
  /** Number of threads that match everything. */
  readonly total: number
}

interface Part extends SizeRow {
  readonly scope: Scope
  readonly way: 'walk' | 'collect'
}

/** Collecting this many entries costs at least as much as walking past one thread, twice: a failed walk adds little. */
const ENTRIES_A_STEP = 4

/** Up to this many are read at once; more are read off the event loop. */
const SHORT_ENTRIES = 1000

const WANTED = 'wanted AS MATERIALIZED (SELECT value AS term FROM json_each(@terms))'

const hasTerms = (owner: string, key: string) => `
  NOT EXISTS (SELECT 1 FROM wanted AS w WHERE NOT EXISTS (
    SELECT 1 FROM thread_terms AS h WHERE h.owner = ${owner} AND h.term = w.term AND h.thread_key = ${key}))`

/** Condition: a thread with the rarest term also has the others. `t` is its row. */
const hasRest = (owner: string) =>
  `(@has_one_term OR ${hasTerms(owner, 'one.thread_key')}) AND (@status IS NULL OR t.status = @status)`

const SIZES = `
  WITH ${WANTED},
    owners(owner) AS (VALUES (@owner), (0)),
    sizes AS (
      SELECT owner, term, (SELECT count(*) FROM thread_terms AS h WHERE h.owner = o.owner AND h.term = w.term) AS entries
      FROM owners AS o CROSS JOIN wanted AS w),
    -- Beside min() a column is that of the row that has it.
    rarest AS (SELECT owner, term, min(entries) AS entries FROM sizes GROUP BY owner)
  SELECT owner, term, entries, iif(@has_one_term AND @status IS NULL, entries, (
    SELECT count(*) FROM thread_terms AS one CROSS JOIN threads_meta AS t ON t.key = one.thread_key
    WHERE one.owner = rarest.owner AND one.term = rarest.term AND ${hasRest('one.owner')})) AS total
  FROM rarest`

/** Walks the newest threads of a part, down to where the walk ends. */
const walk = ({ owner, rows, span }: Scope) => `
  SELECT key, updated_at AS place, thread_id FROM threads_meta AS t INDEXED BY ix_threads_user_updated
  WHERE ${rows} AND is_temporary = 0 AND (updated_at, thread_id) >= (
      SELECT updated_at, thread_id FROM threads_meta INDEXED BY ix_threads_user_updated WHERE ${rows} AND is_temporary = 0
      ORDER BY updated_at DESC, thread_id DESC LIMIT 1 OFFSET ${span})
    AND ${hasTerms(owner, 't.key')} AND (@status IS NULL OR t.status = @status)
  ORDER BY updated_at DESC, thread_id DESC LIMIT @end`

/** Collects all threads with the term, in the requested order. `limit`: an expression. */
const collect = ({ owner, term }: Scope, query: ThreadQuery, limit: string) => `
  SELECT key, ${sortColumn(query)} AS place, thread_id
  FROM thread_terms AS one CROSS JOIN threads_meta AS t ON t.key = one.thread_key
  WHERE one.owner = ${owner} AND one.term = ${term} AND ${hasRest(owner)}
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
    // A condition would be asked for every entry; a limit of 0 reads none.
    const collected = collect(scope, query, `(SELECT iif(${isFull}, 0, @end))`)
    found.push(`SELECT * FROM ${walked} WHERE ${isFull}`, `SELECT * FROM (${collected})`)
  }
  return `
    WITH ${tables.join(', ')},
      found AS (${found.join(' UNION ALL ')} ORDER BY ${orderOf(query, 'place')} LIMIT @limit OFFSET @offset)
    SELECT ${COLUMNS} FROM (SELECT key AS found_key FROM found) CROSS JOIN threads_meta ON key = found_key
    ORDER BY ${orderOf(query)}`
}

/**
 * Two ways to find the newest: walk past all threads of the part from the newest on until the page is full, which is
 * quick when many have the term; or collect all that have it, which is quick when few do. The term's distribution is
 * unknown, so a walk is abandoned once it has cost a fraction of collecting.
 */
function wayOf({ sortBy = 'updated_at', sortOrder = 'desc', offset, limit }: ThreadQuery, { entries, total }: SizeRow) {
  const end = offset + limit
  const isNewest = sortBy === 'updated_at' && sortOrder === 'desc'
  return isNewest && total >= end && entries / ENTRIES_A_STEP >= end ? 'walk' : 'collect'
}

/** Searches of an owner by at least one term, in two statements at most. */
class MetadataSearch {
  readonly #db: Database.Database
  readonly #reader: Reader
  /** By SQL text; there is one per way, column and direction. */
  readonly #pages = new Map<string, Database.Statement<object, ThreadRow>>()
  /** Totals of searches for a single term, by owner and term. */
  readonly #known = new TotalsCache<readonly SizeRow[]>()

  constructor(db: Database.Database, reader: Reader) {
    this.#db = db
    this.#reader = reader
  }

  async page(query: ThreadQuery, terms: readonly string[], owner: string): Promise<ThreadPage> {
    const { status = null, limit, offset } = query
    const hasOneTerm = terms.length === 1
    const wanted = { owner, terms: JSON.stringify(terms), status, has_one_term: hasOneTerm ? 1 : 0 }
    const key = hasOneTerm && status === null ? `${terms[0]} ${owner}` : null
    const known = key === null ? undefined : this.#known.known(key)
    const version = this.#known.version
    const sizes = known ?? (await this.#reader.rows<SizeRow>(SIZES, wanted))
    if (key !== null) this.#known.note(key, sizes, version)
    const total = sizes.reduce((sum, one) => sum + one.total, 0)
    if (total <= offset) return { threads: [], total }

    const parts = sizes
      .filter((one) => one.total > 0)
      .map((one): Part => ({ ...one, scope: one.owner === 0 ? SCOPES.nobodys : SCOPES.own, way: wayOf(query, one) }))
    const bound = parts.flatMap(({ scope, term, entries }) => [
      [scope.term.slice(1), term],
      [scope.span.slice(1), Math.floor(entries / ENTRIES_A_STEP)]
    ])
    const sql = pageSql(query, parts)
    const params = { ...wanted, ...Object.fromEntries(bound), end: offset + limit, limit, offset }
    const isShort = parts.every(({ entries }) => entries <= SHORT_ENTRIES)
    const rows = isShort ? this.#prepared(sql).all(params) : await this.#reader.rows<ThreadRow>(sql, params)
    return { threads: rows.map(toThread), total }
  }

  /** Threads or their metadata have changed. */
  clearTotals(): void {
    this.#known.clear()
  }

  #prepared(sql: string): Database.Statement<object, ThreadRow> {
    const statement = this.#pages.get(sql) ?? this.#db.prepare<object, ThreadRow>(sql)
    this.#pages.set(sql, statement)
    return statement
  }
}

// --------------- Totals of searches, which would take long to count each time: cached until a write changes them

/** Maximum entries: more users than look at lists at once. */
const COUNTS_MAX = 10_000

class TotalsCache<Count> {
  readonly #known = new LRUCache<string, { readonly count: Count; readonly version: number }>({ max: COUNTS_MAX })
  #version = 0

  known(key: string): Count | undefined {
    const known = this.#known.get(key)
    return known?.version === this.#version ? known.count : undefined
  }

  /** Changes with every invalidation. */
  get version(): number {
    return this.#version
  }

  /** Caches a total counted at `version`, unless it was invalidated meanwhile. */
  note(key: string, count: Count, version: number): void {
    if (version !== this.#version) return
    this.#known.set(key, { count, version })
  }

  /** No total is used any more: what they count has changed. */
  clear(): void {
    this.#version++
  }
}

const DIALECT: SearchDialect = {
  isIn: (column, list) => `${column} IN (SELECT value FROM json_each(${list}))`,
  hasTerms: (terms) => `NOT EXISTS (SELECT 1 FROM json_each(${terms}) AS w WHERE NOT EXISTS (
    SELECT 1 FROM thread_terms WHERE owner = coalesce(user_id, 0) AND term = w.value AND thread_key = threads_meta.key))`
}

/** Looks at bits of a blob with a function of `connect`: SQL would read a list of JSON anew for every row. */
export const WORDS: WordDialect = { isSet: (column, n) => `has_places(${column}, $${n})` }

/** Ops that change the threads that are searched: nearly all others are frames. */
export const SEARCHED: ReadonlySet<OpName> = new Set(['thread.create', 'thread.patch', 'thread.remove'])

/** Where the rows of a statement come from: this thread, or the one for what may take long. */
type Ask = <Row>(sql: string, params: object) => Row[] | Promise<Row[]>

/** Searches for an owner; null sees everything. */
export class ThreadSearch {
  readonly #byTerms: MetadataSearch
  readonly #totals = new TotalsCache<number>()
  readonly #here: Ask
  readonly #beside: Ask

  constructor(db: Database.Database, reader: Reader) {
    this.#byTerms = new MetadataSearch(db, reader)
    // Rows are shaped by the SQL in the call.
    this.#here = <Row>(sql: string, params: object) => db.prepare<object>(sql).all(params) as Row[]
    this.#beside = (sql, params) => reader.rows(sql, params)
  }

  readonly search = async (query: ThreadQuery, owner: Owner): Promise<ThreadPage> => {
    const terms = indexEntries(query.metadata ?? {})
    // Terms are indexed by owner; and a list of ids is short.
    if (terms.length === 0 || query.ids || owner === null) return this.#amongThreads(query, terms, owner)
    return this.#byTerms.page(query, terms, owner)
  }

  /** Called for each op of `SEARCHED` that was written, before it is acknowledged [Store 4]. */
  written(op: OpName): void {
    this.#byTerms.clearTotals()
    // A patch moves no thread to another list.
    if (op !== 'thread.patch') this.#totals.clear()
  }

  /** Reads the owner's threads in order, or those with the ids. */
  async #amongThreads(query: ThreadQuery, terms: readonly string[], owner: Owner): Promise<ThreadPage> {
    const lists = {
      ids: query.ids ? JSON.stringify(query.ids) : null,
      terms: terms.length > 0 ? JSON.stringify(terms) : null
    }
    const ask = isShort(query, lists) ? this.#here : this.#beside
    const page = pageStatement(query, owner, lists, DIALECT)
    const rows = await ask<ThreadRow>(page.sql, bindings(page.params))
    // Without a filter the total changes only when threads come and go.
    const hasFilter = query.status || lists.ids !== null || lists.terms !== null
    const known = hasFilter ? undefined : this.#totals.known(owner ?? '')
    if (known !== undefined) return { threads: rows.map(toThread), total: known }
    const count = countStatement(query, owner, lists, DIALECT)
    const version = this.#totals.version
    const [counted] = await ask<{ total: number }>(count.sql, bindings(count.params))
    if (!hasFilter) this.#totals.note(owner ?? '', counted!.total, version)
    return { threads: rows.map(toThread), total: counted!.total }
  }
}
