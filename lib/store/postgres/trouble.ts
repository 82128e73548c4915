// What went wrong, sorted: a failure of the moment (the server restarts, a lock, a full disk) says nothing about what was to be
// written, and the same may be tried again. All else is about one of the groups.
import postgres from 'postgres'
import { StoreUnavailable } from '../store.ts'

/**
 * SQLSTATEs of the moment: 08 connection, 25006 a server that only reads (it was replaced by another one), 28 sign-in, 3D the
 * database is gone, 40 deadlock and serialization, 53 resources, 55 locks, 57 shutdown and timeouts, 58 I/O.
 */
const OF_THE_MOMENT = /^(08|28|3D|40|53|55|57|58|25006)/
/** What the driver and the system say when a connection cannot be made or is lost. */
const OF_A_CONNECTION = /^(CONNECT_TIMEOUT|CONNECTION_\w+|SASL_\w+|E[A-Z]+|EAI_\w+|ERR_(STREAM|SOCKET|TLS|SSL)\w*)$/
/** A statement behind a failed one in the same transaction: an echo, never the reason. */
const ABORTED = '25P02'

function codeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' ? code : ''
}

/** True when the server has not answered, or hangs up after this answer: the connection is of no use any more. */
export function endsTheLine(error: unknown): boolean {
  return !(error instanceof postgres.PostgresError) || error.severity === 'FATAL' || error.severity === 'PANIC'
}

export function isEcho(error: unknown): boolean {
  return codeOf(error) === ABORTED
}

/** The failure as StoreUnavailable when it is of the moment, null when it is not. */
export function unavailable(error: unknown): StoreUnavailable | null {
  if (error instanceof StoreUnavailable) return error
  const code = codeOf(error)
  const isOfTheMoment =
    error instanceof postgres.PostgresError
      ? OF_THE_MOMENT.test(code) || endsTheLine(error)
      : OF_A_CONNECTION.test(code)
  if (!isOfTheMoment) return null
  return new StoreUnavailable(code, `PostgreSQL: ${error instanceof Error ? error.message : String(error)}`)
}
