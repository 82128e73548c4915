// Migration steps: numbered SQL files.
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  readonly version: number
  /** Marked by its first line, `-- breaking: why`: the previous version of the program would read or write something wrong after it. */
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

/** What a migration did to an existing database. */
export interface Migrated {
  readonly from: number
  readonly to: number
  readonly breaking: boolean
  readonly duration_ms: number
  /** Backup of the database before; null: none was made. */
  readonly backup: string | null
}

/** The error when another version is serving the database: it is left as it is. */
export function servedByAnother(from: number, to: number): Error {
  return new Error(
    `The database has schema version ${from}, this program would bring it to ${to}, and a server of another version is using it: ` +
      'stop that one first (one that was killed is waited for until its lease is over)'
  )
}

/** Error of a process whose database was migrated by a newer program: it takes no more writes. */
export function outdated(known: number, found: number): string {
  return (
    `a newer program has brought the database to schema version ${found}, and this one knows ${known}: ` +
    'start the newer one in its place'
  )
}
