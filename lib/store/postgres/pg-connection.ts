// One connection to the server, from opening until it is lost or closed.
//
// The driver would reconnect by itself and continue with the queued statements: the rest of a transaction whose beginning is gone. A
// PgConnection never does. It has one socket; when that is lost, everything in progress fails and nothing more is sent.
import { connect, type Socket } from 'node:net'
import postgres from 'postgres'
import type { Timestamp } from '../../base/types.ts'
import { type Db, decodeText, encodeText, hex, type Param, type Planning } from './db.ts'
import { StatementClock } from '../slow-statements.ts'
import { endsConnection } from './sqlstate.ts'
import { readUrl } from './url.ts'
import { warnUnexpected } from '../../base/errors.ts'

/** Timeout for connecting and signing in, in seconds. */
const CONNECT_TIMEOUT_S = 10
export const STATEMENT_TIMEOUT_MS = 30_000
/** Lock timeout, in ms: as long as on SQLite [Limits]. */
const LOCK_TIMEOUT_MS = 5000
/** The server ends a transaction idle for this long, in ms: its locks would stay for ever. */
const IDLE_IN_TRANSACTION_MS = 10_000

export interface PgConnectionOptions {
  /** Overrides how long a transaction may be idle, in ms. */
  readonly idleInTransactionMs?: number
  /** A notification on a channel this connection listens to. */
  readonly onNotify?: (channel: string, text: string) => void
}

/** Timeout for an orderly close, in seconds. */
const GOOD_BYE_S = 1

/** Settings made on every connection by a statement: a pooler refuses startup parameters it does not know. The URL's settings win. */
const SETTINGS: Readonly<Record<string, string | number>> = {
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  bytea_output: 'hex',
  default_transaction_isolation: 'read committed',
  statement_timeout: STATEMENT_TIMEOUT_MS,
  lock_timeout: LOCK_TIMEOUT_MS,
  // In seconds: a server that lost us without notice releases our locks after a minute.
  tcp_keepalives_idle: 30,
  tcp_keepalives_interval: 10,
  tcp_keepalives_count: 3
}

/** `2026-01-01 00:00:00.5+00` in the service's one time format. */
function timeOf(text: string): Timestamp {
  const [date, time = ''] = text.replace(/\+00$/, '').split(' ')
  const [second, fraction = ''] = time.split('.')
  return `${date}T${second}.${fraction.padEnd(3, '0')}+00:00`
}

/** Types by their numbers in pg_type. */
const TYPES = {
  text: { to: 25, from: [25, 1043], serialize: encodeText, parse: decodeText },
  integer: { to: 20, from: [20, 21, 23], serialize: String, parse: Number },
  time: { to: 1184, from: [1184], serialize: String, parse: timeOf },
  bytes: {
    to: 17,
    from: [17],
    serialize: (bytes: Uint8Array) => `\\x${hex(bytes)}`,
    parse: (text: string) => Buffer.from(text.slice(2), 'hex')
  }
}

interface Waiting {
  reject(error: unknown): void
}

export class PgConnection implements Db {
  readonly #client: postgres.Sql
  readonly #settings: Readonly<Record<string, string | number>>
  #sql: postgres.ReservedSql | null = null
  #pid = 0
  #lost: Error | null = null
  #socket: Socket | null = null
  #onLost: () => void = () => {}
  readonly #waiting = new Set<Waiting>()
  readonly #clock = new StatementClock()

  private constructor(
    url: string,
    { idleInTransactionMs = IDLE_IN_TRANSACTION_MS, onNotify = () => {} }: PgConnectionOptions
  ) {
    const { host, port, user, password, database, ssl, settings } = readUrl(url)
    this.#settings = { ...SETTINGS, idle_in_transaction_session_timeout: idleInTransactionMs, ...settings }
    this.#client = postgres({
      max: 1,
      user,
      password,
      database,
      ssl,
      connect_timeout: CONNECT_TIMEOUT_S,
      // Turns off the driver's own timeouts and first query.
      idle_timeout: 0,
      max_lifetime: null,
      fetch_types: false,
      connection: { application_name: 'colloquy' },
      types: TYPES,
      onnotice: () => {},
      onclose: () => this.lose(closed()),
      ...this.#wayTo(host, port, onNotify)
    })
  }

  /** Driver options missing from its types: the server's address, how to get a socket, and whom to notify. */
  #wayTo(host: string, port: number, onnotify: NonNullable<PgConnectionOptions['onNotify']>): object {
    let sockets = 0
    const socket = async (options: postgres.ParsedOptions): Promise<Socket> => {
      if (sockets++ > 0) throw closed()
      try {
        this.#socket = await openSocket(options)
        return this.#socket
      } catch (error) {
        this.lose(errorOf(error))
        throw error
      }
    }
    const path = host.startsWith('/') && { path: `${host}/.s.PGSQL.${port}` }
    return { host: [host], port: [port], ...path, socket, onnotify }
  }

  /** @throws Error when the server cannot be reached or does not let us in. */
  static async open(url: string, options: PgConnectionOptions = {}): Promise<PgConnection> {
    const connection = new PgConnection(url, options)
    try {
      // reserve() alone would never report a failed connection attempt.
      const names = Object.keys(connection.#settings)
      const set = names.map((_, at) => `, set_config($${2 * at + 1}, $${2 * at + 2}, false)`).join('')
      const params = Object.entries(connection.#settings).flatMap(([name, value]) => [name, String(value)])
      const [row] = await connection.#orLost(connection.#client.unsafe(`SELECT pg_backend_pid() AS pid${set}`, params))
      connection.#pid = row?.pid
      connection.#sql = await connection.#orLost(connection.#client.reserve())
      return connection
    } catch (error) {
      connection.lose(errorOf(error))
      throw error
    }
  }

  /** The server's process id. */
  get pid(): number {
    return this.#pid
  }

  get isLost(): boolean {
    return this.#lost !== null
  }

  /** Called once when the connection is lost; immediately if it already is. */
  onLost(listener: () => void): void {
    if (this.#lost) listener()
    else this.#onLost = listener
  }

  async rows<Row>(sql: string, params: readonly Param[] = [], plan: Planning = 'kept'): Promise<Row[]> {
    // Rows are shaped by the SQL in the call, which the compiler cannot read.
    return Array.from(await this.#ask(sql, params, plan)) as unknown as Row[]
  }

  async changes(sql: string, params: readonly Param[] = []): Promise<number> {
    return (await this.#ask(sql, params)).count
  }

  /** The server's command tag: COMMIT answers ROLLBACK when the transaction has failed. */
  async command(sql: string): Promise<string> {
    return (await this.#ask(sql, [])).command
  }

  /** Statements are sent at once and answered in order (pipelined). */
  async #ask(
    sql: string,
    params: readonly Param[],
    plan: Planning = 'kept'
  ): Promise<postgres.RowList<postgres.Row[]>> {
    if (this.#lost) throw this.#lost
    const sent = performance.now()
    try {
      // A copy, because the driver changes it.
      return await this.#orLost(this.#sql!.unsafe(sql, [...params], { prepare: plan === 'kept' }))
    } catch (error) {
      if (endsConnection(error)) this.lose(errorOf(error))
      throw error
    } finally {
      this.#clock.note(sql, sent)
    }
  }

  /** The driver forgets some pending statements when a connection breaks: they are failed here. */
  #orLost<T>(work: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiting = { reject }
      this.#waiting.add(waiting)
      const done = () => this.#waiting.delete(waiting)
      work.then(
        (value) => {
          done()
          resolve(value)
        },
        (error) => {
          done()
          reject(error)
        }
      )
    })
  }

  /** Gives the connection up: everything in progress fails with `error`, and nothing more is sent. */
  lose(error: Error): void {
    if (this.#lost) return
    this.#lost = error
    for (const { reject } of this.#waiting) reject(error)
    this.#waiting.clear()
    this.#hangUp(0).catch(warnUnexpected)
    this.#onLost()
  }

  /** Closes the connection in order. Nothing may be in progress. */
  async close(): Promise<void> {
    if (this.#lost) return
    this.#lost = closed()
    this.#sql?.release()
    await this.#hangUp(GOOD_BYE_S)
  }

  /** The driver waits for the server's answer, which a dead server never gives. */
  async #hangUp(timeout: number): Promise<void> {
    await this.#client.end({ timeout }).catch(() => {})
    setTimeout(() => this.#socket?.destroy(), GOOD_BYE_S * 1000).unref()
  }
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

function closed(): Error {
  return Object.assign(new Error('the connection is closed'), { code: 'CONNECTION_CLOSED' })
}

async function openSocket({ host: [host = ''], port: [port = 0], path }: postgres.ParsedOptions): Promise<Socket> {
  const socket = await connected(path ? connect(path) : connect(port, host))
  // The driver reads the host name from here to check the certificate.
  return Object.assign(socket, { host })
}

function connected(socket: Socket): Promise<Socket> {
  socket.setTimeout(CONNECT_TIMEOUT_S * 1000, () => socket.destroy(timedOut()))
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.setTimeout(0)
      socket.setNoDelay()
      socket.setKeepAlive(true, 30_000)
      socket.off('error', reject)
      resolve(socket)
    })
  })
}

function timedOut(): Error {
  return Object.assign(new Error('the server does not answer'), { code: 'CONNECT_TIMEOUT' })
}
