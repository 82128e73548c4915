// From the configuration to a store: the only place that names a dialect.
//
// | events \ database | memory                    | sqlite, postgres, a module      |
// |-------------------|---------------------------|---------------------------------|
// | memory            | the database's own        | beside it, gone with the process |
// | db                | the database's own, warns | the database's own              |
// | jsonl             | beside it, in files that no restart knows | beside it, in files |
// | a module          | beside it                 | beside it                       |
import { existsSync } from 'node:fs'
import { messageOf } from '../base/errors.ts'
import { isServed } from '../files/home.ts'
import { openJsonlEvents } from './jsonl/events.ts'
import { openMemoryEvents } from './memory/event-store.ts'
import { openMemoryStore } from './memory/open.ts'
import { openSplitStore } from './split/open.ts'
import type { Condition } from './condition.ts'
import type { CopiedTable, CopySource, CopyTarget } from './copy.ts'
import type { PartTarget } from './copy-part.ts'
import { openSqlitePart, openSqliteSource, openSqliteTarget } from './sqlite/copy.ts'
import { logSlowStatements } from './slow-statements.ts'
import { sqliteCondition } from './sqlite/condition.ts'
import { planOf as planOfFile } from './sqlite/schema.ts'
import { openSqliteStore, pruneFile } from './sqlite/open.ts'
import { isSlow, type Migrated, type OnProgress, type SchemaPlan } from './sql/migrations.ts'
import type { EventStore, Store, Warn, ModuleOptions } from './store.ts'
import { pathToFileURL } from 'node:url'
import type { JsonObject } from '../base/types.ts'

export interface DatabaseOptions {
  readonly backend: 'memory' | 'sqlite' | 'postgres' | ModuleRef
  /** Absolute. */
  readonly sqlite_path: string
  /** Present when the backend is postgres: the configuration checks it. */
  readonly postgres_url?: string | null
  /** False: a SQLite file is not backed up before its schema changes. */
  readonly migration_backup?: boolean
}

interface StoreOptions {
  /** Absolute; event files live under it. */
  readonly home: string
  readonly database: DatabaseOptions
  readonly run_events: { readonly backend: 'memory' | 'db' | 'jsonl' | ModuleRef }
  readonly runs?: { readonly lease_ms: number }
  readonly log?: { readonly slow_statement_ms: number }
}

/** Whom to notify of a migration; default: the log. */
interface MigrationHooks {
  readonly onMigrated?: (what: Migrated) => void
  readonly onProgress?: OnProgress
}

/** @throws Error when a store cannot be opened, or is newer than this program. */
export async function openStore(options: StoreOptions, warn: Warn): Promise<Store> {
  logSlowStatements(options.log?.slow_statement_ms ?? 0, warn)
  const database = await openDatabase(options, warn)
  try {
    const events = await openEvents(options, warn)
    return events ? await openSplitStore(database, events, warn) : database
  } catch (error) {
    await database.close()
    throw error
  }
}

/**
 * The database without events, for commands that need none.
 * @param mayMigrate false: an older one is refused, as one that another version is serving
 * @throws Error when it cannot be opened, or is newer
 */
export async function openDatabase(
  { home, database, runs }: StoreOptions,
  warn: Warn,
  { mayMigrate = true, ...on }: MigrationHooks & { readonly mayMigrate?: boolean } = {}
): Promise<Store> {
  const { backend, sqlite_path, postgres_url, migration_backup = true } = database
  const {
    onMigrated = (what) => warn(what, 'the database was migrated to the schema of this version'),
    onProgress = (progress) => isSlow(progress) && warn(progress, 'the schema of the database is being changed')
  } = on
  if (typeof backend === 'object') {
    const like = openMemoryStore({ feedback: true })
    return openDatabaseModule(backend, { home, warn }, like).finally(() => like.close())
  }
  switch (backend) {
    case 'sqlite':
      return openSqliteStore(sqlite_path, {
        isServed: () => !mayMigrate || isServed(home, sqlite_path),
        hasBackup: migration_backup,
        onMigrated,
        onProgress
      }).catch((error: unknown) => {
        const reason = messageOf(error)
        throw new Error(`The database ${sqlite_path} cannot be opened: ${reason}`, { cause: error })
      })
    case 'memory':
      warn({}, 'database.backend is memory: nothing is kept over a restart')
      return openMemoryStore({ onForget: (threadId) => warn({ thread_id: threadId }, FULL) })
    case 'postgres': {
      if (!postgres_url) throw new Error('database.postgres_url is missing')
      // Most have no server: its driver is loaded by those who do.
      const { openPostgresStore } = await import('./postgres/open.ts')
      return openPostgresStore(postgres_url, {
        onMigrated,
        onProgress,
        mayMigrate,
        ...(runs && { leaseMs: runs.lease_ms })
      })
    }
  }
}

/** What a newer version has to change in the database. @throws Error when it is too new, not ours, or does not answer */
export async function planSchema({ home, database }: StoreOptions): Promise<SchemaPlan> {
  const { backend, sqlite_path, postgres_url } = database
  if (backend === 'sqlite') return planOfFile(sqlite_path, existsSync(sqlite_path) && isServed(home, sqlite_path))
  if (backend !== 'postgres') throw new Error(NO_SCHEMA)
  return (await import('./postgres/schema.ts')).planOf(postgres_url!)
}

/**
 * Removes the forms of rows that only older versions need; returns the steps.
 * @throws Error when a process of an older version is using the database
 */
export async function contractSchema({ database }: StoreOptions, onProgress: OnProgress): Promise<number[]> {
  if (database.backend === 'sqlite') return []
  if (database.backend !== 'postgres') throw new Error(NO_SCHEMA)
  return (await import('./postgres/schema.ts')).contractDatabase(database.postgres_url!, onProgress)
}

const NO_SCHEMA = 'only SQLite files and PostgreSQL databases have a schema that is changed by steps'

/** null: there is nothing to look at. @throws Error when it does not answer */
export async function conditionOf({ backend, sqlite_path, postgres_url }: DatabaseOptions): Promise<Condition | null> {
  if (backend === 'postgres') return (await import('./postgres/condition.ts')).postgresCondition(postgres_url!)
  return backend === 'sqlite' && existsSync(sqlite_path) ? sqliteCondition(sqlite_path) : null
}

/** The tables that a copy of a database has. */
export { copiedTables } from './sqlite/copy.ts'
/** The file of a backup: `openSqliteTarget` makes one. */
export { openSqliteSource, openSqliteTarget } from './sqlite/copy.ts'

/**
 * All rows of a database at this moment, also beside a server.
 * @throws Error when it cannot be opened, or is of another version
 */
export async function openCopySource({ backend, sqlite_path, postgres_url }: DatabaseOptions): Promise<CopySource> {
  if (backend === 'sqlite') return openSqliteSource(sqlite_path)
  if (backend !== 'postgres') throw new Error(NOT_COPIED)
  return (await import('./postgres/copy.ts')).openPostgresSource(postgres_url!)
}

/**
 * A database that rows are copied into: an empty one, or one that such a copy has left.
 * @throws Error when it cannot be opened, is used, or has rows of its own
 */
export async function openCopyTarget(
  { backend, sqlite_path, postgres_url }: DatabaseOptions,
  tables: readonly CopiedTable[]
): Promise<CopyTarget> {
  if (backend === 'sqlite') return openSqliteTarget(sqlite_path)
  if (backend !== 'postgres') throw new Error(NOT_COPIED)
  return (await import('./postgres/copy.ts')).openPostgresTarget(postgres_url!, tables)
}

/**
 * A database that single threads are put back into, also beside a server.
 * @throws Error when there is none, or it is of another version
 */
export async function openPartTarget({ backend, sqlite_path, postgres_url }: DatabaseOptions): Promise<PartTarget> {
  if (backend === 'sqlite') return openSqlitePart(sqlite_path)
  if (backend !== 'postgres') throw new Error(NOT_COPIED)
  return (await import('./postgres/copy.ts')).openPostgresPart(postgres_url!)
}

const NOT_COPIED = 'only SQLite files and PostgreSQL databases can be copied'

/** Whether a server is using the database. @throws Error when it does not answer */
export async function isInUse({ home, database }: StoreOptions): Promise<boolean> {
  const { backend, sqlite_path, postgres_url } = database
  if (backend !== 'postgres') return isServed(home, backend === 'sqlite' ? sqlite_path : null)
  return (await import('./postgres/schema.ts')).isDatabaseServed(postgres_url!)
}

/**
 * Takes what was deleted out of the database file, also beside a running server.
 * @throws Error when the database is no file of ours, or is locked for too long.
 */
export async function pruneDatabase({
  database
}: StoreOptions): Promise<{ readonly before: number; readonly after: number }> {
  const { backend, sqlite_path } = database
  if (backend === 'postgres') throw new Error('PostgreSQL does this itself: run VACUUM FULL on the database')
  if (backend !== 'sqlite') throw new Error('only a SQLite file can be pruned')
  if (!existsSync(sqlite_path))
    throw new Error(`There is no database ${sqlite_path}: name the server's --config or --home`)
  return pruneFile(sqlite_path)
}

/** Null: events are in the database. */
async function openEvents({ home, database, run_events }: StoreOptions, warn: Warn): Promise<EventStore | null> {
  const { backend } = run_events
  if (typeof backend === 'object') return openEventModule(backend, { home, warn }, openMemoryEvents())
  const isInMemory = database.backend === 'memory'
  switch (backend) {
    case 'db':
      if (isInMemory) warn({}, 'run_events.backend is db and database.backend is memory: events are kept in memory')
      return null
    case 'memory':
      if (isInMemory) return null
      warn({}, 'run_events.backend is memory: events are not kept over a restart')
      return openMemoryEvents({ onForget: (threadId) => warn({ thread_id: threadId }, EVENTS_FULL) })
    case 'jsonl':
      if (isInMemory)
        warn({}, 'database.backend is memory: after a restart the run events in files belong to no thread')
      return openJsonlEvents({ home, warn })
  }
}

const FULL = 'the memory database is full: the least recently written thread was removed'
const EVENTS_FULL = 'there are too many events in memory: those of the least recently written thread were removed'

// ---------------------------------------------------------------------------------------------- a module of one's own

/** A store in the configuration: `{ module: ./their-store.js, options: {...} }`. */
export interface ModuleRef {
  /** Absolute. */
  readonly module: string
  readonly options: JsonObject
}

type ModuleContext = Omit<ModuleOptions, 'options'>

/** @throws Error when the file cannot be loaded, exports no `openEventStore`, or what that answers has less than `like`. */
async function openEventModule(ref: ModuleRef, context: ModuleContext, like: EventStore): Promise<EventStore> {
  const opened = await opens('run_events.backend', 'openEventStore', ref, context)
  refuse('run_events.backend', 'openEventStore', ref, missingIn(opened, like, ''))
  // Every method was looked for.
  return opened as EventStore
}

/** @throws Error when the file cannot be loaded, exports no `openStore`, or what that answers has less than `like`. */
async function openDatabaseModule(ref: ModuleRef, context: ModuleContext, like: Store): Promise<Store> {
  const opened = await opens('database.backend', 'openStore', ref, context)
  const missing = Object.entries(like).flatMap(([noun, methods]) => {
    if (typeof methods !== 'object') return []
    // null says that there is no feedback, and without a search nothing is found by its words.
    if (noun === 'feedback' && memberOf(opened, noun) === null) return []
    if (noun === 'search' && memberOf(opened, noun) === undefined) return []
    return missingIn(memberOf(opened, noun), methods, `${noun}.`)
  })
  const hint = memberOf(opened, 'jobs') === undefined ? BEFORE_JOBS : ''
  refuse('database.backend', 'openStore', ref, [...missingIn(opened, like, ''), ...missing], hint)
  // Every method was looked for.
  return opened as Store
}

async function opens(option: string, name: string, ref: ModuleRef, context: ModuleContext): Promise<unknown> {
  const exported = await load(option, ref.module)
  const open = memberOf(exported, name)
  if (typeof open !== 'function') throw new Error(`${option}: ${ref.module} exports no function ${name}`)
  const options: ModuleOptions = { ...context, options: ref.options }
  return open(options)
}

async function load(option: string, path: string): Promise<unknown> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    const why = messageOf(error)
    throw new Error(`${option}: ${path} cannot be loaded (${why})`, { cause: error })
  }
}

/** Names of the methods of `like` that it does not have. */
function missingIn(value: unknown, like: object, prefix: string): string[] {
  const methods = Object.entries(like).flatMap(([name, member]) => (typeof member === 'function' ? [name] : []))
  return methods.flatMap((name) => (typeof memberOf(value, name) === 'function' ? [] : [prefix + name]))
}

/** Of a store that was written for the first version of the contract. */
const BEFORE_JOBS =
  ': since 0.2 webhooks, turns of crons and times to live are rows of one noun, jobs, which their ops make (lib/store/README.md, "Jobs")'

function refuse(option: string, name: string, { module }: ModuleRef, missing: readonly string[], hint = ''): void {
  if (missing.length === 0) return
  throw new Error(`${option}: what ${name} of ${module} answers has no ${missing.join(', ')}${hint}`)
}

function memberOf(value: unknown, name: string): unknown {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return undefined
  // Reading a member is safe on any object.
  return (value as Record<string, unknown>)[name]
}
