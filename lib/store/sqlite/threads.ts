// Thread records in SQLite.
import type Database from 'better-sqlite3'
import { ownerOf } from '../../scope.ts'
import type { Json, JsonObject } from '../../types.ts'
import { resolved } from '../refused.ts'
import { parseObject } from '../sql/json.ts'
import { COLUMNS, SORT_COLUMNS, type ThreadRow, toThread } from '../sql/threads.ts'
import type { Group, Op, ThreadQuery, ThreadReads } from '../store.ts'
import { checkpointPut } from './checkpoints.ts'
import { OWNED, type Writers } from './rows.ts'

/** A condition of a search, and what it binds. */
interface Condition {
  readonly sql: string
  readonly params: readonly (string | number)[]
}

/**
 * One key of a metadata filter. Keys come from outside: they are bound, never written into the SQL. A path would read dots and
 * quotes in them, so the members are compared by name.
 */
function metadataCondition(key: string, value: Json): Condition {
  // The column holds what JSON.stringify has made: where these characters are not, the member is not. Looking for them costs a
  // twentieth of reading the JSON, which is then done for the rows that have them.
  const text =
    typeof value === 'object' && value !== null
      ? `${JSON.stringify(key)}:`
      : JSON.stringify({ [key]: value }).slice(1, -1)
  const member = (test: string, params: (string | number)[]): Condition => ({
    sql: `instr(metadata_json, ?) AND EXISTS (SELECT 1 FROM json_each(metadata_json) AS m WHERE m.key = ? AND ${test})`,
    params: [text, key, ...params]
  })
  if (value === null) return member("m.type = 'null'", [])
  if (typeof value === 'boolean') return member('m.type = ?', [value ? 'true' : 'false'])
  if (typeof value === 'number') return member("m.type IN ('integer', 'real') AND m.value = ?", [value])
  if (typeof value === 'string') return member("m.type = 'text' AND m.value = ?", [value])
  return member("m.type IN ('object', 'array') AND m.value = json(?)", [JSON.stringify(value)])
}

function conditions(query: ThreadQuery): Condition[] {
  const all: Condition[] = []
  if (query.status) all.push({ sql: 'status = ?', params: [query.status] })
  if (query.ids) all.push({ sql: 'thread_id IN (SELECT value FROM json_each(?))', params: [JSON.stringify(query.ids)] })
  for (const [key, value] of Object.entries(query.metadata ?? {})) all.push(metadataCondition(key, value))
  return all
}

/** Counts that are remembered: more users than these look at lists at one time. */
const COUNTS_MAX = 10_000

/** How many threads each owner sees: counted when it is asked for, and forgotten when a thread comes or goes. */
export class ThreadCounts {
  readonly #known = new Map<string | null, number>()

  of(owner: string | null, count: () => number): number {
    const known = this.#known.get(owner)
    if (known !== undefined) return known
    if (this.#known.size >= COUNTS_MAX) this.#known.clear()
    const counted = count()
    this.#known.set(owner, counted)
    return counted
  }

  /** These were written. To be told before anybody hears of it [Store 4]. */
  written(groups: readonly Group[]): void {
    const changes = ({ name }: Op) => name === 'thread.create' || name === 'thread.remove'
    if (groups.some(({ ops }) => ops.some(changes))) this.#known.clear()
  }
}

export function threadReads(db: Database.Database, counts: ThreadCounts): ThreadReads {
  const get = db.prepare<{ id: string; owner: string | null }, ThreadRow>(
    `SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = @id AND ${OWNED}`
  )
  const ownerOfThread = db.prepare<[string], { user_id: string | null }>(
    'SELECT user_id FROM threads_meta WHERE thread_id = ?'
  )
  return {
    async get(threadId, user) {
      const row = get.get({ id: threadId, owner: ownerOf(user, 'threads.get') })
      return row ? toThread(row) : null
    },
    async ownerOf(threadId) {
      return ownerOfThread.get(threadId)?.user_id
    },
    async search(query, user) {
      const owner = ownerOf(user, 'threads.search')
      const all = conditions(query)
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
      const order = `${SORT_COLUMNS[query.sortBy ?? 'updated_at']} ${query.sortOrder === 'asc' ? 'ASC' : 'DESC'}, thread_id DESC`
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
  }
}

type ThreadOps = 'thread.create' | 'thread.patch' | 'thread.remove'

/** Every table that has rows of a thread, save the thread's own and the frames, which know their run only. */
const TABLES_OF_A_THREAD = ['run_events', 'runs', 'checkpoints', 'checkpoint_bodies', 'feedback']

export function threadWrites(db: Database.Database): Writers<ThreadOps> {
  const any = db.prepare<[string], ThreadRow>(`SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = ?`)
  const owned = db.prepare<{ id: string; owner: string | null }, ThreadRow>(
    `SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = @id AND ${OWNED}`
  )
  const insert = db.prepare(`
    INSERT INTO threads_meta (thread_id, user_id, assistant_id, display_name, status, metadata_json, created_at, updated_at)
    VALUES (@thread_id, @user_id, @assistant_id, @display_name, @status, @metadata_json, @created_at, @updated_at)`)
  const hasCheckpoint = db.prepare('SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1')
  const setMetadata = db.prepare('UPDATE threads_meta SET metadata_json = ?, updated_at = ? WHERE thread_id = ?')
  const removeFrames = db.prepare('DELETE FROM frames WHERE run_key IN (SELECT key FROM runs WHERE thread_id = ?)')
  const removeRows = TABLES_OF_A_THREAD.map((table) => db.prepare(`DELETE FROM ${table} WHERE thread_id = ?`))
  const removeThread = db.prepare('DELETE FROM threads_meta WHERE thread_id = ?')
  const putCheckpoint = checkpointPut(db)

  return {
    'thread.create': ({ thread, checkpoint }) => {
      const found = any.get(thread.thread_id)
      if (found) {
        const visible = found.user_id === null || found.user_id === thread.user_id
        return visible ? { thread: toThread(found), created: false } : null
      }
      insert.run({ ...thread, metadata_json: JSON.stringify(thread.metadata) })
      // A legacy thread has checkpoints already: an empty one on top would hide its conversation.
      if (!hasCheckpoint.get(thread.thread_id)) putCheckpoint(checkpoint)
      return { thread, created: true }
    },
    'thread.patch': ({ thread_id, metadata, user, now }) => {
      const row = owned.get({ id: thread_id, owner: resolved(user) })
      if (!row) return null
      const merged: JsonObject = { ...parseObject(row.metadata_json), ...metadata }
      setMetadata.run(JSON.stringify(merged), now, thread_id)
      return { ...toThread(row), metadata: merged, updated_at: now }
    },
    'thread.remove': ({ thread_id, user }) => {
      if (!owned.get({ id: thread_id, owner: resolved(user) })) return false
      removeFrames.run(thread_id)
      for (const statement of removeRows) statement.run(thread_id)
      removeThread.run(thread_id)
      return true
    }
  }
}
