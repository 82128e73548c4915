// The condition of a SQLite file, for `colloquy doctor`: the version of the library, and whether somebody holds on to the lock of its
// writer.
import { codeOf } from '../../base/errors.ts'
import { Sqlite } from '../../base/sqlite-driver.ts'
import type { Condition } from '../condition.ts'

/** No transaction of ours takes as long. */
const LOCK_MS = 2000

/** @throws Error when it cannot be read and written */
export function sqliteCondition(file: string): Condition {
  const db = new Sqlite(file, { timeout: LOCK_MS, fileMustExist: true })
  try {
    const version = String(db.prepare('SELECT sqlite_version()').pluck().get())
    return { engine: `SQLite ${version}`, waiting: isLocked(db) ? 1 : 0, homes: [] }
  } finally {
    db.close()
  }
}

function isLocked(db: InstanceType<typeof Sqlite>): boolean {
  try {
    db.exec('BEGIN IMMEDIATE; ROLLBACK')
    return false
  } catch (error) {
    if (codeOf(error) === 'SQLITE_BUSY') return true
    throw error
  }
}
