// The schema: prepares a database for this program, or refuses it.
import postgres from 'postgres'
import { messageOf } from '../../base/errors.ts'
import {
  type Migrated,
  migratedBy,
  type OnProgress,
  type PlannedStep,
  type SchemaPlan,
  servedByAnother,
  tooNew
} from '../sql/migrations.ts'
import { PgConnection } from './pg-connection.ts'
import {
  contractsOf,
  hasTable,
  Migrator,
  missingOf,
  processesOn,
  rowsOfBackfill,
  type Schema,
  schemaOf,
  STEPS
} from './migrator.ts'
import { inDatabase, readUrl } from './url.ts'

/** A table that is there while a copy is made into the database. */
export const UNFINISHED = 'unfinished_copy'

/**
 * Applies what is missing, one process at a time: a process that waited finds it done. Beside servers of an older version, when those may
 * go on afterwards; one of theirs that starts meanwhile waits for nothing.
 */
async function migrate(
  connection: PgConnection,
  { onMigrated = () => {}, onProgress = () => {}, mayMigrate = true, isCopying = false }: Preparing
): Promise<void> {
  if (!isCopying) await refuseUnfinished(connection)
  const found = await schemaOf(connection)
  if (isReady(found, mayMigrate ? 'write' : 'read')) return
  if (!mayMigrate) throw servedByAnother(found.version, knownVersion())
  // However long it takes.
  await connection.rows('SET statement_timeout = 0')
  await connection.rows('SET lock_timeout = 0')
  // An empty database is there at once.
  const migrator = new Migrator(connection, found.version === 0 ? () => {} : onProgress)
  await migrator.lock()
  const schema = await schemaOf(connection)
  const missing = missingOf(schema)
  if (isReady(schema, 'write')) return
  const processes = await processesOn(connection)
  if (schema.version === 0) await refuseStrangers(connection)
  else if (mustStop(missing, processes)) throw servedByAnother(schema.version, knownVersion())
  await connection.rows(
    'CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)'
  )
  const begun = performance.now()
  for (const step of missing) await migrator.expand(step, schema, processes.length > 0)
  if (schema.version > 0) onMigrated(migratedBy(missing, schema.version, begun, null))
}

/**
 * Whether this program may use the database as it is; false: it is older.
 * @throws Error when it is too new
 */
function isReady(schema: Schema, access: 'read' | 'write'): boolean {
  const least = access === 'read' ? schema.minReader : schema.minWriter
  if (least > knownVersion()) throw tooNew(least, knownVersion())
  return missingOf(schema).length === 0
}

/** True: one of the processes may not go on after these steps. */
function mustStop(steps: ReturnType<typeof missingOf>, processes: readonly { schema: number }[]): boolean {
  const least = Math.max(0, ...steps.map(({ minWriter }) => minWriter))
  return processes.some(({ schema }) => schema < least)
}

export function knownVersion(): number {
  return STEPS.at(-1)?.version ?? 0
}

/** True: a process holds a lease. */
export async function isServed(connection: PgConnection): Promise<boolean> {
  return (await processesOn(connection)).length > 0
}

async function refuseUnfinished(connection: PgConnection): Promise<void> {
  if (await hasTable(connection, UNFINISHED))
    throw new Error('A copy into the database is not finished: repeat the move or restore, or drop its tables')
}

/** @throws Error when the schema is older, does not let this program do it any more, or is not ours */
export async function checkSchema(connection: PgConnection, access: 'read' | 'write'): Promise<void> {
  if (!(await hasTable(connection, 'migrations')))
    throw new Error('The PostgreSQL database has no tables of this program')
  await refuseUnfinished(connection)
  const schema = await schemaOf(connection)
  if (!isReady(schema, access))
    throw new Error(
      `The database has schema version ${schema.version}, and this program ${knownVersion()}: use the one that serves it`
    )
}

/** Tables with our names that we did not create: of another service, or one before this. */
async function refuseStrangers(connection: PgConnection): Promise<void> {
  if (await hasTable(connection, 'threads_meta'))
    throw new Error(
      'The database has tables that this program did not make, and no migration exists for them: ' +
        'use a fresh database, or alter them by hand'
    )
}

// ------------------------------------------------------------------------------------------------ by command

/** What is to be done to the database, without doing it. @throws Error when it is too new, or does not answer */
export async function planOf(url: string): Promise<SchemaPlan> {
  const connection = await reach(url)
  try {
    await refuseUnfinished(connection)
    const schema = await schemaOf(connection)
    const expands = await Promise.all(missingOf(schema).map((step) => plannedOf(connection, step, schema)))
    const contracts = STEPS.filter(({ contract, version }) => contract !== null && !schema.contracted.has(version))
    const planned = ({ version }: { version: number }): PlannedStep => ({
      version,
      phase: 'contract',
      stop: true,
      rows: null
    })
    const [size] = await connection.rows<{ bytes: number }>(
      'SELECT pg_database_size(current_database())::float8 AS bytes'
    )
    return {
      backend: 'postgres',
      schema: schema.version,
      program: knownVersion(),
      min_reader: schema.minReader,
      min_writer: schema.minWriter,
      bytes: size?.bytes ?? 0,
      steps: [...expands.flat(), ...contracts.map(planned)],
      processes: await processesOn(connection)
    }
  } finally {
    await connection.close()
  }
}

async function plannedOf(
  connection: PgConnection,
  { version, minWriter, indexes, backfill }: ReturnType<typeof missingOf>[number],
  schema: Schema
): Promise<PlannedStep[]> {
  const steps: PlannedStep[] = []
  if (version > schema.version) steps.push({ version, phase: 'expand', stop: minWriter > 0, rows: null })
  if (indexes !== null) steps.push({ version, phase: 'indexes', stop: false, rows: null })
  if (backfill === null) return steps
  const done = schema.pending.find((one) => one.version === version)?.rows ?? 0
  const rows = Math.max(0, (await rowsOfBackfill(connection, backfill)) - done)
  return [...steps, { version, phase: 'backfill', stop: false, rows }]
}

/**
 * Removes the old forms that no program needs any more; returns the steps.
 * @throws Error when a process needs one of them, or the database is not of this version
 */
export async function contractDatabase(url: string, onProgress: OnProgress): Promise<number[]> {
  const connection = await reach(url)
  try {
    await connection.rows('SET statement_timeout = 0')
    const migrator = new Migrator(connection, onProgress)
    await migrator.lock()
    await checkSchema(connection, 'write')
    const schema = await schemaOf(connection)
    const steps = contractsOf(schema)
    for (const step of steps) await migrator.contract(step)
    return steps.map(({ version }) => version)
  } finally {
    await connection.close()
  }
}

// ----------------------- Prepares the database behind the URL: creates it if missing, checks it, and migrates it

/** The maintenance database every server has. */
const MAINTENANCE_DATABASE = 'postgres'

const NO_SUCH_DATABASE = '3D000'
const EXISTS_ALREADY = /^(42P04|23505)$/
const NOT_ALLOWED = '42501'
const TOO_MANY = '53300'

interface Preparing {
  readonly onMigrated?: ((what: Migrated) => void) | undefined
  readonly onProgress?: OnProgress | undefined
  /** False: an older schema is refused. */
  readonly mayMigrate?: boolean
  /** A copy is made into it, which may be there in part. */
  readonly isCopying?: boolean
}

/**
 * Creates the database if there is none, and migrates it.
 * @throws Error with a sentence for the operator: the server does not answer or refuses us, the database is not ours,
 * or newer than this program
 */
export async function prepareDatabase(url: string, options: Preparing = {}): Promise<void> {
  const { schema } = readUrl(url)
  const connection = await open(url)
  try {
    await checkEncoding(connection)
    if (schema) await connection.rows(`CREATE SCHEMA IF NOT EXISTS "${schema.replaceAll('"', '""')}"`)
    await migrate(connection, options)
  } finally {
    await connection.close()
  }
}

/** Whether a process holds a lease in it; one that was killed does until that is over. */
export async function isDatabaseServed(url: string): Promise<boolean> {
  const connection = await open(url)
  try {
    return await isServed(connection)
  } finally {
    await connection.close()
  }
}

/** A connection to a database that is there. */
async function reach(url: string): Promise<PgConnection> {
  try {
    return await PgConnection.open(url)
  } catch (error) {
    throw unreachable(url, error)
  }
}

async function open(url: string): Promise<PgConnection> {
  try {
    return await PgConnection.open(url)
  } catch (error) {
    if (!is(error, NO_SUCH_DATABASE)) throw unreachable(url, error)
  }
  await createDatabase(url)
  return PgConnection.open(url)
}

async function createDatabase(url: string): Promise<void> {
  const { database: name } = readUrl(url)
  const connection = await PgConnection.open(inDatabase(url, MAINTENANCE_DATABASE)).catch((error: unknown) => {
    throw unreachable(url, error)
  })
  try {
    await connection.rows(`CREATE DATABASE "${name.replaceAll('"', '""')}" ENCODING 'UTF8' TEMPLATE template0`)
  } catch (error) {
    // Another process was faster.
    if (error instanceof postgres.PostgresError && EXISTS_ALREADY.test(error.code)) return
    if (!is(error, NOT_ALLOWED)) throw error
    throw new Error(
      `The database ${name} does not exist and this user may not create it: create it (encoding UTF8), or grant CREATEDB`,
      { cause: error }
    )
  } finally {
    await connection.close()
  }
}

async function checkEncoding(connection: PgConnection): Promise<void> {
  const [row] = await connection.rows<{ server_encoding: string }>('SHOW server_encoding')
  if (row?.server_encoding !== 'UTF8')
    throw new Error(`The database has the encoding ${row?.server_encoding}: it must be UTF8, or texts would be lost`)
}

const NO_MORE = 'it takes no more connections (max_connections)'
const NO_TLS = 'it does not speak TLS, turn that on there or leave sslmode out of the URL'

/** Without the URL: it may hold a password. */
function unreachable(url: string, error: unknown): Error {
  const { host, port } = readUrl(url)
  const where = host.startsWith('/') ? host : `${host}:${port}`
  return new Error(`PostgreSQL at ${where} cannot be used: ${reasonOf(error)}`, { cause: error })
}

function reasonOf(error: unknown): string {
  if (is(error, TOO_MANY)) return NO_MORE
  const message = messageOf(error)
  // It has said no, and was spoken to in TLS nevertheless.
  return message.includes('before secure TLS connection') ? NO_TLS : message
}

function is(error: unknown, code: string): boolean {
  return error instanceof postgres.PostgresError && error.code === code
}
