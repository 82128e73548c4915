// The other processes on this database: taking over the runs of those whose lease expired, and a connection for messages.
//
// Messages are PostgreSQL notifications: ids, delivered at commit to whoever is listening. One sent while the
// connection is down is lost, so nothing may rely on them alone.
import { backoffMs } from '../../base/waiting.ts'
import {
  LeaseLost,
  type PeerIdentity,
  type PeerListener,
  type PeerMessage,
  type Peers,
  type RunLocation
} from '../store.ts'
import type { Run } from '../../base/types.ts'
import type { Lease } from './lease.ts'
import { PgConnection } from './pg-connection.ts'
import type { Pool } from './pool.ts'
import { PRESENT } from '../sql/removal.ts'
import { COLUMNS, IN_FLIGHT, type RunRow, toRun } from '../sql/runs.ts'
import { unavailable } from './sqlstate.ts'
import { texts } from './db.ts'
import type { BatchWriter } from './writer.ts'
import { warnUnexpected } from '../../base/errors.ts'

/** Delay between connection attempts, in ms: at first, and at most after repeated failures. */
const AGAIN_MS = { first: 200, most: 5000 }
/** A connection silent for this long is given up, in ms. */
const ANSWER_MS = 5000
/** Runs per notification, whose payload is limited to 8,000 bytes. */
const RUNS_MAX = 100
const EVERYBODY = 'colloquy'

function channelOf(id: string): string {
  return `${EVERYBODY}_${id}`
}

/**
 * $1: this process, $2: deadline a lease must have expired by, or null. Leases are deleted first; whoever holds a row
 * lock at this moment is alive.
 */
const CLAIM = `
  WITH me AS (
    SELECT writer_id FROM writers WHERE writer_id = $1 FOR KEY SHARE
  ), gone AS (
    DELETE FROM writers WHERE writer_id IN (
      SELECT writer_id FROM writers
      WHERE writer_id <> $1 AND lease_until < $2::timestamptz AND EXISTS (SELECT 1 FROM me)
      FOR UPDATE SKIP LOCKED
    ) RETURNING writer_id, batch
  ), noted AS (
    INSERT INTO former_writers (writer_id, batch) SELECT writer_id, batch FROM gone
  ), forgotten AS (
    DELETE FROM former_writers WHERE ended_at < clock_timestamp() - interval '1 day'
  )
  UPDATE runs SET owner = coalesce((
      SELECT other.owner FROM runs AS other JOIN writers ON writer_id = other.owner
      WHERE other.thread_id = runs.thread_id AND other.status IN ('pending', 'running')
        AND other.owner NOT IN (SELECT writer_id FROM gone)
      LIMIT 1
    ), $1)
  WHERE ${IN_FLIGHT} AND EXISTS (SELECT 1 FROM me) AND (
    owner IS NULL OR owner IN (SELECT writer_id FROM gone)
    OR NOT EXISTS (SELECT 1 FROM writers WHERE writer_id = owner)
  )
  RETURNING run_id, owner`

interface Parts {
  /** For reads. */
  readonly pool: Pool
  /** For leases and takeovers: kept apart from reads. */
  readonly ownPool: Pool
  readonly lease: Lease
  readonly writer: BatchWriter
}

export class PostgresPeers implements Peers {
  #url: string
  readonly #pool: Pool
  readonly #ownPool: Pool
  readonly #lease: Lease
  readonly #writer: BatchWriter
  #listener: PeerListener | null = null
  #connection: PgConnection | null = null
  /** Sent together at the end of this tick. */
  #outbox: { readonly to: string; readonly text: string }[] = []
  #isClosed = false

  constructor(url: string, { pool, ownPool, lease, writer }: Parts) {
    this.#url = url
    this.#pool = pool
    this.#ownPool = ownPool
    this.#lease = lease
    this.#writer = writer
    lease.onLost(() => this.#lost())
  }

  get id(): string {
    return this.#lease.id
  }
  get leaseMs(): number {
    return this.#lease.ms
  }

  async start(listener: PeerListener, identity: PeerIdentity, before: string | null): Promise<PeerIdentity[]> {
    this.#listener = listener
    if (before !== null) await this.#ownPool.changes('DELETE FROM writers WHERE writer_id = $1', [before])
    await this.renew()
    const others = await this.#lease.identify(this.#ownPool, identity)
    await this.#listen().catch((error: unknown) => {
      throw unavailable(error) ?? error
    })
    return others
  }

  async renew(): Promise<void> {
    const begun = performance.now()
    await this.#writer.register()
    await this.#lease.keepAlive(this.#ownPool, begun)
    this.#ping()
  }

  /** Otherwise nobody would notice a dead connection. */
  #ping(): void {
    const connection = this.#connection
    if (!connection) return
    const silent = setTimeout(() => connection.lose(new Error('the connection does not answer')), ANSWER_MS)
    const answered = () => clearTimeout(silent)
    connection.rows('SELECT 1').then(answered, answered)
  }

  async claim(): Promise<Run[]> {
    const { id } = this
    const claimed = await this.#ownPool.rows<{ run_id: string; owner: string }>(CLAIM, [id, await this.#judgedAt()])
    for (const { run_id, owner } of claimed) if (owner !== id) this.tell(owner, { kind: 'arrived', runs: [run_id] })
    const sql = `SELECT ${COLUMNS} FROM runs WHERE owner = $1 AND ${IN_FLIGHT} ORDER BY key`
    const own = (await this.#ownPool.rows<RunRow>(sql, [id])).map(toRun)
    if (id !== this.id) throw new LeaseLost()
    return own
  }

  /** Null: nobody may be declared dead. A server that has just started was down for everybody. */
  async #judgedAt(): Promise<string | null> {
    const { judgedAt, ms } = this.#lease
    if (judgedAt === null) return null
    const sql =
      "SELECT $2::timestamptz - pg_postmaster_start_time() > $1::bigint * interval '1 millisecond' AS is_steady"
    const [row] = await this.#ownPool.rows<{ is_steady: boolean }>(sql, [ms, judgedAt])
    return row?.is_steady ? judgedAt : null
  }

  async others(): Promise<string[]> {
    const sql = 'SELECT writer_id FROM writers WHERE writer_id <> $1 AND lease_until > clock_timestamp()'
    return (await this.#pool.rows<{ writer_id: string }>(sql, [this.id])).map(({ writer_id }) => writer_id)
  }

  /** For connections that are opened from now on. */
  connectTo(url: string): void {
    this.#url = url
  }

  async runLocations(runIds: readonly string[]): Promise<RunLocation[]> {
    const sql = `SELECT run_id, status, writer_id AS owner, (SELECT max(last_n) FROM frames WHERE run_key = key) AS last
      FROM runs LEFT JOIN writers ON writer_id = owner WHERE run_id = ANY($1::text[]) AND ${PRESENT}`
    return this.#pool.rows<RunLocation>(sql, [texts(runIds)])
  }

  tell(to: string | null, message: PeerMessage): void {
    if (to === this.id || this.#isClosed) return
    if (this.#outbox.length === 0) setImmediate(() => this.#send().catch(warnUnexpected))
    for (const one of inPieces(message))
      this.#outbox.push({
        to: to === null ? EVERYBODY : channelOf(to),
        text: JSON.stringify({ from: this.id, message: one } satisfies Envelope)
      })
  }

  /** Announces the shutdown. The lease is given up before. */
  async close(): Promise<void> {
    if (this.#listener) {
      this.tell(null, { kind: 'left' })
      await this.#send()
    }
    this.#isClosed = true
    await this.#connection?.close()
  }

  async #send(): Promise<void> {
    const told = this.#outbox
    this.#outbox = []
    if (told.length === 0) return
    const sql =
      'SELECT pg_notify(channel, payload)::text FROM unnest($1::text[], $2::text[]) AS told (channel, payload)'
    const params = [texts(told.map(({ to }) => to)), texts(told.map(({ text }) => text))]
    await this.#connection?.rows(sql, params).catch(() => {})
  }

  /** Rejects when the first connection attempt fails; later it retries until it has one. */
  async #listen(): Promise<void> {
    const connection = await PgConnection.open(this.#url, { onNotify: (_, text) => this.#heard(text) })
    try {
      await connection.rows(`LISTEN ${EVERYBODY}`)
      await connection.rows(`LISTEN "${channelOf(this.id)}"`)
    } catch (error) {
      // A standby accepts connections but refuses LISTEN.
      await connection.close()
      throw error
    }
    if (this.#isClosed) return connection.close()
    this.#connection = connection
    connection.onLost(() => {
      this.#connection = null
      this.#listenAgain()
    })
  }

  #listenAgain(failures = 0): void {
    if (this.#isClosed) return
    const again = (): void =>
      void this.#listen().then(
        () => this.#listener?.onGap(),
        () => this.#listenAgain(failures + 1)
      )
    setTimeout(again, backoffMs(failures, AGAIN_MS)).unref()
  }

  #heard(text: string): void {
    const told = envelopeIn(text)
    if (told && told.from !== this.id) this.#listener?.onMessage(told.message, told.from)
  }

  #lost(): void {
    this.#connection?.rows(`LISTEN "${channelOf(this.id)}"`).catch(() => {})
    this.#listener?.onLeaseLost()
  }
}

interface Envelope {
  readonly from: string
  readonly message: PeerMessage
}

/** null: not one of our messages. */
function envelopeIn(text: string): Envelope | null {
  try {
    // JSON on this channel is ours.
    const told = JSON.parse(text) as Envelope
    return typeof told?.message?.kind === 'string' ? told : null
  } catch {
    return null
  }
}

/** Notifications are short: a long list of runs is split. */
function inPieces(message: PeerMessage): PeerMessage[] {
  if (!('runs' in message) || message.runs.length <= RUNS_MAX) return [message]
  const pieces: PeerMessage[] = []
  for (let at = 0; at < message.runs.length; at += RUNS_MAX) {
    const runs = message.runs.slice(at, at + RUNS_MAX)
    pieces.push(
      message.kind === 'stored'
        ? { ...message, runs, over: message.over.filter((id) => runs.includes(id)) }
        : { ...message, runs }
    )
  }
  return pieces
}
