// The data home: our own folder, created when missing, and locked for one server as a database file is. These are operating system
// locks, taken through SQLite for portability: a killed process releases them, and there are no stale lock files.
import { codeOf } from '../base/errors.ts'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync
} from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { KeyedMutex } from '../base/keyed-mutex.ts'
import { Sqlite } from '../base/sqlite-driver.ts'
import { keptLine } from './kept-line.ts'

const PRIVATE = 0o700
/** Present in every home a server has used. */
const LOCK_FILE = 'serve.lock'
const ID_FILE = '.home_id'
/** Files of the home, by their path in it, that belong to who serves it. */
export const OF_PROCESS = /^(serve\.lock.*|serve\.id|\.home_id)$/

/**
 * Creates the home, private to its owner whatever the umask: it contains conversations, password hashes and keys. An existing
 * folder with other content keeps its mode, because it may be shared (`/tmp`).
 * @throws Error with one sentence, if it cannot be created or written
 */
function prepareHome(home: string): void {
  try {
    makeFolder(home, PRIVATE)
    if (existsSync(join(home, LOCK_FILE)) || readdirSync(home).length === 0) chmodSync(home, PRIVATE)
  } catch (error) {
    const code = codeOf(error) ?? String(error)
    throw new Error(`The home ${home} cannot be used (${code}): choose a writable folder with --home`)
  }
}

/**
 * Creates a folder and those above it. One by one: where the system says that there is nothing above, as below /proc, Node's own
 * `recursive` tries for ever.
 */
function makeFolder(path: string, mode = 0o777): void {
  if (existsSync(path) && statSync(path).isDirectory()) return
  if (!existsSync(dirname(path))) makeFolder(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process was faster.
    if (!(codeOf(error) === 'EEXIST' && statSync(path).isDirectory())) throw error
  }
}

/** The id of the home, by which processes on one database see whether they share it. A copy of a home has the same one. */
export function homeId(home: string): Promise<string> {
  return keptLine(join(home, ID_FILE), randomUUID)
}

/** null: none has been given to it. */
export function idOfHome(home: string): string | null {
  return existsSync(join(home, ID_FILE)) ? readFileSync(join(home, ID_FILE), 'utf8').trim() : null
}

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

/** Whether another server uses the home or the database file; null: there is none. */
export function isServed(home: string, databaseFile: string | null): boolean {
  const locks = [join(home, LOCK_FILE), ...(databaseFile === null ? [] : [databaseLock(databaseFile)])]
  return locks.some((path) => {
    if (ours.has(path) || !existsSync(path)) return false
    const unlock = lockFile(path, `The lock ${path} cannot be read`)
    unlock?.()
    return unlock === null
  })
}

/** Held while a file of the home is read and written anew. */
const CHANGES_LOCK = `${LOCK_FILE}.changes`
/** Such a change takes some milliseconds: who has the lock for longer is stopped, or its disk is. */
const CHANGE_MS = 10_000
const CHANGE_AGAIN_MS = 5
/** Those of this process, by home: in the order in which they ask. */
const changes = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1 })

/**
 * Runs work that reads a file of the home and writes it anew: no other does meanwhile, in this process or another one that shares it.
 * @throws Error when another has the lock for too long
 */
export function changing<T>(home: string, work: () => Promise<T>): Promise<T> {
  return changes.run(home, async () => {
    makeFolder(home, PRIVATE)
    const path = join(home, CHANGES_LOCK)
    for (const end = performance.now() + CHANGE_MS; performance.now() < end; await pause(CHANGE_AGAIN_MS)) {
      const unlock = lockFile(path, `The home ${home} cannot be written`)
      if (unlock) return await work().finally(unlock)
    }
    throw new Error(`Another process has the lock ${path} for more than ${CHANGE_MS / 1000} s`)
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
