// The lock on a data home: one server at a time. It is a lock of the operating system, taken through SQLite, which knows how to on
// every platform: a process that is killed lets go of it, and no stale file has to be cleaned up by hand.
import { readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { Sqlite } from '../sqlite-driver.ts'
import { prepareHome } from './home.ts'

const LOCK_FILE = 'serve.lock'
/** Who had the lock last: on which machine, and under which name among the processes of its database. */
const HOLDER_FILE = 'serve.id'

/**
 * Takes the lock of a home and answers the function that gives it back; null when another server lives on it and `canShare`.
 * @throws Error when another server lives on it.
 */
export function lockHome(home: string, canShare = false): (() => void) | null {
  prepareHome(home)
  const db = lockFile(home)
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (error instanceof Sqlite.SqliteError && error.code.startsWith('SQLITE_BUSY')) {
      if (canShare) return null
      throw new Error(`Another server is running on ${home}: stop it, or choose another --home`)
    }
    throw error
  }
  return () => db.close()
}

function lockFile(home: string): InstanceType<typeof Sqlite> {
  try {
    return new Sqlite(join(home, LOCK_FILE), { timeout: 0 })
  } catch (error) {
    const code = error instanceof Sqlite.SqliteError ? error.code : String(error)
    throw new Error(`The home ${home} cannot be written (${code}): name another folder with --home`)
  }
}

/** The id of who had the lock before us, and is therefore no more; null: not known. For the holder of the lock alone. */
export function holderBefore(home: string): string | null {
  try {
    const [machine, id] = readFileSync(join(home, HOLDER_FILE), 'utf8').trim().split(' ')
    // Locks on a file system of several machines may mean nothing.
    return machine === hostname() && id ? id : null
  } catch {
    return null
  }
}

/** Leaves our id for the next holder of the lock. */
export function leaveHolder(home: string, id: string): void {
  writeFileSync(join(home, HOLDER_FILE), `${hostname()} ${id}\n`)
}
