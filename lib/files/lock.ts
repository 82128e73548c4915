// Locks a data home and a database file for one server. These are operating system locks, taken through SQLite for portability:
// a killed process releases them, and there are no stale lock files.
import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { Sqlite } from '../base/sqlite-driver.ts'
import { makeFolder, prepareHome } from './home.ts'

const LOCK_FILE = 'serve.lock'
/** The last holder of the lock: its machine, and its process id in the database. */
const HOLDER_FILE = 'serve.id'

interface Premises {
  readonly home: string
  /** Several servers may share the home. */
  readonly canShare: boolean
  /** The database file, which may be outside of the home; null: none. */
  readonly databaseFile: string | null
}

/**
 * Takes the locks on a home and a database file; returns the function that releases them; null when another server shares the home.
 * @throws Error when another server holds one of them
 */
export function lockPremises({ home, canShare, databaseFile }: Premises): (() => void) | null {
  prepareHome(home)
  const unlockHome = lockFile(join(home, LOCK_FILE), `The home ${home} cannot be written`)
  if (!unlockHome && !canShare)
    throw new Error(`Another server is running on ${home}: stop it, or choose another --home`)
  if (!unlockHome || databaseFile === null) return unlockHome
  try {
    const unlockDatabase = lockDatabase(databaseFile)
    return () => {
      unlockDatabase()
      unlockHome()
    }
  } catch (error) {
    unlockHome()
    throw error
  }
}

/** Links are resolved, so that every name of the file has the same lock. */
function databaseLock(path: string): string {
  const real = existsSync(path) ? realpathSync(path) : join(realpathSync(dirname(path)), basename(path))
  return `${real}.lock`
}

/** @throws Error when another server has it. */
function lockDatabase(path: string): () => void {
  makeFolder(dirname(path))
  const unlock = lockFile(databaseLock(path), `The folder of database.sqlite_path, ${dirname(path)}, cannot be written`)
  if (!unlock)
    throw new Error(
      `Another server is running on the database ${path}: stop it, or choose another database.sqlite_path`
    )
  return unlock
}

/** Our locks by file. A garbage-collected handle would release its lock. */
const ours = new Map<string, InstanceType<typeof Sqlite>>()

/** Whether another server uses the home or the database file. */
export function isServed(home: string, databaseFile: string): boolean {
  return [join(home, LOCK_FILE), databaseLock(databaseFile)].some((path) => {
    if (ours.has(path) || !existsSync(path)) return false
    const unlock = lockFile(path, `The lock ${path} cannot be read`)
    unlock?.()
    return unlock === null
  })
}

/** null: another process holds the lock. */
function lockFile(path: string, otherwise: string): (() => void) | null {
  let db: InstanceType<typeof Sqlite> | null = null
  try {
    db = new Sqlite(path, { timeout: 0 })
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db?.close()
    if (!(error instanceof Sqlite.SqliteError)) throw new Error(`${otherwise} (${error})`)
    if (error.code.startsWith('SQLITE_BUSY')) return null
    throw new Error(`${otherwise} (${error.code})`)
  }
  ours.set(path, db)
  return () => {
    ours.delete(path)
    db.close()
  }
}

/** The id of the previous holder, which has therefore ended; null: unknown. Only for the current holder. */
export function holderBefore(home: string): string | null {
  try {
    const [machine, id] = readFileSync(join(home, HOLDER_FILE), 'utf8').trim().split(' ')
    // Locks on a network file system may not work, so only the same machine counts.
    return machine === hostname() && id ? id : null
  } catch {
    return null
  }
}

/** Writes our id for the next holder. */
export function leaveHolder(home: string, id: string): void {
  writeFileSync(join(home, HOLDER_FILE), `${hostname()} ${id}\n`)
}
