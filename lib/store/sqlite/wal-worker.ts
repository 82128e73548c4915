// The worker thread that checkpoints the WAL, and empties it, so that no deleted text is left in it.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { ThreadChannel } from '../../base/thread-channel.ts'
import { Sqlite } from '../../base/sqlite-driver.ts'
import { connect, truncateWal } from './connection.ts'
import { beginThread } from './worker-thread.ts'

/** Maximum rounds in a row: commits made during one are checkpointed by the next, until a round sees none. */
const ROUNDS_MAX = 4

/** Commits wait while TRUNCATE waits for a reader, in ms. */
const TRUNCATE_WAITS_MS = 50
const TRUNCATE_AGAIN_MS = 1000

/** Result of the pragma: pages in the WAL, and how many of them are checkpointed. */
interface CheckpointResult {
  readonly log: number
  readonly checkpointed: number
}

function checkpoint(db: Database.Database): void {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    // PASSIVE blocks nobody and waits for nobody.
    const [result] = db.pragma('wal_checkpoint(PASSIVE)') as CheckpointResult[]
    if (!result || result.checkpointed >= result.log) return
  }
}

function serve(path: string): void {
  const port = parentPort!
  const db = connect(path)
  db.pragma(`busy_timeout = ${TRUNCATE_WAITS_MS}`)
  // False: somebody writes or reads an older state. @throws when it can never be done
  const empty = (): boolean => {
    try {
      checkpoint(db)
      return truncateWal(db)
    } catch (error) {
      if (error instanceof Sqlite.SqliteError && error.code.startsWith('SQLITE_BUSY')) return false
      throw error
    }
  }
  const tried = (work: () => void): void => {
    try {
      work()
    } catch {
      // A full or failing disk: the writer meets and reports it too. The data stays in the WAL.
    }
  }
  // However often it is asked for, one goes on trying: each try holds up commits while it waits for a reader.
  let again: NodeJS.Timeout | null = null
  const truncate = (): void => {
    if (again) clearTimeout(again)
    again = null
    tried(() => {
      if (db.open && !empty()) again = setTimeout(truncate, TRUNCATE_AGAIN_MS).unref()
    })
  }
  new ThreadChannel(port, {
    checkpoint: () => tried(() => checkpoint(db)),
    truncate,
    empty,
    stop() {
      db.close()
      port.close()
    }
  })
}

// Also imported elsewhere: then there is nothing to serve.
if (parentPort && typeof workerData?.walOf === 'string') beginThread(() => serve(workerData.walOf))
