// The SQLite store: one file for application data and checkpoints. Reads use a read-only connection on the main thread; all writes run in a
// worker thread, so that somebody else's lock delays commits and not the event loop; another worker checkpoints the WAL.
import { mkdirSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import type { Store, EventReads, MessageOrigin } from '../store.ts'
import { sqlReads } from '../sql/nouns.ts'
import { ANY_REMOVED, untilRemoved } from '../sql/removal.ts'
import { checkpointReads } from './checkpoints.ts'
import { connect, vacuum } from './connection.ts'
import { readRunner, runStepsBeside, snapshotRunner } from './steps.ts'
import { frameReads } from './frames.ts'
import { type Reader, ReaderThread } from './reader.ts'
import { migrate, type MigrationOptions } from './schema.ts'
import { SEARCHED, ThreadSearch, WORDS } from './search.ts'
import { WriteAheadLog } from './wal.ts'
import { WriterThread } from './writer.ts'
import { visibleTo } from '../sql/steps.ts'

interface SqliteOptions extends MigrationOptions {
  /** The writer thread's script. Default: worker.ts. */
  readonly worker?: URL
  /** See WriteAheadLog. */
  readonly truncateMs?: number
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
  const wal = new WriteAheadLog(path, options.truncateMs)
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
        // Also when the outcome is unknown.
        let ops = 0
        for (const group of groups)
          for (const { name } of group.ops) {
            ops++
            if (SEARCHED.has(name)) search.written(name)
          }
        wal.grew(ops)
      }
    },
    get trouble() {
      return writer.trouble
    },
    async size() {
      return { database: await bytesOf(path), wal: await bytesOf(`${path}-wal`) }
    },
    async purge() {
      const isLeft = db.prepare(ANY_REMOVED)
      await untilRemoved(async () => isLeft.get() !== undefined)
      await wal.empty()
    },
    async close() {
      await wal.stop()
      await writer.stop()
      await reader.stop()
      db.close()
    }
  }
}

/** Rewrites the file without what was deleted; returns its bytes before and after. @throws Error while it is locked */
export async function pruneFile(path: string): Promise<{ readonly before: number; readonly after: number }> {
  const before = await bytesOf(path)
  const db = connect(path)
  try {
    vacuum(db)
  } finally {
    db.close()
  }
  return { before, after: await bytesOf(path) }
}

/** All reads on a connection. `reader`: runs statements that may take long. `search` must be told of writes. */
export function readsOf(db: Database.Database, reader: Reader) {
  const search = new ThreadSearch(db, reader)
  const run = readRunner(db)
  const nouns = sqlReads(run, {
    search: search.search,
    words: WORDS,
    snapshot: snapshotRunner(db),
    beside: (steps) => runStepsBeside(reader, steps),
    runsOfMessages: originReads(db)
  })
  const reads = { frames: frameReads(db), checkpoints: checkpointReads(db), ...nouns }
  return { reads, search }
}

/** 0: no such file. */
async function bytesOf(path: string): Promise<number> {
  const found = await stat(path).catch(() => null)
  return found?.size ?? 0
}

// ------------------------------------------------------------------------------------------------ origins of messages

/** Parameters: message ids as a JSON list, and the number of messages in the thread above which each id is looked up. */
interface OriginsParams {
  thread: string
  ids: string
  most: number
  /** The user who asks. */
  1: string | null
}

type OriginRow = readonly [message_id: string, seq: number, run_id: string, event_type: string]

/** Records as one JSON list: together with other lists it is one row. */
const recorded = (source: string) =>
  `SELECT json_group_array(json_array(message_id, seq, run_id, event_type)) FROM ${source} AND ${visibleTo(1)}`

/**
 * An expression answered by the index alone. For half of a thread's messages or more it reads the whole thread:
 * scanning the index costs a quarter of that many lookups.
 */
const ORIGINS = `
  CASE WHEN NOT EXISTS (
    SELECT 1 FROM run_events INDEXED BY ix_events_message_4
    WHERE thread_id = @thread AND message_id IS NOT NULL LIMIT 1 OFFSET @most)
  THEN (${recorded('run_events INDEXED BY ix_events_message_4 WHERE thread_id = @thread AND message_id IS NOT NULL')})
  ELSE (${recorded(`(SELECT DISTINCT value FROM json_each(@ids)) AS asked CROSS JOIN run_events INDEXED BY ix_events_message_4
    WHERE thread_id = @thread AND message_id = asked.value`)}) END`

function originReads(db: Database.Database): EventReads['runsOfMessages'] {
  const origins = db.prepare<OriginsParams, string>(`SELECT ${ORIGINS}`).pluck()
  return async (thread, messageIds, owner) => {
    const params = { thread, ids: JSON.stringify(messageIds), most: 2 * messageIds.length, 1: owner }
    return originsIn(origins.get(params)!, messageIds)
  }
}

function originsIn(answer: string, messageIds: readonly string[]): Map<string, MessageOrigin> {
  // Written by the expression above.
  const rows = JSON.parse(answer) as OriginRow[]
  const newest = new Map<string, OriginRow>()
  for (const row of rows) newest.set(row[0], row)
  // Several runs have recorded a message: the newest record wins.
  if (newest.size < rows.length) for (const row of rows.sort(bySeq)) newest.set(row[0], row)
  const origins = new Map<string, MessageOrigin>()
  for (const id of messageIds) {
    const row = newest.get(id)
    if (row) origins.set(id, { run_id: row[2], event_type: row[3] })
  }
  return origins
}

function bySeq(one: OriginRow, other: OriginRow): number {
  return one[1] - other[1]
}
