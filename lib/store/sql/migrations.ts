// Migration steps: numbered SQL files.
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  readonly version: number
  /** Oldest schema version whose program may write after it: 0 of any, its own when its first line is `-- breaking: why`. */
  readonly minWriter: number
  /** The same of reading: 0 also after `-- breaking for writers: why`. */
  readonly minReader: number
  readonly sql: string
  /** Indexes of tables in use: statements that a transaction cannot have, each `CREATE INDEX CONCURRENTLY IF NOT EXISTS`; PostgreSQL alone. */
  readonly indexes: string | null
  /**
   * Fills what `sql` has added, a batch a transaction; PostgreSQL alone. One statement: $1 is the last key of the batch before, as
   * text, '' at first, and $2 how many rows; answers `after`, the last key of this batch, null when there are none, and `rows`.
   */
  readonly backfill: string | null
  /** Removes the old form, when no program that needs it is left; PostgreSQL alone. */
  readonly contract: string | null
}

const BREAKING = /^-- breaking( for writers)?:/

/** The steps in a folder, in order: `000001.sql` is 1, with `000001.indexes.sql`, `.backfill.sql`, `.contract.sql`. The URL ends in a slash. */
export function migrationsIn(folder: URL): Migration[] {
  const names = readdirSync(folder)
  const read = (name: string): string | null =>
    names.includes(name) ? readFileSync(new URL(name, folder), 'utf8') : null
  return names
    .filter((name) => /^\d{6}\.sql$/.test(name))
    .sort()
    .map((name) => {
      const version = Number.parseInt(name, 10)
      const part = (kind: string) => read(name.replace('.sql', `.${kind}.sql`))
      const sql = read(name) ?? ''
      const [breaking, forWriters] = BREAKING.exec(sql) ?? []
      const minWriter = breaking === undefined ? 0 : version
      const minReader = forWriters === undefined ? minWriter : 0
      const parts = { indexes: part('indexes'), backfill: part('backfill'), contract: part('contract') }
      return { version, minWriter, minReader, sql, ...parts }
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
  if (found > known) throw tooNew(found, known)
  return steps.filter(({ version }) => version > found)
}

export function tooNew(found: number, known: number): Error {
  return new Error(
    `The database has schema version ${found}, this program knows versions up to ${known}: start a newer one`
  )
}

/** Where a migration is, for whoever waits for it. */
export interface MigrationProgress {
  readonly version: number
  /** `lock`: somebody holds one that it needs. `other`: another process is doing it. */
  readonly phase: 'copy' | 'expand' | 'indexes' | 'backfill' | 'contract' | 'lock' | 'other'
  /** Rows done of an estimated number, in a backfill. */
  readonly rows?: number
  readonly of?: number
  /** Bytes of the file. */
  readonly bytes?: number
  readonly elapsed_ms: number
}

const SLOW = { ms: 1000, bytes: 100_000_000 }

/** False: it will be over before anybody wonders. */
export function isSlow({ elapsed_ms, bytes = 0 }: MigrationProgress): boolean {
  return elapsed_ms >= SLOW.ms || bytes >= SLOW.bytes
}

export type OnProgress = (progress: MigrationProgress) => unknown

/** What is to be done to a database, and who is using it. */
export interface SchemaPlan {
  readonly backend: string
  /** Schema version of the database; 0: there is none. */
  readonly schema: number
  readonly program: number
  readonly min_reader: number
  readonly min_writer: number
  readonly bytes: number
  readonly steps: readonly PlannedStep[]
  /** Processes on it, by the newest schema version that they know; 0: from before they said it. */
  readonly processes: readonly { readonly schema: number; readonly count: number }[]
}

export interface PlannedStep {
  readonly version: number
  readonly phase: 'expand' | 'indexes' | 'backfill' | 'contract'
  /** True: programs of the versions before must have stopped. */
  readonly stop: boolean
  /** Estimated rows to be filled. */
  readonly rows: number | null
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
    breaking: steps.some(({ minWriter }) => minWriter > 0),
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
