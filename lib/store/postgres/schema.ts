// Migrations: brings a database to this program's schema step by step, or refuses it.
import postgres from 'postgres'
import { type Migrated, migratedBy, missingSteps, servedByAnother, versionIn } from '../sql/migrations.ts'
import { PgConnection } from './pg-connection.ts'
import { inDatabase, readUrl } from './url.ts'

/** Advisory lock for migrations: any number nobody else uses in this database. */
const MIGRATION_LOCK = 7_236_001

/** A table that is there while a copy is made into the database. */
export const UNFINISHED = 'unfinished_copy'

const MIGRATIONS = new URL('./migrations/', import.meta.url)

/**
 * Each step is a transaction together with the row that records it, one process at a time: a process that waited finds
 * it done. A step that is killed halfway never happened.
 */
async function migrate(
  connection: PgConnection,
  { onMigrated = () => {}, mayMigrate = true, isCopying = false }: Preparing
): Promise<void> {
  // Another process may migrate for longer than the statement timeout.
  await connection.rows('SET statement_timeout = 0')
  await connection.rows('SET lock_timeout = 0')
  await connection.rows('SELECT pg_advisory_lock($1)::text', [MIGRATION_LOCK])
  await connection.rows(
    'CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)'
  )
  if (!isCopying) await refuseUnfinished(connection)
  const found = await versionOf(connection)
  const missing = missingSteps(MIGRATIONS, found)
  if (missing.length === 0) return
  if (found === 0) await refuseStrangers(connection)
  else if (!mayMigrate || (await isServed(connection))) throw servedByAnother(found, knownVersion())
  const begun = performance.now()
  for (const { version, sql } of missing) await step(connection, version, sql)
  if (found > 0) onMigrated(migratedBy(missing, found, begun, null))
  // The lock is released with the connection.
}

export function knownVersion(): number {
  return versionIn(MIGRATIONS)
}

/** True: a process holds a lease; since the schema is not ours, it runs another version. */
export async function isServed(connection: PgConnection): Promise<boolean> {
  return (await connection.rows('SELECT 1 FROM writers WHERE lease_until > clock_timestamp() LIMIT 1')).length > 0
}

export async function hasTable(connection: PgConnection, name: string): Promise<boolean> {
  const [row] = await connection.rows<{ found: string | null }>(`SELECT to_regclass('${name}')::text AS found`)
  return row?.found != null
}

async function versionOf(connection: PgConnection): Promise<number> {
  const [row] = await connection.rows<{ version: number | null }>('SELECT max(version) AS version FROM migrations')
  return row?.version ?? 0
}

async function refuseUnfinished(connection: PgConnection): Promise<void> {
  if (await hasTable(connection, UNFINISHED))
    throw new Error('A copy into the database is not finished: repeat the move or restore, or drop its tables')
}

/** @throws Error when the schema is of another version, or not ours */
export async function checkSchema(connection: PgConnection): Promise<void> {
  if (!(await hasTable(connection, 'migrations')))
    throw new Error('The PostgreSQL database has no tables of this program')
  await refuseUnfinished(connection)
  const [found, known] = [await versionOf(connection), knownVersion()]
  if (found !== known)
    throw new Error(`The database has schema version ${found}, and this program ${known}: use the one that serves it`)
}

/** Tables with our names that we did not create: of another service, or one before this. */
async function refuseStrangers(connection: PgConnection): Promise<void> {
  if (await hasTable(connection, 'threads_meta'))
    throw new Error(
      'The database has tables that this program did not make, and no migration exists for them: ' +
        'use a fresh database, or alter them by hand'
    )
}

async function step(connection: PgConnection, version: number, sql: string): Promise<void> {
  try {
    await connection.rows('BEGIN')
    await connection.rows(sql)
    await connection.rows('INSERT INTO migrations (version, applied_at) VALUES ($1, now())', [version])
    await connection.rows('COMMIT')
  } catch (error) {
    if (!connection.isLost) await connection.rows('ROLLBACK')
    throw new Error(`Step ${version} of the database schema failed: ${messageOf(error)}`, { cause: error })
  }
}

/** An error's message, for the operator. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // A refused connection to a name with two addresses has only a code.
  return error.message || ('code' in error ? String(error.code) : error.name)
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
