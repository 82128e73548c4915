// The one thread that writes the database. Each batch is one transaction; its groups get savepoints when one is refused.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { messageOf } from '../../base/errors.ts'
import { Sqlite } from '../../base/sqlite-driver.ts'
import { timestamp } from '../../base/types.ts'
import { refusal } from '../ports/ops.ts'
import type { Outcome } from '../store.ts'
import { connect } from './connection.ts'
import { opWriters } from './ops.ts'
import { type Answers, decodeBatch, type EncodedBatch, encodeOutcomes, type WriterGroup } from './batch-codec.ts'
import { Remover } from './removal.ts'
import { knownVersion } from './schema.ts'
import { beginThread } from './worker-thread.ts'
import { outdated } from '../sql/migrations.ts'

const DAY_MS = 86_400_000

/** workerData of the thread. */
export interface WriterData {
  readonly path: string
  /** Its id in `writers`: shared by successive threads of one store. */
  readonly writerId: string
}

/**
 * Messages of the thread: once, the last batch committed under its id; per batch, the outcomes of its groups before the commit, and then
 * that it is committed, or that nothing was written. If the second message never comes, the next thread is asked.
 */
export type WriterMessage =
  | { readonly kind: 'ready'; readonly committed: number }
  | { readonly kind: 'committing'; readonly id: number; readonly answers: Answers }
  | ({
      readonly kind: 'committed' | 'failed'
      readonly id: number
      /** The batch's block, returned for reuse. */
      readonly block: ArrayBuffer | null
    } & Failure)

/** Why nothing was written. */
interface Failure {
  /** null: the error is about a group, or there is none. */
  readonly code: string | null
  readonly message: string
  /** See StoreUnavailable. */
  readonly passes: boolean
}

/** A newer program has migrated the database since this one started. */
class Outdated extends Error {
  readonly code = 'SCHEMA_NEWER'
}

const NO_FAILURE: Failure = { code: null, message: '', passes: false }

/**
 * Errors that say nothing about a group: all but those about its data. A lock, a full or failing disk, damaged pages, a
 * renamed table: the batch may be retried later.
 */
function isUnavailable(error: unknown): error is InstanceType<typeof Database.SqliteError> {
  return error instanceof Sqlite.SqliteError && !/^SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|RANGE)/.test(error.code)
}

/** Somebody else holds a lock and will release it. */
function isLock(code: string): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(code)
}

/**
 * Writes groups as one transaction; returns one outcome per group. `beforeCommit` runs within it.
 * @throws when nothing was written
 */
type BatchWriter = (groups: readonly WriterGroup[], beforeCommit?: (outcomes: Outcome[]) => void) => Outcome[]

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
      return refusal(error)
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
      // On a full disk SQLite has rolled back already.
      if (db.inTransaction) rollback.run()
      throw error
    }
  }

  return (groups, beforeCommit = () => {}) => {
    try {
      // Groups are rarely refused: savepoints cost two statements per group, and are used only after a refusal.
      return applyAll(groups, results, beforeCommit)
    } catch (error) {
      if (isUnavailable(error) || error instanceof Outdated) throw error
      return applyAll(groups, applyGroup, beforeCommit)
    }
  }
}

/** Numbers of committed batches, written with each batch. */
function batchNumbers(db: Database.Database, writerId: string): { last(): number; note(batch: number): void } {
  // Rows of writers from days ago: nobody needs them any more.
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
  // An undecodable batch has no number to answer with: the thread ends, and the other side notices.
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
      const message = messageOf(error)
      return { code, message, passes: code !== null && isLock(code) }
    }
  }
}

// Also imported by tests and benches, without a parent to serve.
if (parentPort && typeof workerData?.path === 'string') beginThread(() => serve(workerData))
