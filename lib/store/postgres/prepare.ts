// Prepares the database behind the URL: creates it if missing, checks it, and migrates it.
import postgres from 'postgres'
import { PgConnection } from './pg-connection.ts'
import type { Migrated } from '../sql/migrations.ts'
import { messageOf, migrate } from './schema.ts'
import { inDatabase, readUrl } from './url.ts'

/** The maintenance database every server has. */
const MAINTENANCE_DATABASE = 'postgres'

const NO_SUCH_DATABASE = '3D000'
const EXISTS_ALREADY = /^(42P04|23505)$/
const NOT_ALLOWED = '42501'
const TOO_MANY = '53300'

/**
 * Creates the database if there is none, and migrates it.
 * @throws Error with a sentence for the operator: the server does not answer or refuses us, the database is not ours,
 * or newer than this program
 */
export async function prepareDatabase(url: string, onMigrated?: (what: Migrated) => void): Promise<void> {
  const { schema } = readUrl(url)
  const connection = await open(url)
  try {
    await checkEncoding(connection)
    if (schema) await connection.rows(`CREATE SCHEMA IF NOT EXISTS "${schema.replaceAll('"', '""')}"`)
    await migrate(connection, onMigrated)
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
