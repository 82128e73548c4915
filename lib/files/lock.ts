// The lock on a data home: one server at a time. It is a lock of the operating system, taken through SQLite, which knows how to on
// every platform: a process that is killed lets go of it, and no stale file has to be cleaned up by hand.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'

const LOCK_FILE = 'serve.lock'

/**
 * Takes the lock of a home and answers the function that gives it back.
 * @throws Error when another server lives on it.
 */
export function lockHome(home: string): () => void {
  mkdirSync(home, { recursive: true })
  const db = new Database(join(home, LOCK_FILE), { timeout: 0 })
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')) {
      throw new Error(`Another server is running on ${home}: stop it, or choose another --home`)
    }
    throw error
  }
  return () => db.close()
}
