// The worker thread that checkpoints the WAL, and takes what was deleted out of it and out of the index of words.
import { setImmediate as turn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { ThreadChannel } from '../../base/thread-channel.ts'
import { Sqlite } from '../../base/sqlite-driver.ts'
import { connect, mergeWords, truncateWal } from './connection.ts'

/** Maximum rounds in a row: commits made during one are checkpointed by the next, until a round sees none. */
const ROUNDS_MAX = 4

/** Commits wait while TRUNCATE waits for a reader, in ms. */
const TRUNCATE_WAITS_MS = 50
const TRUNCATE_AGAIN_MS = 1000
/** Steps of a merge between two checkpoints: what they write is not to fill the WAL. */
const STEPS_A_CHECKPOINT = 16

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
  // One step of a merge a turn, so that a checkpoint or the end that was asked for meanwhile comes between. False: somebody writes or
  // reads an older state. Rejects when it can never be done.
  const empty = async (): Promise<boolean> => {
    try {
      let steps = 0
      for (const _ of mergeWords(db)) {
        if (steps++ % STEPS_A_CHECKPOINT === 0) checkpoint(db)
        await turn()
      }
      checkpoint(db)
      return truncateWal(db)
    } catch (error) {
      if (error instanceof Sqlite.SqliteError && error.code.startsWith('SQLITE_BUSY')) return false
      throw error
    }
  }
  const truncate = (): void => {
    const goOn = (isEmpty: boolean): void => {
      if (!isEmpty && db.open) setTimeout(truncate, TRUNCATE_AGAIN_MS).unref()
    }
    // A full or failing disk: the writer meets and reports it too.
    empty().then(goOn, () => {})
  }
  const tried = (work: () => void) => () => {
    try {
      work()
    } catch {
      // The same. The data stays in the WAL.
    }
  }
  new ThreadChannel(port, {
    checkpoint: tried(() => checkpoint(db)),
    truncate,
    empty,
    stop() {
      db.close()
      port.close()
    }
  })
}

// Also imported elsewhere: then there is nothing to serve.
if (parentPort && typeof workerData?.walOf === 'string') serve(workerData.walOf)
