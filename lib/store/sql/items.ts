// Items of the long-term store in SQL, one text for both databases.
import type { Owner } from '../../base/scope.ts'
import { type StoreItem, type Timestamp, timestamp, isObject, type Json, type JsonObject } from '../../base/types.ts'
import type { ItemQuery, ItemReads, Namespace, NamespaceQuery } from '../store.ts'
import { needsNoHold, UNHELD_USER } from './holds.ts'
import { ask, askOne, parseObject, type RunSteps, type Statement, type Steps, type StepWrites } from './steps.ts'
import { isDeepStrictEqual } from 'node:util'

interface ItemRow {
  readonly namespace: string
  readonly key: string
  readonly value_json: string
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

type ItemHead = Pick<ItemRow, 'namespace' | 'key' | 'updated_at'> & { readonly bytes: number }

const COLUMNS = 'namespace, key, value_json, created_at, updated_at'
const HEAD = 'namespace, key, updated_at, bytes'
/** Heads read at a time, and values: one turn of the event loop. */
const HEADS = 1000
const SLICE = { rows: 100, bytes: 512 * 1024 }
/** Characters of all values of an answer, at most; at least one item is returned. */
const ANSWER_LENGTH = 4 * 1024 * 1024
/** Expired items deleted per write: more than it adds, so that they never pile up. */
const SWEPT_AT_ONCE = 20

function toItem({ namespace, value_json, ...row }: ItemRow): StoreItem {
  return { ...row, namespace: namespaceOf(namespace), value: parseObject(value_json) }
}

type Value = Statement['params'][number]
type Bind = (value: Value) => string

/** Conditions on items of a user that have not expired. */
function where(owner: Owner, conditions: (bind: Bind) => string[]): { readonly sql: string; readonly params: Value[] } {
  const params: Value[] = []
  const bind: Bind = (value) => `$${params.push(value)}`
  const all = [`(expires_at IS NULL OR expires_at > ${bind(timestamp())})`, ...conditions(bind)]
  // Two statements instead of an "or": so an index serves everyone but the system.
  if (owner !== null) all.push(`user_id = ${bind(owner)}`)
  return { sql: all.join(' AND '), params }
}

/** A label ends with a dot, and `/` is the next character after it: everything under a namespace is one range. */
function below(prefix: Namespace, bind: Bind): string[] {
  if (prefix.length === 0) return []
  const text = namespaceText(prefix)
  return [`(namespace = ${bind(text)} OR (namespace >= ${bind(`${text}.`)} AND namespace < ${bind(`${text}/`)}))`]
}

function* get(namespace: Namespace, key: string, owner: Owner): Steps<StoreItem | null> {
  const { sql, params } = where(owner, (bind) => [
    `namespace = ${bind(namespaceText(namespace))}`,
    `key = ${bind(key)}`
  ])
  const [row] = yield* ask<ItemRow>(
    `SELECT ${COLUMNS} FROM store_items WHERE ${sql} ORDER BY updated_at DESC LIMIT 1`,
    ...params
  )
  return row ? toItem(row) : null
}

function* search(query: ItemQuery, owner: Owner): Steps<StoreItem[]> {
  const { filter, limit } = query
  const found: StoreItem[] = []
  let skip = filter ? query.offset : 0
  let left = ANSWER_LENGTH
  let last: ItemHead | undefined
  for (;;) {
    // Without a filter the database does the paging.
    const page = filter || last ? { limit: HEADS, offset: 0 } : { limit: Math.min(limit, HEADS), offset: query.offset }
    const heads: readonly ItemHead[] = yield* newest<ItemHead>(HEAD, query, owner, { ...page, after: last })
    for (const slice of slicesOf(heads)) {
      for (const row of yield* newest<ItemRow>(COLUMNS, query, owner, {
        limit: slice.length,
        offset: 0,
        from: slice[0]
      })) {
        const item = toItem(row)
        if (filter && (!matchesFilter(item.value, filter) || skip-- > 0)) continue
        left -= row.value_json.length
        if (left < 0 && found.length > 0) return found
        found.push(item)
        if (found.length === limit) return found
      }
    }
    if (heads.length < page.limit) return found
    last = heads.at(-1)
  }
}

/** Heads whose values are read together; a single value may be larger. */
function slicesOf(heads: readonly ItemHead[]): ItemHead[][] {
  const slices: ItemHead[][] = []
  let left = 0
  for (const head of heads) {
    const slice = slices.at(-1)
    left -= head.bytes
    if (slice && left >= 0 && slice.length < SLICE.rows) slice.push(head)
    else {
      slices.push([head])
      left = SLICE.bytes - head.bytes
    }
  }
  return slices
}

interface Page {
  readonly limit: number
  readonly offset: number
  /** The last row of the previous page. */
  readonly after?: ItemHead | undefined
  /** The first one of this. */
  readonly from?: ItemHead | undefined
}

function* newest<Row>(columns: string, { prefix }: ItemQuery, owner: Owner, page: Page): Steps<readonly Row[]> {
  const { limit, offset, after, from = after } = page
  const { sql, params } = where(owner, (bind) => [
    ...below(prefix, bind),
    ...(from
      ? [
          `(updated_at, namespace, key) ${after ? '<' : '<='} (${bind(from.updated_at)}, ${bind(from.namespace)}, ${bind(from.key)})`
        ]
      : [])
  ])
  const text = `SELECT ${columns} FROM store_items WHERE ${sql} ORDER BY updated_at DESC, namespace DESC, key DESC`
  const end = params.length
  return yield* ask<Row>(`${text} LIMIT $${end + 1} OFFSET $${end + 2}`, ...params, limit, offset)
}

function* namespaces(query: NamespaceQuery, owner: Owner): Steps<string[][]> {
  const labels = query.prefix ?? []
  const wild = labels.indexOf('*')
  const { sql, params } = where(owner, (bind) => below(wild === -1 ? labels : labels.slice(0, wild), bind))
  const found = yield* ask<{ namespace: string }>(`SELECT DISTINCT namespace FROM store_items WHERE ${sql}`, ...params)
  return pageOfNamespaces(
    found.map(({ namespace }) => namespace),
    query
  )
}

export function itemReads(run: RunSteps, runLong: RunSteps = run): ItemReads {
  return {
    get: (namespace, key, user) => run(get(namespace, key, user)),
    // May read many rows.
    search: (query, user) => runLong(search(query, user)),
    namespaces: (query, user) => runLong(namespaces(query, user))
  }
}

/** Counts a user's items. Under the row lock, so that two processes cannot both take the last place. */
function* totalsOf(user: string): Steps<{ readonly items: number; readonly bytes: number }> {
  const sql = `INSERT INTO store_totals (user_id, items, bytes) VALUES ($1, 0, 0)
    ON CONFLICT (user_id) DO UPDATE SET items = store_totals.items RETURNING items, bytes`
  const [row] = yield* ask<{ items: number; bytes: number }>(sql, user)
  return row!
}

function* addToTotals(user: string, items: number, bytes: number): Steps<void> {
  const sql = 'UPDATE store_totals SET items = items + $2, bytes = bytes + $3 WHERE user_id = $1'
  yield* ask(sql, user, items, bytes)
}

/** Deletes some expired items; returns how much that freed. */
function* sweep(user: string, now: Timestamp): Steps<{ readonly items: number; readonly bytes: number }> {
  const sql = `DELETE FROM store_items WHERE user_id = $1 AND (namespace, key) IN (
      SELECT namespace, key FROM store_items WHERE user_id = $1 AND expires_at <= $2 AND ${UNHELD_USER} LIMIT ${SWEPT_AT_ONCE})
    RETURNING bytes`
  const gone = yield* ask<{ bytes: number }>(sql, user, now)
  return { items: gone.length, bytes: gone.reduce((sum, { bytes }) => sum + bytes, 0) }
}

type Address = readonly [user: string, namespace: string, key: string]

function* hasOtherValue(address: Address, value: JsonObject): Steps<boolean> {
  const sql = 'SELECT value_json FROM store_items WHERE user_id = $1 AND namespace = $2 AND key = $3'
  const before = yield* askOne<Pick<ItemRow, 'value_json'>>(sql, ...address)
  return before !== undefined && !isDeepStrictEqual(parseObject(before.value_json), value)
}

export const itemWrites: StepWrites<'item.put' | 'item.remove'> = {
  *'item.put'({ item: { user_id, namespace, key, value, expires_at }, now, max, isEdit = false }) {
    const address = [user_id, namespaceText(namespace), key] as const
    if (isEdit && (yield* hasOtherValue(address, value))) yield* needsNoHold('user', user_id)
    const json = JSON.stringify(value)
    const bytes = Buffer.byteLength(json)
    const totals = yield* totalsOf(user_id)
    const swept = yield* sweep(user_id, now)
    const find = 'SELECT bytes FROM store_items WHERE user_id = $1 AND namespace = $2 AND key = $3'
    const [before] = yield* ask<{ bytes: number }>(find, ...address)
    const items = (before ? 0 : 1) - swept.items
    const more = bytes - (before?.bytes ?? 0) - swept.bytes
    if (isOver(items, totals.items, max.items) || isOver(more, totals.bytes, max.bytes)) {
      yield* addToTotals(user_id, -swept.items, -swept.bytes)
      return 'too_many'
    }
    // An expired item under the same key does not count: this one is new.
    const put = `INSERT INTO store_items (user_id, ${COLUMNS}, bytes, expires_at) VALUES ($1, $2, $3, $4, $5, $5, $6, $7)
      ON CONFLICT (user_id, namespace, key) DO UPDATE SET value_json = excluded.value_json, bytes = excluded.bytes,
        updated_at = excluded.updated_at, expires_at = excluded.expires_at, created_at =
        CASE WHEN store_items.expires_at <= excluded.updated_at THEN excluded.created_at ELSE store_items.created_at END`
    yield* ask(put, ...address, json, now, bytes, expires_at)
    yield* addToTotals(user_id, items, more)
    return 'written'
  },

  *'item.remove'({ namespace, key, user }) {
    yield* needsNoHold('user', user)
    // Locks the totals first, as every writer of items does: another order could deadlock.
    if (user !== null) yield* totalsOf(user)
    const sql = 'DELETE FROM store_items WHERE namespace = $1 AND key = $2'
    const gone = yield* ask<{ user_id: string; bytes: number }>(
      `${sql}${user === null ? '' : ' AND user_id = $3'} RETURNING user_id, bytes`,
      namespaceText(namespace),
      key,
      ...(user === null ? [] : [user])
    )
    for (const one of gone) yield* addToTotals(one.user_id, -1, -one.bytes)
    return gone.length > 0
  }
}

function isOver(more: number, total: number, limit: number): boolean {
  return limit > 0 && more > 0 && total + more > limit
}

/** Labels have no dots, so this is one to one. */
function namespaceText(namespace: Namespace): string {
  return namespace.join('.')
}

function namespaceOf(text: string): string[] {
  return text.split('.')
}

const OPERATORS: Readonly<Record<string, (value: Json | undefined, wanted: Json) => boolean>> = {
  $eq: isDeepStrictEqual,
  $ne: (value, wanted) => !isDeepStrictEqual(value, wanted),
  $gt: (value, wanted) => compared(value, wanted, (order) => order > 0),
  $gte: (value, wanted) => compared(value, wanted, (order) => order >= 0),
  $lt: (value, wanted) => compared(value, wanted, (order) => order < 0),
  $lte: (value, wanted) => compared(value, wanted, (order) => order <= 0),
  $in: isAmong,
  $nin: (value, wanted) => !isAmong(value, wanted)
}

/** True when every member of the filter matches the value's member of that name. */
function matchesFilter(value: JsonObject, filter: JsonObject): boolean {
  return Object.entries(filter).every(([name, wanted]) =>
    fits(Object.hasOwn(value, name) ? value[name] : undefined, wanted)
  )
}

function fits(value: Json | undefined, wanted: Json): boolean {
  const names = isObject(wanted) ? Object.keys(wanted) : []
  // An object with only operators is a condition; anything else has to be equal.
  if (names.length === 0 || !names.every((name) => Object.hasOwn(OPERATORS, name)))
    return isDeepStrictEqual(value, wanted)
  // Only objects have members.
  return names.every((name) => OPERATORS[name]!(value, (wanted as JsonObject)[name]!))
}

function isAmong(value: Json | undefined, list: Json): boolean {
  return Array.isArray(list) && list.some((one) => isDeepStrictEqual(one, value))
}

/** Numbers compare with numbers and strings with strings; nothing else is ordered. */
function compared(value: Json | undefined, wanted: Json, isRight: (order: number) => boolean): boolean {
  if (typeof value === 'number' && typeof wanted === 'number') return isRight(value - wanted)
  if (typeof value !== 'string' || typeof wanted !== 'string') return false
  return isRight(value < wanted ? -1 : value > wanted ? 1 : 0)
}

function pageOfNamespaces(all: Iterable<string>, query: NamespaceQuery): string[][] {
  const { prefix = [], suffix = [], maxDepth = Number.POSITIVE_INFINITY, limit, offset } = query
  const found = new Set<string>()
  for (const text of all) {
    const labels = namespaceOf(text)
    if (!fitsAt(labels, prefix, 0) || !fitsAt(labels, suffix, labels.length - suffix.length)) continue
    found.add(namespaceText(labels.slice(0, maxDepth)))
  }
  return [...found]
    .sort()
    .slice(offset, offset + limit)
    .map(namespaceOf)
}

function fitsAt(labels: readonly string[], pattern: Namespace, at: number): boolean {
  if (at < 0 || pattern.length > labels.length) return false
  return pattern.every((one, index) => one === '*' || one === labels[at + index])
}
