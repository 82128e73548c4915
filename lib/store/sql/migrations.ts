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

/** The schema version that the steps of a folder make: that of this program. */
export function versionIn(folder: URL): number {
  return migrationsIn(folder).at(-1)?.version ?? 0
}

/**
 * The steps that a database of this version lacks.
 * @throws Error when it is newer than this program
 */
export function missingSteps(folder: URL, found: number): Migration[] {
  const steps = migrationsIn(folder)
  const known = steps.at(-1)?.version ?? 0
  if (found > known)
    throw new Error(
      `The database has schema version ${found}, this program knows versions up to ${known}: start a newer one`
    )
  return steps.filter(({ version }) => version > found)
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

/** What steps did that were begun at this time, by `performance.now()`. */
export function migratedBy(steps: readonly Migration[], from: number, begun: number, backup: string | null): Migrated {
  return {
    from,
    to: steps.at(-1)!.version,
    breaking: steps.some(({ isBreaking }) => isBreaking),
    duration_ms: Math.round(performance.now() - begun),
    backup
  }
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
