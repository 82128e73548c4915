// Migrations: brings a database file to this program's schema step by step, or refuses it.
import type Database from 'better-sqlite3'
import { existsSync, statSync } from 'node:fs'
import { messageOf } from '../../base/errors.ts'
import { Sqlite } from '../../base/sqlite-driver.ts'
import {
  type Migrated,
  type MigrationProgress,
  migratedBy,
  missingSteps,
  type OnProgress,
  type SchemaPlan,
  servedByAnother,
  versionIn
} from '../sql/migrations.ts'
import { addIndexFunction } from './search.ts'

const MIGRATIONS = new URL('./migrations/', import.meta.url)

export interface MigrationOptions {
  /** True: another server has the file open. */
  readonly isServed?: () => boolean
  /** False: no backup is made. */
  readonly hasBackup?: boolean
  readonly onMigrated?: (what: Migrated) => void
  /** Called before the copy and before each step: what comes then is not interrupted. */
  readonly onProgress?: OnProgress
}

export function knownVersion(): number {
  return versionIn(MIGRATIONS)
}

/**
 * Migrates the file; each step is a transaction together with the row that records it.
 * @throws Error when the file is newer than this program, or not ours
 */
export function migrate(db: Database.Database, options: MigrationOptions = {}): void {
  refuseForeign(db)
  db.exec('CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)')
  addIndexFunction(db)
  const step = db.transaction((version: number, sql: string) => {
    // Checked again under the write lock: another process may have been faster.
    const applied = db.prepare('SELECT 1 FROM migrations WHERE version = ?').get(version)
    if (applied) return
    db.exec(sql)
    db.prepare('INSERT INTO migrations (version, applied_at) VALUES (?, ?)').run(version, new Date().toISOString())
  })
  const found =
    db.prepare<[], { version: number | null }>('SELECT max(version) AS version FROM migrations').get()?.version ?? 0
  const missing = missingSteps(MIGRATIONS, found)
  if (missing.length === 0) return
  if (found > 0 && options.isServed?.()) throw servedByAnother(found, knownVersion())
  const begun = performance.now()
  const bytes = bytesOf(db.name)
  const report = (progress: Pick<MigrationProgress, 'version' | 'phase'>): void => {
    if (found > 0) options.onProgress?.({ ...progress, bytes, elapsed_ms: Math.round(performance.now() - begun) })
  }
  if (options.hasBackup) report({ version: found, phase: 'copy' })
  const backup = found > 0 && options.hasBackup ? backedUp(db, found) : null
  for (const { version, sql } of missing) {
    report({ version, phase: 'expand' })
    step.immediate(version, sql)
  }
  if (found > 0) options.onMigrated?.(migratedBy(missing, found, begun, backup))
}

function bytesOf(path: string): number {
  return existsSync(path) ? statSync(path).size : 0
}

/** What is to be done to the file, without doing it. `isServed`: a server uses it. @throws Error when it is too new, or not ours */
export function planOf(path: string, isServed: boolean): SchemaPlan {
  const found = existsSync(path) ? versionOf(path) : 0
  const steps = missingSteps(MIGRATIONS, found).map(
    ({ version }) => ({ version, phase: 'expand', stop: true, rows: null }) as const
  )
  const bytes = bytesOf(path)
  const [processes, version] = [isServed ? [{ schema: found, count: 1 }] : [], knownVersion()]
  return {
    backend: 'sqlite',
    schema: found,
    program: version,
    min_reader: found,
    min_writer: found,
    bytes,
    steps,
    processes
  }
}

function versionOf(path: string): number {
  const db = new Sqlite(path, { readonly: true })
  try {
    refuseForeign(db)
    const hasTable = db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").get() !== undefined
    return hasTable ? (db.prepare<[], number | null>('SELECT max(version) FROM migrations').pluck().get() ?? 0) : 0
  } finally {
    db.close()
  }
}

/**
 * Copies the database next to itself; returns the name of the copy.
 * @throws Error when that fails: then nothing is changed
 */
function backedUp(db: Database.Database, version: number): string {
  const path = `${db.name}.schema-${version}.${Date.now()}.bak`
  try {
    db.prepare('VACUUM INTO ?').run(path)
  } catch (error) {
    const why = messageOf(error)
    throw new Error(
      `No copy of the database could be made before its schema is changed (${why}): make room, or set ` +
        'database.migration_backup to false and copy it yourself',
      { cause: error }
    )
  }
  return path
}

/** Tables that earlier services of this contract have too, where every row belongs to a user [contract 8.2]. */
const OWNED_TABLES = ['threads_meta', 'runs', 'run_events', 'feedback']

/**
 * A database with tables of these names that we did not create. From before user isolation it has ownerless rows, and
 * no migration could assign them [Versioning].
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
