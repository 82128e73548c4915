// Locks on a data home and a database file: one server at a time. They are operating system locks, taken through SQLite
// for portability: a killed process releases them, and there is no stale file to clean up.
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { Sqlite } from '../sqlite-driver.ts'
import { prepareHome } from './home.ts'

const LOCK_FILE = 'serve.lock'
/** The last holder of the lock: its machine, and its id among the processes of its database. */
const HOLDER_FILE = 'serve.id'

/** What a server wants for itself. */
export interface Premises {
  readonly home: string
  /** Several servers may share the home, and then none locks it. */
  readonly canShare: boolean
  /** A database file, which may lie outside of the home; null: none. */
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

/** By whatever name: a link to a file is that file. */
function databaseLock(path: string): string {
  const real = existsSync(path) ? realpathSync(path) : join(realpathSync(dirname(path)), basename(path))
  return `${real}.lock`
}

/** @throws Error when another server has it. */
function lockDatabase(path: string): () => void {
  mkdirSync(dirname(path), { recursive: true })
  const unlock = lockFile(databaseLock(path), `The folder of database.sqlite_path, ${dirname(path)}, cannot be written`)
  if (!unlock)
    throw new Error(
      `Another server is running on the database ${path}: stop it, or choose another database.sqlite_path`
    )
  return unlock
}

/** Locks of this process, by file. Referenced here, because a garbage-collected handle would release its lock. */
const ours = new Map<string, InstanceType<typeof Sqlite>>()

/** True: another server has the home, or the database file, by whatever name. */
export function isServed(home: string, databaseFile: string): boolean {
  return [join(home, LOCK_FILE), databaseLock(databaseFile)].some((path) => {
    if (ours.has(path) || !existsSync(path)) return false
    const unlock = lockFile(path, `The lock ${path} cannot be read`)
    unlock?.()
    return unlock === null
  })
}

/** Null: somebody else holds it. */
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

/** The id of who had the lock before us, and is therefore no more; null: not known. For the holder of the lock alone. */
export function holderBefore(home: string): string | null {
  try {
    const [machine, id] = readFileSync(join(home, HOLDER_FILE), 'utf8').trim().split(' ')
    // Locks on a network file system may be ineffective.
    return machine === hostname() && id ? id : null
  } catch {
    return null
  }
}

/** Leaves our id for the next holder of the lock. */
export function leaveHolder(home: string, id: string): void {
  writeFileSync(join(home, HOLDER_FILE), `${hostname()} ${id}\n`)
}
