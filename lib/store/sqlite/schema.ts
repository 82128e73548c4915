// The schema that a database file must have: brought there step by step, or refused.
import type Database from 'better-sqlite3'
import { migrationsIn } from '../sql/migrations.ts'
import { addTermsOf } from './terms.ts'

const MIGRATIONS = new URL('./migrations/', import.meta.url)

/**
 * Brings the file to this binary's schema, each step in a transaction together with the row that records it.
 * @throws Error when the file is newer than the binary, which would not understand what it reads, or is none of ours.
 */
export function migrate(db: Database.Database): void {
  refuseForeign(db)
  db.exec('CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)')
  addTermsOf(db)
  const steps = migrationsIn(MIGRATIONS)
  const known = steps.at(-1)?.version ?? 0
  const step = db.transaction((version: number, sql: string) => {
    // Asked again under the write lock: another process may have been faster.
    const applied = db.prepare('SELECT 1 FROM migrations WHERE version = ?').get(version)
    if (applied) return
    db.exec(sql)
    db.prepare('INSERT INTO migrations (version, applied_at) VALUES (?, ?)').run(version, new Date().toISOString())
  })
  const found =
    db.prepare<[], { version: number | null }>('SELECT max(version) AS version FROM migrations').get()?.version ?? 0
  if (found > known) {
    throw new Error(
      `The database has schema version ${found}, this program knows versions up to ${known}: start a newer one`
    )
  }
  for (const { version, sql } of steps) if (version > found) step.immediate(version, sql)
}

/** Tables that an earlier service of this contract has as well, where every row belongs to a user [contract 8.2]. */
const OWNED_TABLES = ['threads_meta', 'runs', 'run_events', 'feedback']

/**
 * A database with tables of these names that was not made here. Made before user isolation it has rows of nobody, and no migration
 * could tell whose they are [Versioning].
 */
function refuseForeign(db: Database.Database): void {
  const names = new Set(db.prepare<[], string>("SELECT name FROM sqlite_master WHERE type = 'table'").pluck().all())
  const found = OWNED_TABLES.filter((name) => names.has(name))
  if (names.has('migrations') || found.length === 0) return
  const isOwned = (table: string) =>
    db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?').get(table, 'user_id') !== undefined
  const unowned = found.filter((table) => !isOwned(table))
  const use = 'No migration exists for it: use a fresh database, or alter it by hand'
  throw new Error(
    unowned.length > 0
      ? `The database was created before user isolation: ${unowned.join(', ')} without user_id. ${use}`
      : `The database has ${found.join(', ')}, and was created by another program. ${use}`
  )
}
