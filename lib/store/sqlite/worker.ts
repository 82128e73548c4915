// The one thread that writes the database. Each batch is one transaction, each group in it a savepoint.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { Sqlite } from '../../sqlite-driver.ts'
import type { Outcome } from '../store.ts'
import { connect } from './connection.ts'
import { opWriters } from './ops.ts'
import { type Answers, packedOutcomes, type Parcel, unpacked } from './parcel.ts'
import type { WriterGroup } from './rows.ts'

export type WriterAnswer = {
  readonly id: number
  /** Of the parcel: it comes back, for the next one. */
  readonly block: ArrayBuffer | null
} & BatchOutcome

type BatchOutcome =
  | { readonly answers: Answers }
  | {
      /** null: not a failure of the moment. */
      readonly code: string | null
      readonly message: string
      /** See StoreUnavailable. */
      readonly passes: boolean
    }

/** Errors that say nothing about a group, only about the moment: a lock, a full or failing disk. The batch may be tried again. */
function isOfTheMoment(error: unknown): error is InstanceType<typeof Database.SqliteError> {
  return (
    error instanceof Sqlite.SqliteError &&
    /^SQLITE_(BUSY|LOCKED|IOERR|FULL|READONLY|NOMEM|CANTOPEN|PROTOCOL|INTERRUPT)/.test(error.code)
  )
}

/** Somebody else holds a lock, and will let go. */
function isLock(code: string): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(code)
}

/**
 * Applies batches on one connection; the functions of [Store 2] and [Store 3] for SQLite.
 * @returns a function that answers one outcome a group, or throws when nothing was written.
 */
export function batchWriter(db: Database.Database): (groups: readonly WriterGroup[]) => Outcome[] {
  const writers = opWriters(db)
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const rollback = db.prepare('ROLLBACK')
  const savepoint = db.prepare('SAVEPOINT one_group')
  const release = db.prepare('RELEASE one_group')
  const undo = db.prepare('ROLLBACK TO one_group')

  const results = ({ ops }: WriterGroup): Outcome => ({ ok: true, results: ops.map((op) => writers(op)) })

  const applyGroup = (group: WriterGroup): Outcome => {
    savepoint.run()
    try {
      const outcome = results(group)
      release.run()
      return outcome
    } catch (error) {
      if (isOfTheMoment(error) || !db.inTransaction) throw error
      undo.run()
      release.run()
      return { ok: false, message: error instanceof Error ? error.message : String(error) }
    }
  }

  const applyAll = (groups: readonly WriterGroup[], applyOne: (group: WriterGroup) => Outcome): Outcome[] => {
    begin.run()
    try {
      const outcomes = groups.map(applyOne)
      commit.run()
      return outcomes
    } catch (error) {
      // A full disk rolls back by itself.
      if (db.inTransaction) rollback.run()
      throw error
    }
  }

  return (groups) => {
    try {
      // Hardly ever is a group refused: the savepoints, two more statements a group, are for when one was.
      return applyAll(groups, results)
    } catch (error) {
      if (isOfTheMoment(error)) throw error
      return applyAll(groups, applyGroup)
    }
  }
}

function serve(path: string): void {
  const port = parentPort!
  const db = connect(path)
  const apply = batchWriter(db)
  port.on('message', (message: { id: number; parcel: Parcel } | 'stop') => {
    if (message === 'stop') {
      db.close()
      port.close()
      return
    }
    const { id, parcel } = message
    const { block } = parcel
    const answer: WriterAnswer = { id, block, ...outcomeOf(parcel) }
    port.postMessage(answer, block ? [block] : [])
  })
  // A batch that cannot be read has no number to be answered by: the thread ends, which the other side hears.
  port.on('messageerror', (error) => {
    throw error
  })
  port.postMessage('ready')

  function outcomeOf(parcel: Parcel): BatchOutcome {
    try {
      return { answers: packedOutcomes(apply(unpacked(parcel))) }
    } catch (error) {
      const code = isOfTheMoment(error) ? error.code : null
      const message = error instanceof Error ? error.message : String(error)
      return { code, message, passes: code !== null && isLock(code) }
    }
  }
}

// Imported by tests and benches as well, which have no parent to serve.
if (parentPort && typeof workerData?.path === 'string') serve(workerData.path)
