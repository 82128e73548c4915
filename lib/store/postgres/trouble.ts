// What went wrong, sorted: a failure of the moment (the server restarts, a lock, a full disk) says nothing about what was to be
// written, and the same may be tried again. All else is about one of the groups.
import postgres from 'postgres'
import { StoreUnavailable } from '../store.ts'

/** SQLSTATEs of the moment: how they begin, what is told to whoever asks, and whether it goes by itself. */
const OF_THE_MOMENT: readonly (readonly [begin: string, text: string, passes: boolean])[] = [
  ['40', 'another writer is in the way', true],
  ['55', 'a lock is held by somebody else', true],
  ['57014', 'a statement took too long', true],
  ['08', 'the connection to PostgreSQL broke', false],
  ['25006', 'this PostgreSQL server only reads', false],
  ['28', 'PostgreSQL does not let us in', false],
  ['3D', 'the database is not there', false],
  ['53', 'PostgreSQL has no room left', false],
  ['57', 'PostgreSQL is shut down', false],
  ['58', 'PostgreSQL cannot read or write its files', false]
]
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

/**
 * The failure as StoreUnavailable when it is of the moment, null when it is not. The message is for everybody, what the server said
 * is its cause.
 */
export function unavailable(error: unknown): StoreUnavailable | null {
  if (error instanceof StoreUnavailable) return error
  const code = codeOf(error)
  const known = error instanceof postgres.PostgresError ? OF_THE_MOMENT.find(([begin]) => code.startsWith(begin)) : null
  if (known) return because(error, new StoreUnavailable(code, known[1], known[2]))
  const isOfALine = error instanceof postgres.PostgresError ? endsTheLine(error) : OF_A_CONNECTION.test(code)
  return isOfALine ? because(error, new StoreUnavailable(code, 'PostgreSQL cannot be reached')) : null
}

function because(cause: unknown, error: StoreUnavailable): StoreUnavailable {
  error.cause = cause
  return error
}
