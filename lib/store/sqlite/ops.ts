// Every write by name, as the writer thread runs it.
import type Database from 'better-sqlite3'
import type { OpName } from '../store.ts'
import { SQL_WRITES } from '../sql/nouns.ts'
import { checkpointWrites } from './checkpoints.ts'
import { eventWrites } from './events.ts'
import { frameWrites } from './frames.ts'
import type { AnyWriter, Writers } from './rows.ts'
import { runWrites } from './runs.ts'
import { stepWriters } from './steps.ts'
import { threadWrites } from './threads.ts'

/** Prepares all statements once; each writes one op inside the caller's transaction. */
export function opWriters(db: Database.Database): Readonly<Record<string, AnyWriter>> {
  // The same value: SQLite still writes the page.
  const ping = db.prepare('UPDATE migrations SET applied_at = applied_at WHERE version = 1')
  const table: Writers<OpName> = {
    'store.ping': () => {
      ping.run()
      return null
    },
    ...stepWriters(db, { ...SQL_WRITES, ...runWrites, ...checkpointWrites }),
    ...threadWrites(db),
    ...eventWrites(db),
    ...frameWrites(db)
  }
  // The table has for each name a function of that op; the compiler cannot follow name and op through one lookup.
  return table as unknown as Record<string, AnyWriter>
}
