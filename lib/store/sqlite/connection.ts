// The SQLite file: how it is opened, how values are bound, and its upkeep (WAL, deleted pages).
import type Database from 'better-sqlite3'
import { Sqlite } from '../../base/sqlite-driver.ts'
import { hasPlaces } from '../sql/word-filter.ts'

/** How long a connection waits for a lock, in ms [Limits]. */
const BUSY_TIMEOUT_MS = 5000
/**
 * Pages of the WAL at which a commit checkpoints it itself, 16 MB: needed only where commits are so frequent that the
 * thread of wal.ts never catches up.
 */
const WAL_PAGES_MAX = 4096
/** The WAL file is cut back to this when a checkpoint has emptied it, in bytes. */
const WAL_SIZE_MAX = 64 * 1024 * 1024

/** Opens a connection with the pragmas the specification requires: to a file, or to a serialized database in memory. */
export function connect(source: string | Buffer): Database.Database {
  const db = new Sqlite(source, { timeout: BUSY_TIMEOUT_MS })
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = NORMAL')
  db.pragma('foreign_keys = ON')
  // What is deleted is overwritten: a file that is copied or stolen has no more than the API shows.
  db.pragma('secure_delete = ON')
  db.pragma(`wal_autocheckpoint = ${WAL_PAGES_MAX}`)
  db.pragma(`journal_size_limit = ${WAL_SIZE_MAX}`)
  addFilterFunction(db)
  return db
}

/** `has_places(filter, list)`: a filter of words has all places of a JSON list. The list is the same for all rows of a statement. */
function addFilterFunction(db: Database.Database): void {
  let [list, places] = ['', [] as readonly number[]]
  db.function('has_places', { deterministic: true }, (filter: unknown, wanted: unknown) => {
    if (wanted !== list) [list, places] = [String(wanted), (JSON.parse(String(wanted)) as string[]).map(Number)]
    return Number(hasPlaces(filter as Uint8Array, places))
  })
}

/**
 * Empties the WAL file, in which pages stand as they were before a deletion. False: somebody writes, or reads an older state, and it is to
 * be tried again.
 */
export function truncateWal(db: Database.Database): boolean {
  const [result] = db.pragma('wal_checkpoint(TRUNCATE)') as { readonly busy: number }[]
  return result?.busy === 0
}

/** Rewrites the file without what was deleted before `secure_delete` was on. @throws Error while somebody keeps the file locked */
export function vacuum(db: Database.Database): void {
  db.exec('VACUUM')
  if (!truncateWal(db)) throw new Error('the write-ahead log is in use: try again')
}

/** Values for $1, $2... of a statement. A loop, because fromEntries costs a fifth of a small read. */
export function bindings(params: readonly unknown[]): object {
  const bound: Record<number, unknown> = {}
  for (let at = 0; at < params.length; at++) bound[at + 1] = params[at]
  return bound
}
