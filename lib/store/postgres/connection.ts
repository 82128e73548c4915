// The database behind the URL: made when it is missing, looked at, and brought to the schema that this program knows.
import postgres from 'postgres'
import { migrationsIn } from '../sql/migrations.ts'
import { databaseOf, Line } from './line.ts'

/** Of the advisory lock under which the schema is changed: any number that nobody else takes in this database. */
const MIGRATION_LOCK = 7_236_001
/** The server's database for those who have none yet. */
const MAINTENANCE_DATABASE = 'postgres'

const NO_SUCH_DATABASE = '3D000'
const EXISTS_ALREADY = /^(42P04|23505)$/
const NOT_ALLOWED = '42501'

const MIGRATIONS = new URL('./migrations/', import.meta.url)

/**
 * Makes the database when there is none, and brings it to this program's schema.
 * @throws Error with a sentence for the operator: the server does not answer or lets nobody in, the database is none of ours or
 * newer than this program.
 */
export async function prepareDatabase(url: string): Promise<void> {
  const line = await open(url)
  try {
    await checkEncoding(line)
    await migrate(line)
  } finally {
    await line.close()
  }
}

async function open(url: string): Promise<Line> {
  try {
    return await Line.open(url)
  } catch (error) {
    if (!is(error, NO_SUCH_DATABASE)) throw unreachable(url, error)
  }
  await createDatabase(url)
  return Line.open(url)
}

async function createDatabase(url: string): Promise<void> {
  const name = databaseOf(url)
  const elsewhere = new URL(url)
  elsewhere.pathname = `/${MAINTENANCE_DATABASE}`
  const line = await Line.open(elsewhere.href).catch((error: unknown) => {
    throw unreachable(url, error)
  })
  try {
    await line.rows(`CREATE DATABASE "${name.replaceAll('"', '""')}" ENCODING 'UTF8' TEMPLATE template0`)
  } catch (error) {
    // Another process was faster.
    if (error instanceof postgres.PostgresError && EXISTS_ALREADY.test(error.code)) return
    if (!is(error, NOT_ALLOWED)) throw error
    throw new Error(
      `The database ${name} does not exist and this user may not create it: create it (encoding UTF8), or grant CREATEDB`,
      { cause: error }
    )
  } finally {
    await line.close()
  }
}

async function checkEncoding(line: Line): Promise<void> {
  const [row] = await line.rows<{ server_encoding: string }>('SHOW server_encoding')
  if (row?.server_encoding !== 'UTF8')
    throw new Error(`The database has the encoding ${row?.server_encoding}: it must be UTF8, or texts would be lost`)
}

/**
 * Each step in a transaction together with the row that records it, one process at a time: who waited finds it done. A step that
 * is killed in its middle has not happened.
 */
async function migrate(line: Line): Promise<void> {
  // Another process may be at it for longer than a statement may take.
  await line.rows('SET statement_timeout = 0')
  await line.rows('SET lock_timeout = 0')
  await line.rows('SELECT pg_advisory_lock($1)::text', [MIGRATION_LOCK])
  await line.rows(
    'CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)'
  )
  const steps = migrationsIn(MIGRATIONS)
  const found = await versionOf(line)
  const known = steps.at(-1)?.version ?? 0
  if (found > known)
    throw new Error(
      `The database has schema version ${found}, this program knows versions up to ${known}: start a newer one`
    )
  if (found === 0) await refuseStrangers(line)
  for (const { version, sql } of steps) if (version > found) await step(line, version, sql)
  // The lock goes with the connection.
}

async function versionOf(line: Line): Promise<number> {
  const [row] = await line.rows<{ version: number | null }>('SELECT max(version) AS version FROM migrations')
  return row?.version ?? 0
}

/** Tables of our names that we have not made: of another service, or of one before this. */
async function refuseStrangers(line: Line): Promise<void> {
  const [row] = await line.rows<{ found: string | null }>("SELECT to_regclass('threads_meta')::text AS found")
  if (row?.found)
    throw new Error(
      'The database has tables that this program did not make, and no migration exists for them: ' +
        'use a fresh database, or alter them by hand'
    )
}

async function step(line: Line, version: number, sql: string): Promise<void> {
  try {
    await line.rows('BEGIN')
    await line.rows(sql)
    await line.rows('INSERT INTO migrations (version, applied_at) VALUES ($1, now())', [version])
    await line.rows('COMMIT')
  } catch (error) {
    if (!line.isLost) await line.rows('ROLLBACK')
    throw new Error(`Step ${version} of the database schema failed: ${messageOf(error)}`, { cause: error })
  }
}

/** Without the URL: it may hold a password. */
function unreachable(url: string, error: unknown): Error {
  const { host } = new URL(url)
  const where = host ? ` at ${host}` : ''
  return new Error(`PostgreSQL${where} cannot be used: ${messageOf(error)}`, { cause: error })
}

function is(error: unknown, code: string): boolean {
  return error instanceof postgres.PostgresError && error.code === code
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // A refused connection to a name with two addresses says so in its code alone.
  return error.message || ('code' in error ? String(error.code) : error.name)
}
