// One SQLite file for application data and checkpoints: opened as a store. Reads run on
// a connection of the main thread that cannot write; every write runs in a worker thread, so that a lock held by somebody else
// delays commits and not the event loop; a second one carries the log of the commits over into the file.
import { mkdirSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import type { Store } from '../store.ts'
import { sqlReads } from '../sql/nouns.ts'
import { checkpointReads } from './checkpoints.ts'
import { connect } from './connection.ts'
import { frameReads } from './frames.ts'
import { originReads } from './origins.ts'
import { type Reader, ReaderThread } from './reader.ts'
import { migrate, type MigrationOptions } from './schema.ts'
import { ThreadSearch } from './search.ts'
import { runStepsBeside, readRunner } from './steps.ts'
import { WriteAheadLog } from './wal.ts'
import { WriterThread } from './writer.ts'

export interface SqliteOptions extends MigrationOptions {
  /** What runs in the thread that writes. Default: worker.ts. */
  readonly worker?: URL
}

/**
 * Opens (and creates or migrates) the database file at `path`.
 * @throws Error when the folder cannot be made, the file is no database, or its schema is newer than this program.
 */
export async function openSqliteStore(path: string, options: SqliteOptions = {}): Promise<Store> {
  mkdirSync(dirname(path), { recursive: true })
  const first = connect(path)
  try {
    migrate(first, options)
  } finally {
    first.close()
  }
  const writer = await WriterThread.start(path, options.worker)
  const wal = new WriteAheadLog(path)
  const db = connect(path)
  db.pragma('query_only = ON')
  const reader = new ReaderThread(path)
  const { reads, search } = readsOf(db, reader)
  return {
    ...reads,
    async apply(groups) {
      try {
        return await writer.apply(groups)
      } finally {
        wal.grew(groups.reduce((sum, { ops }) => sum + ops.length, 0))
        // Also when nobody knows whether it was written.
        search.written(groups)
      }
    },
    get trouble() {
      return writer.trouble
    },
    async size() {
      return { database: await bytesOf(path), wal: await bytesOf(`${path}-wal`) }
    },
    async close() {
      await wal.stop()
      await writer.stop()
      await reader.stop()
      db.close()
    }
  }
}

/** All that a connection reads. `reader`: who answers what may take long. `search` is to be told what was written. */
export function readsOf(db: Database.Database, reader: Reader) {
  const search = new ThreadSearch(db, reader)
  const run = readRunner(db)
  const nouns = sqlReads(run, {
    search: search.search,
    beside: (steps) => runStepsBeside(reader, steps),
    runsOfMessages: originReads(db)
  })
  const reads = { frames: frameReads(db), checkpoints: checkpointReads(db), ...nouns }
  return { reads, search }
}

/** 0: there is no such file. */
async function bytesOf(path: string): Promise<number> {
  const found = await stat(path).catch(() => null)
  return found?.size ?? 0
}
