// A SQLite file as a side of a copy.
import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import { Sqlite } from '../../base/sqlite-driver.ts'
import type { CopiedTable, CopySource, CopyTarget, Row } from '../copy.ts'
import type { PartTarget } from '../copy-part.ts'
import { connect, truncateWal } from './connection.ts'
import { knownVersion, migrate } from './schema.ts'
import { addIndexFunction } from './search.ts'

/** Rows at a time: few, because some have a megabyte. */
const BATCH = 64

/** What a database makes for itself, and what its processes write. Of the search's tables the queue is filled anew. */
const OWN = /^(sqlite_|migrations$|writers$|search_|thread_terms$)/
/** Columns that PostgreSQL has not, by table: numbers of rows that nothing refers to, and what nothing reads. */
const NOT_COPIED: Readonly<Record<string, readonly string[]>> = {
  threads_meta: ['key'],
  run_events: ['id'],
  runs: ['lease_expires_at', 'fence']
}

/** The tables of this program's schema that a copy has. */
export function copiedTables(): CopiedTable[] {
  const db = new Sqlite(':memory:')
  try {
    migrate(db)
    const tables = db.prepare<[], string>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").pluck()
    const columns = db.prepare<[string], { name: string; type: string; pk: number }>(
      'SELECT name, type, pk FROM pragma_table_info(?)'
    )
    return tables
      .all()
      .filter((name) => !OWN.test(name))
      .map((name) => {
        const all = columns.all(name).filter((one) => !NOT_COPIED[name]?.includes(one.name))
        const keys = all.filter(({ pk }) => pk > 0)
        const [key] = keys
        const isCounted = keys.length === 1 && key?.type === 'INTEGER'
        return { name, columns: all.map((one) => one.name), counter: isCounted ? key!.name : null }
      })
  } finally {
    db.close()
  }
}

/**
 * A file that is there, as it is at this moment: also beside a server that writes it. `mayBeOlder`: also of an older schema.
 * @throws Error when it is none of ours, or of another version
 */
export function openSqliteSource(path: string, { mayBeOlder = false } = {}): CopySource {
  if (!existsSync(path)) throw new Error(`There is no database ${path}`)
  const db = new Sqlite(path, { readonly: true })
  try {
    checkVersion(db, path, mayBeOlder)
    db.exec('BEGIN')
    return sideOf(db)
  } catch (error) {
    db.close()
    throw error
  }
}

function checkVersion(db: Database.Database, path: string, mayBeOlder: boolean): void {
  let found: number | null | undefined
  try {
    found = db.prepare<[], number | null>('SELECT max(version) FROM migrations').pluck().get()
  } catch {
    throw new Error(`${path} is no database of this program`)
  }
  const known = knownVersion()
  if (found === known || (mayBeOlder && (found ?? 0) < known)) return
  throw new Error(
    `The database has schema version ${found ?? 0}, and this program ${known}: use the one that serves it`
  )
}

/** A file that is made, or goes on being made. */
export function openSqliteTarget(path: string): CopyTarget {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const db = connect(path)
  try {
    migrate(db)
  } catch (error) {
    db.close()
    throw error
  }
  return {
    ...sideOf(db),
    async put(table, batches) {
      const { name, columns } = table
      const insert = insertInto(db, name, columns)
      await together(db, async () => {
        for await (const batch of batches) for (const row of batch) insert.run(...row)
      })
    },
    async clear({ name }) {
      db.exec(`DELETE FROM "${name}"`)
    },
    async finish(lastNumbers) {
      const all = db.transaction(() => {
        for (const { table, last } of lastNumbers) setLastNumber(db, table.name, last)
        db.exec(DERIVED)
      })
      all.immediate()
      truncateWal(db)
    }
  }
}

/** Runs the work in one transaction. */
async function together(db: Database.Database, work: () => Promise<void>): Promise<void> {
  db.exec('BEGIN IMMEDIATE')
  try {
    await work()
    db.exec('COMMIT')
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK')
    throw error
  }
}

/** The database of an installation, also beside its server. @throws Error when there is none, or it is of another version */
export function openSqlitePart(path: string): PartTarget {
  if (!existsSync(path)) throw new Error(`There is no database ${path}`)
  const db = connect(path)
  try {
    checkVersion(db, path, false)
  } catch (error) {
    db.close()
    throw error
  }
  addIndexFunction(db)
  return {
    has: async (table, column, value) =>
      db.prepare(`SELECT 1 FROM "${table}" WHERE "${column}" = ?`).get(value) !== undefined,
    together: (work) => together(db, work),
    async add({ name, columns, counter }, rows) {
      const names = columns.filter((column) => column !== counter)
      const insert = insertInto(db, name, names, counter === null)
      const values = (row: Row) => row.filter((_, at) => columns[at] !== counter)
      return rows.map((row) => Number(insert.run(...values(row)).lastInsertRowid))
    },
    async addNumbered({ name, columns }, rows) {
      const insert = insertInto(db, name, columns)
      for (const row of rows) insert.run(...row)
    },
    lastNumber: sideOf(db).lastNumber,
    async run(sql, param) {
      db.prepare(sql).run({ 1: param })
    },
    async derive(threadId) {
      db.prepare(TERMS_OF_THREAD).run(threadId)
      db.prepare(QUEUE_OF_THREAD).run(threadId)
    },
    async close() {
      db.close()
    }
  }
}

const TERMS_OF_THREAD = `INSERT OR IGNORE INTO thread_terms (owner, term, thread_key)
  SELECT coalesce(user_id, 0), term.value, threads_meta.key FROM threads_meta, json_each(terms_of(metadata_json)) AS term
  WHERE thread_id = ? AND is_temporary = 0`

const QUEUE_OF_THREAD = `INSERT OR REPLACE INTO search_queue (thread_id, version)
  SELECT thread_id, 1 FROM threads_meta WHERE thread_id = ? AND is_temporary = 0`

/** As writes do, which give terms to no thread that is made for one run; again after a copy that was cut. */
const DERIVED = `
  DELETE FROM thread_terms;
  INSERT OR IGNORE INTO thread_terms (owner, term, thread_key)
    SELECT coalesce(user_id, 0), term.value, threads_meta.key FROM threads_meta, json_each(terms_of(metadata_json)) AS term
    WHERE is_temporary = 0;
  INSERT OR IGNORE INTO search_queue (thread_id, version) SELECT thread_id, 1 FROM threads_meta WHERE is_temporary = 0;`

function insertInto(db: Database.Database, name: string, columns: readonly string[], isIgnored = false) {
  const values = columns.map(() => '?')
  return db.prepare<unknown[]>(`INSERT ${isIgnored ? 'OR IGNORE' : ''} INTO "${name}" (${columns}) VALUES (${values})`)
}

/** Only tables that never give a number twice have a row there, from their first row on. */
function setLastNumber(db: Database.Database, name: string, last: number): void {
  const isCounting = db.prepare("SELECT 1 FROM sqlite_master WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'").get(name)
  if (!isCounting) return
  db.prepare('DELETE FROM sqlite_sequence WHERE name = ?').run(name)
  db.prepare('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)').run(name, last)
}

function sideOf(db: Database.Database): CopySource {
  return {
    async *rows({ name, columns }, where) {
      const sql = `SELECT ${columns} FROM "${name}" ${where ? `WHERE ${where.sql}` : ''} ORDER BY rowid`
      // WITHOUT ROWID has no order but that of its key.
      const isByKey = db.prepare<[string], number>('SELECT wr FROM pragma_table_list WHERE name = ?').pluck().get(name)
      const text = isByKey ? sql.replace(' ORDER BY rowid', '') : sql
      const bound = Object.fromEntries((where?.params ?? []).map((value, at) => [at + 1, value]))
      let batch: Row[] = []
      for (const row of db.prepare<[object], Row>(text).raw().iterate(bound)) {
        batch.push(row)
        if (batch.length < BATCH) continue
        yield batch
        batch = []
      }
      if (batch.length > 0) yield batch
    },
    async lastNumber({ name, counter }) {
      const given =
        db.prepare<[string], number>('SELECT seq FROM sqlite_sequence WHERE name = ?').pluck().get(name) ?? 0
      const most = db.prepare<[], number | null>(`SELECT max(${counter}) FROM "${name}"`).pluck().get() ?? 0
      return Math.max(given, most)
    },
    async close() {
      if (db.inTransaction) db.exec('ROLLBACK')
      db.close()
    }
  }
}
