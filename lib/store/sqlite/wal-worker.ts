// The thread that carries the write-ahead log over into the database file.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { connect } from './connection.ts'

/** Rounds in a row at most: what is committed during one is checkpointed by the next, until a round meets no commit. */
const ROUNDS_MAX = 4

/** The answer of the pragma: pages in the log, and how many of them are in the file. */
interface CheckpointResult {
  readonly log: number
  readonly checkpointed: number
}

function checkpoint(db: Database.Database): void {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    // PASSIVE waits for nobody, and nobody for it.
    const [result] = db.pragma('wal_checkpoint(PASSIVE)') as CheckpointResult[]
    if (!result || result.checkpointed >= result.log) return
  }
}

function serve(path: string): void {
  const port = parentPort!
  const db = connect(path)
  port.on('message', (message: 'checkpoint' | 'stop') => {
    if (message === 'checkpoint') {
      try {
        checkpoint(db)
      } catch {
        // A full or failing disk: the writer meets it as well, and tells. What is in the log stays there.
      }
      return
    }
    db.close()
    port.close()
  })
}

// Imported by whoever looks at it, as well: then there is nobody to serve.
if (parentPort && typeof workerData?.walOf === 'string') serve(workerData.walOf)
