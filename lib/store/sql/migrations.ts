// The steps of a schema: numbered files of SQL.
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  readonly version: number
  /** Its first line says so, `-- breaking: why`: a program of the version before would read or write something wrong behind it. */
  readonly isBreaking: boolean
  readonly sql: string
}

/** The steps in a folder, in order: `000001.sql` is 1. The folder's URL ends in a slash. */
export function migrationsIn(folder: URL): Migration[] {
  return readdirSync(folder)
    .filter((name) => /^\d{6}\.sql$/.test(name))
    .sort()
    .map((name) => {
      const sql = readFileSync(new URL(name, folder), 'utf8')
      return { version: Number.parseInt(name, 10), isBreaking: sql.startsWith('-- breaking'), sql }
    })
}

/** What was done to a database that an earlier program had made. */
export interface Migrated {
  readonly from: number
  readonly to: number
  readonly breaking: boolean
  readonly duration_ms: number
  /** A copy of the database as it was; null: none was made. */
  readonly backup: string | null
}

/** The versions that are missing, or an error: whatever is served by another version is left as it is. */
export function servedByAnother(from: number, to: number): Error {
  return new Error(
    `The database has schema version ${from}, this program would bring it to ${to}, and a server of another version is using it: ` +
      'stop that one first (one that was killed is waited for until its lease is over)'
  )
}

/** Said by a process that finds its database changed by a newer program, and why it takes no more writes. */
export function outdated(known: number, found: number): string {
  return (
    `a newer program has brought the database to schema version ${found}, and this one knows ${known}: ` +
    'start the newer one in its place'
  )
}
