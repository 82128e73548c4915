// Classifies errors by SQLSTATE. Only errors about data or program limits concern a single group, which is then
// refused. Everything else (a restarting server, a lock, a full disk, a renamed table, a revoked right, a damaged
// index) says nothing about the data: the same write may be retried later.
import postgres from 'postgres'
import { codeOf } from '../../base/errors.ts'
import { StoreUnavailable } from '../store.ts'

/** Invalid data, constraints, and values too large or too complex: SQLSTATE classes. */
const ABOUT_THE_DATA = /^(22|23|54)/
/** All others by prefix: the public message, and whether it passes by itself. The first match counts. */
const UNAVAILABLE: readonly (readonly [begin: string, text: string, passes: boolean])[] = [
  ['40', 'another writer is in the way', true],
  ['55', 'a lock is held by somebody else', true],
  ['57014', 'a statement took too long', true],
  ['08', 'the connection to PostgreSQL broke', false],
  ['25006', 'this PostgreSQL server only reads', false],
  ['28', 'PostgreSQL does not let us in', false],
  ['3D', 'the database is not there', false],
  ['53300', 'PostgreSQL takes no more connections (max_connections)', false],
  ['53', 'PostgreSQL has no room left', false],
  ['57', 'PostgreSQL is shut down', false],
  ['58', 'PostgreSQL cannot read or write its files', false],
  ['42501', 'PostgreSQL does not let this user do what is needed', false],
  ['42', 'the tables are not as this program knows them: a newer one may have changed them', false],
  ['XX', 'PostgreSQL reports an error of its own, or damaged data', false],
  ['', 'PostgreSQL refuses to work', false]
]
/** Error codes of the driver and the system when a connection fails or is lost. */
const OF_A_CONNECTION = /^(CONNECT_TIMEOUT|CONNECTION_\w+|SASL_\w+|E[A-Z]+|EAI_\w+|ERR_(STREAM|SOCKET|TLS|SSL)\w*)$/
/** A statement after a failed one in the same transaction: a consequence, never the cause. */
const ABORTED = '25P02'

/** True when the server did not answer, or hangs up after this answer: the connection is useless. */
export function endsConnection(error: unknown): boolean {
  return !(error instanceof postgres.PostgresError) || error.severity === 'FATAL' || error.severity === 'PANIC'
}

export function isAbortedTransaction(error: unknown): boolean {
  return codeOf(error) === ABORTED
}

/**
 * The failure as StoreUnavailable; null when it is about the data, or no database error at all. The message is public;
 * the server's own is its cause.
 */
export function unavailable(error: unknown): StoreUnavailable | null {
  if (error instanceof StoreUnavailable) return error
  const code = codeOf(error) ?? ''
  if (!(error instanceof postgres.PostgresError))
    return OF_A_CONNECTION.test(code)
      ? because(error, new StoreUnavailable(code, 'PostgreSQL cannot be reached'))
      : null
  if (ABOUT_THE_DATA.test(code)) return null
  // The last entry matches everything.
  const [, text, passes] = UNAVAILABLE.find(([begin]) => code.startsWith(begin))!
  return because(error, new StoreUnavailable(code, text, passes))
}

function because(cause: unknown, error: StoreUnavailable): StoreUnavailable {
  error.cause = cause
  return error
}
