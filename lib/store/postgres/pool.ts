// The connection pool: connections are kept open and lent for one piece of work at a time.
import { type PoolFigures, StoreUnavailable } from '../store.ts'
import { PgConnection, type PgConnectionOptions, STATEMENT_TIMEOUT_MS } from './pg-connection.ts'
import type { Db, Param, Planning, ReadDb } from './db.ts'
import { unavailable } from './sqlstate.ts'
import { readUrl } from './url.ts'
import { warnUnexpected } from '../../base/errors.ts'

/** Default pool size; `?max=N` in the URL overrides it. */
const CONNECTIONS_MAX = 10
/** An idle connection is closed after this time, in ms: something on the way may have forgotten it already. */
const IDLE_MS = 60_000
/** Longer than the statement timeout. */
const ANSWER_MS = STATEMENT_TIMEOUT_MS + 5000

const NO_ANSWER = 'NO_ANSWER'

export interface PoolOptions {
  /** A connection silent for this long is given up, in ms: its server hangs, or the way to it. Default 35,000. */
  readonly answerMs?: number
  /** Pool size. Default 10, or `?max=N` of the URL. */
  readonly max?: number
  /** How long a transaction may be idle, in ms: the locks of a hung process must not outlive its lease. */
  readonly idleInTransactionMs?: number
}

interface Idle {
  readonly connection: PgConnection
  readonly since: number
}

interface Waiting {
  resolve(connection: PgConnection): void
  reject(error: unknown): void
}

export class Pool implements ReadDb {
  #url: string
  readonly #max: number
  readonly #answerMs: number
  readonly #connectionOptions: PgConnectionOptions
  /** Last in, first out: surplus connections age at the bottom and are closed. */
  readonly #idle: Idle[] = []
  readonly #waiting: Waiting[] = []
  readonly #sweeper: NodeJS.Timeout
  /** Connections open or being opened. */
  #open = 0
  /** Connections open. */
  #alive = 0
  #isClosed = false
  #allGone: () => void = () => {}

  constructor(url: string, { answerMs = ANSWER_MS, max, ...connectionOptions }: PoolOptions = {}) {
    this.#url = url
    this.#answerMs = answerMs
    this.#connectionOptions = connectionOptions
    this.#max = max ?? readUrl(url).max ?? CONNECTIONS_MAX
    this.#sweeper = setInterval(() => this.#sweep(), IDLE_MS / 2).unref()
  }

  /** Connections that are lent, idle, and those who wait for one. */
  get figures(): PoolFigures {
    const idle = this.#idle.length
    return { used: this.#alive - idle, idle, waiting: this.#waiting.length }
  }

  /** For connections that are opened from now on; those that are open stay. */
  connectTo(url: string): void {
    this.#url = url
  }

  /**
   * Lends a connection for `work`. `first`: ahead of everyone who waits.
   * @throws StoreUnavailable when there is none, or it does not answer in time
   */
  async use<T>(work: (connection: PgConnection) => Promise<T>, { first = false } = {}): Promise<T> {
    const connection = await this.#take(first).catch((error: unknown) => {
      throw unavailable(error) ?? error
    })
    const deadline = setTimeout(
      () => connection.lose(new StoreUnavailable(NO_ANSWER, 'PostgreSQL does not answer')),
      this.#answerMs
    )
    try {
      return await work(connection)
    } finally {
      clearTimeout(deadline)
      this.#giveBack(connection)
    }
  }

  rows<Row>(sql: string, params?: readonly Param[], plan?: Planning): Promise<Row[]> {
    return this.#read((connection) => connection.rows(sql, params, plan))
  }

  changes(sql: string, params?: readonly Param[]): Promise<number> {
    return this.#read((connection) => connection.changes(sql, params))
  }

  snapshot<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return this.#read(async (connection) => {
      // The first statement need not wait for the answer to BEGIN.
      const begun = connection.rows('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      try {
        return (await Promise.all([work(connection), begun]))[0]
      } finally {
        if (!connection.isLost) await connection.rows('COMMIT')
      }
    })
  }

  /** Retries once when the connection was lost: the server was restarted while it was idle, and a new one may work. */
  async #read<T>(work: (connection: PgConnection) => Promise<T>): Promise<T> {
    let wasLost = false
    try {
      return await this.use((connection) => work(connection).finally(() => (wasLost = connection.isLost)))
    } catch (error) {
      if (!wasLost || this.#isClosed || isSilence(error)) throw unavailable(error) ?? error
    }
    try {
      return await this.use(work)
    } catch (error) {
      throw unavailable(error) ?? error
    }
  }

  /** Waits for work in progress, then closes all connections. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweeper)
    for (const { reject } of this.#waiting.splice(0)) reject(closed())
    for (const { connection } of this.#idle.splice(0)) this.#hangUp(connection)
    if (this.#open > 0) await new Promise<void>((resolve) => (this.#allGone = resolve))
  }

  async #take(first: boolean): Promise<PgConnection> {
    if (this.#isClosed) throw closed()
    const idle = this.#idle.pop()
    if (idle) return idle.connection
    if (this.#open < this.#max) return this.#openConnection()
    return new Promise((resolve, reject) => {
      const waiting = { resolve, reject }
      if (first) this.#waiting.unshift(waiting)
      else this.#waiting.push(waiting)
    })
  }

  async #openConnection(): Promise<PgConnection> {
    this.#open++
    try {
      const connection = await PgConnection.open(this.#url, this.#connectionOptions)
      this.#alive++
      connection.onLost(() => this.#gone(connection))
      return connection
    } catch (error) {
      // The waiters would fail the same way.
      if (this.#alive === 0) for (const { reject } of this.#waiting.splice(0)) reject(error)
      this.#gone(null)
      throw error
    }
  }

  #giveBack(connection: PgConnection): void {
    if (connection.isLost) return
    if (this.#isClosed) return this.#hangUp(connection)
    const next = this.#waiting.shift()
    if (next) next.resolve(connection)
    else this.#idle.push({ connection, since: performance.now() })
  }

  /** A connection was closed, or (null) never opened: a waiter may get a new one in its place. */
  #gone(connection: PgConnection | null): void {
    this.#open--
    if (connection !== null) this.#alive--
    const at = this.#idle.findIndex((idle) => idle.connection === connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (this.#isClosed) {
      if (this.#open === 0) this.#allGone()
      return
    }
    const next = this.#waiting.shift()
    if (next) this.#openConnection().then(next.resolve, next.reject)
  }

  #hangUp(connection: PgConnection): void {
    connection
      .close()
      .catch(warnUnexpected)
      .finally(() => this.#gone(connection))
  }

  #sweep(): void {
    const old = performance.now() - IDLE_MS
    while (this.#idle[0] && this.#idle[0].since < old) this.#hangUp(this.#idle.shift()!.connection)
  }
}

/** A timed-out read is not retried. */
function isSilence(error: unknown): boolean {
  return error instanceof StoreUnavailable && error.code === NO_ANSWER
}

function closed(): StoreUnavailable {
  return new StoreUnavailable('STORE_CLOSED', 'the store is closed')
}
