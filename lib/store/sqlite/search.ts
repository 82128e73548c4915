// Thread search in SQLite.
import type Database from 'better-sqlite3'
import type { Owner } from '../../base/scope.ts'
import { countStatement, isShort, pageStatement, type SearchDialect } from '../sql/thread-search.ts'
import { type ThreadRow, toThread } from '../sql/threads.ts'
import type { Group, OpName, ThreadPage, ThreadQuery } from '../store.ts'
import { bindings } from './connection.ts'
import type { Reader } from './reader.ts'
import { indexEntries, MetadataSearch } from './metadata-search.ts'

// --------------- Totals of searches, which would take long to count each time: cached until a write changes them

/** Maximum entries: more users than look at lists at once. */
const COUNTS_MAX = 10_000

export class TotalsCache<Key, Count> {
  readonly #known = new Map<Key, Count>()
  #version = 0

  known(key: Key): Count | undefined {
    return this.#known.get(key)
  }

  /** Changes with every invalidation. */
  get version(): number {
    return this.#version
  }

  /** Caches a total counted at `version`, unless it was invalidated meanwhile. */
  note(key: Key, count: Count, version: number): void {
    if (version !== this.#version) return
    if (this.#known.size >= COUNTS_MAX) this.#known.clear()
    this.#known.set(key, count)
  }

  /** Drops all totals: what they count has changed. */
  clear(): void {
    this.#version++
    this.#known.clear()
  }
}

const CHANGES: readonly OpName[] = ['thread.create', 'thread.patch', 'thread.remove']

/** How groups change the threads that are searched: nearly all are frames, which change nothing. */
export function threadChanges(groups: readonly Group[]): Set<OpName> {
  const found = new Set<OpName>()
  for (const { ops } of groups) for (const { name } of ops) if (CHANGES.includes(name)) found.add(name)
  return found
}

const DIALECT: SearchDialect = {
  isIn: (column, list) => `${column} IN (SELECT value FROM json_each(${list}))`,
  hasTerms: (terms) => `NOT EXISTS (SELECT 1 FROM json_each(${terms}) AS w WHERE NOT EXISTS (
    SELECT 1 FROM thread_terms WHERE owner = coalesce(user_id, 0) AND term = w.value AND thread_key = threads_meta.key))`
}

/** Where the rows of a statement come from: this thread, or the one for what may take long. */
type Ask = <Row>(sql: string, params: object) => Row[] | Promise<Row[]>

/** Searches for an owner; null sees everything. */
export class ThreadSearch {
  readonly #byTerms: MetadataSearch
  readonly #totals = new TotalsCache<Owner, number>()
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

  /** Called after writes, before they are acknowledged [Store 4]. */
  written(groups: readonly Group[]): void {
    const changes = threadChanges(groups)
    if (changes.size === 0) return
    this.#byTerms.clearTotals()
    // A patch moves no thread to another list.
    if (changes.has('thread.create') || changes.has('thread.remove')) this.#totals.clear()
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
    const known = hasFilter ? undefined : this.#totals.known(owner)
    if (known !== undefined) return { threads: rows.map(toThread), total: known }
    const count = countStatement(query, owner, lists, DIALECT)
    const version = this.#totals.version
    const [counted] = await ask<{ total: number }>(count.sql, bindings(count.params))
    if (!hasFilter) this.#totals.note(owner, counted!.total, version)
    return { threads: rows.map(toThread), total: counted!.total }
  }
}
