// The one thread that writes the database. Each batch is one transaction, each group in it a savepoint.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { Sqlite } from '../../sqlite-driver.ts'
import { timestamp } from '../../types.ts'
import type { Outcome } from '../store.ts'
import { connect } from './connection.ts'
import { opWriters } from './ops.ts'
import { type Answers, encodeOutcomes, type EncodedBatch, decodeBatch } from './batch-codec.ts'
import { Remover } from './removal.ts'
import type { WriterGroup } from './rows.ts'
import { knownVersion } from './schema.ts'
import { outdated } from '../sql/migrations.ts'

const DAY_MS = 86_400_000

/** What the thread is started with. */
export interface WriterData {
  readonly path: string
  /** Its name in `writers`: those of one store share it, one after the other. */
  readonly writerId: string
}

/**
 * What the thread says: once, the last batch that was committed under its name; of each batch what became of its groups, before the
 * commit; and that it is committed, or that nothing was written. Who hears the first of a batch and never the second asks the next
 * thread.
 */
export type WriterMessage =
  | { readonly kind: 'ready'; readonly committed: number }
  | { readonly kind: 'committing'; readonly id: number; readonly answers: Answers }
  | ({
      readonly kind: 'committed' | 'failed'
      readonly id: number
      /** Of the batch: it comes back, for the next one. */
      readonly block: ArrayBuffer | null
    } & Failure)

/** Why nothing was written. */
interface Failure {
  /** null: it is about a group; or nothing has failed. */
  readonly code: string | null
  readonly message: string
  /** See StoreUnavailable. */
  readonly passes: boolean
}

/** The schema was changed by a newer program since this one has started. */
class Outdated extends Error {
  readonly code = 'SCHEMA_NEWER'
}

const NO_FAILURE: Failure = { code: null, message: '', passes: false }

/**
 * Errors of the database that say nothing about a group: all but those about its data. A lock, a full or failing disk, damaged pages, a
 * table that somebody has renamed: the batch may be tried again when it is over.
 */
function isUnavailable(error: unknown): error is InstanceType<typeof Database.SqliteError> {
  return error instanceof Sqlite.SqliteError && !/^SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|RANGE)/.test(error.code)
}

/** Somebody else holds a lock, and will let go. */
function isLock(code: string): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(code)
}

/** Writes groups as one transaction and answers one outcome a group. `beforeCommit` is called within it. @throws when nothing was written */
export type BatchWriter = (groups: readonly WriterGroup[], beforeCommit?: (outcomes: Outcome[]) => void) => Outcome[]

/** Applies batches on one connection; the functions of [Store 2] and [Store 3] for SQLite. */
export function batchWriter(db: Database.Database, writers = opWriters(db)): BatchWriter {
  const known = knownVersion()
  const version = db.prepare<[], number>('SELECT max(version) FROM migrations').pluck()
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const rollback = db.prepare('ROLLBACK')
  const savepoint = db.prepare('SAVEPOINT one_group')
  const release = db.prepare('RELEASE one_group')
  const undo = db.prepare('ROLLBACK TO one_group')

  const results = ({ ops }: WriterGroup): Outcome => ({ ok: true, results: ops.map((op) => writers[op.name]!(op)) })

  const applyGroup = (group: WriterGroup): Outcome => {
    savepoint.run()
    try {
      const outcome = results(group)
      release.run()
      return outcome
    } catch (error) {
      if (isUnavailable(error) || !db.inTransaction) throw error
      undo.run()
      release.run()
      return { ok: false, message: error instanceof Error ? error.message : String(error) }
    }
  }

  const applyAll = (
    groups: readonly WriterGroup[],
    applyOne: (group: WriterGroup) => Outcome,
    beforeCommit: (outcomes: Outcome[]) => void
  ): Outcome[] => {
    begin.run()
    try {
      const found = version.get() ?? 0
      if (found > known) throw new Outdated(outdated(known, found))
      const outcomes = groups.map(applyOne)
      beforeCommit(outcomes)
      commit.run()
      return outcomes
    } catch (error) {
      // A full disk rolls back by itself.
      if (db.inTransaction) rollback.run()
      throw error
    }
  }

  return (groups, beforeCommit = () => {}) => {
    try {
      // Hardly ever is a group refused: the savepoints, two more statements a group, are for when one was.
      return applyAll(groups, results, beforeCommit)
    } catch (error) {
      if (isUnavailable(error) || error instanceof Outdated) throw error
      return applyAll(groups, applyGroup, beforeCommit)
    }
  }
}

/** The numbers of committed batches, in the database: written with each of them. */
function batchNumbers(db: Database.Database, writerId: string): { last(): number; note(batch: number): void } {
  // What writers of days ago have left: nobody asks for it any more.
  db.prepare('DELETE FROM writers WHERE writer_id <> ? AND written_at < ?').run(
    writerId,
    timestamp(Date.now() - DAY_MS)
  )
  const last = db.prepare<[string], number>('SELECT batch FROM writers WHERE writer_id = ?').pluck()
  const note = db.prepare(`INSERT INTO writers (writer_id, batch, written_at) VALUES (?, ?, ?)
    ON CONFLICT (writer_id) DO UPDATE SET batch = excluded.batch, written_at = excluded.written_at`)
  return { last: () => last.get(writerId) ?? 0, note: (batch) => void note.run(writerId, batch, timestamp()) }
}

function serve({ path, writerId }: WriterData): void {
  const port = parentPort!
  const db = connect(path)
  const numbers = batchNumbers(db, writerId)
  const apply = batchWriter(db)
  const remover = new Remover(db)
  const say = (message: WriterMessage, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
  port.on('message', (message: { id: number; batch: EncodedBatch } | 'stop') => {
    if (message === 'stop') {
      remover.stop()
      db.close()
      port.close()
      return
    }
    const { id, batch } = message
    const { block } = batch
    const failure = failureOf(id, batch)
    say({ kind: failure ? 'failed' : 'committed', id, block, ...(failure ?? NO_FAILURE) }, block ? [block] : [])
    if (batch.ops.some((op) => op?.name === 'thread.remove')) remover.wake()
  })
  // A batch that cannot be read has no number to be answered by: the thread ends, which the other side hears.
  port.on('messageerror', (error) => {
    throw error
  })
  say({ kind: 'ready', committed: numbers.last() })

  function failureOf(id: number, batch: EncodedBatch): Failure | null {
    try {
      apply(decodeBatch(batch), (outcomes) => {
        numbers.note(id)
        say({ kind: 'committing', id, answers: encodeOutcomes(outcomes) })
      })
      return null
    } catch (error) {
      const code = isUnavailable(error) || error instanceof Outdated ? error.code : null
      const message = error instanceof Error ? error.message : String(error)
      return { code, message, passes: code !== null && isLock(code) }
    }
  }
}

// Imported by tests and benches as well, which have no parent to serve.
if (parentPort && typeof workerData?.path === 'string') serve(workerData)
