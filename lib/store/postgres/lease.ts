// The lease of this process: its row in `writers`, and with it the right to write in the name of its runs [Store 10].
//
// The row is the lease. Every batch updates it first, which locks it until the commit. A process that takes over the runs of one with
// an expired lease deletes the row first, and waits for a batch that holds it. So nothing is written after the row is gone, and a
// process that was late but was not replaced continues. Only the database's clock counts.
import { randomUUID } from 'node:crypto'
import { outdated } from '../sql/migrations.ts'
import { LeaseLost, type PeerIdentity, StoreUnavailable } from '../store.ts'
import type { Db } from './db.ts'
import { knownVersion } from './schema.ts'

/** Fraction of a lease within which the database must answer, or it counts as unreachable. */
const LATE = 3

/** $2 milliseconds from now, on the clock of the database. */
const UNTIL = "clock_timestamp() + $2::bigint * interval '1 millisecond'"

export class Lease {
  readonly ms: number
  #id = randomUUID() as string
  #isKnown = false
  /** The schema that this program knows. */
  readonly #known = knownVersion()
  #identity: PeerIdentity | null = null
  #onLost: () => void = () => {}
  #renewedAt: string | null = null
  /** Since when the database has answered every time, by `performance.now()`; null: the last attempt failed. */
  #reachedSince: number | null = Number.NEGATIVE_INFINITY

  constructor(ms: number) {
    this.ms = ms
  }

  /** Changes after a loss, so that work begun under the old lease cannot be mistaken for the new one's. */
  get id(): string {
    return this.#id
  }
  get isKnown(): boolean {
    return this.#isKnown
  }

  /** Called at once when the lease is lost, with the new id in place. */
  onLost(listener: () => void): void {
    this.#onLost = listener
  }

  /** Inserts the row if there is none. `batch`: number of the last batch this process wrote. */
  async register(db: Db, batch: number): Promise<void> {
    if (this.#isKnown) return
    const sql = `INSERT INTO writers (writer_id, batch, lease_until, identity, schema)
      VALUES ($1, $3, ${UNTIL}, $4::text::jsonb, $5) ON CONFLICT DO NOTHING`
    const identity = this.#identity && JSON.stringify(this.#identity)
    await db.changes(sql, [this.#id, this.ms, batch, identity, this.#known])
    this.#isKnown = true
  }

  /** Writes this process's identity into the row, and returns the other live processes. */
  async identify(db: Db, identity: PeerIdentity): Promise<PeerIdentity[]> {
    this.#identity = identity
    await db.changes('UPDATE writers SET identity = $2::text::jsonb WHERE writer_id = $1', [
      this.#id,
      JSON.stringify(identity)
    ])
    const others = `SELECT identity FROM writers
      WHERE writer_id <> $1 AND lease_until > clock_timestamp() AND identity IS NOT NULL`
    const rows = await db.rows<{ identity: PeerIdentity }>(others, [this.#id])
    return rows.map((row) => row.identity)
  }

  /**
   * Renews the lease with the number of a batch, and locks the row until the transaction ends.
   * @throws LeaseLost
   */
  async assert(db: Db, id: string, batch: number): Promise<void> {
    const sql = `UPDATE writers SET batch = $3, lease_until = ${UNTIL} WHERE writer_id = $1
      RETURNING (SELECT max(coalesce(min_writer, version)) FROM migrations) AS least`
    const [row] = await db.rows<{ least: number }>(sql, [id, this.ms, batch])
    if (!row) throw this.lose(id)
    if (row.least > this.#known) throw new StoreUnavailable('SCHEMA_NEWER', outdated(this.#known, row.least))
  }

  /** For long transactions: the lease must not be expired when they commit. */
  async renew(db: Db, id: string): Promise<void> {
    await db.changes(`UPDATE writers SET lease_until = ${UNTIL} WHERE writer_id = $1`, [id, this.ms])
  }

  /**
   * Renews without a batch. If a batch of ours holds the row, that one renews it. `begun`: when the database was first asked.
   * @throws LeaseLost
   */
  async keepAlive(db: Db, begun: number): Promise<void> {
    if (!this.#isKnown) return
    const id = this.#id
    const sql = `WITH mine AS (
        SELECT writer_id FROM writers WHERE writer_id = $1 FOR UPDATE SKIP LOCKED
      ), renewed AS (
        UPDATE writers SET lease_until = ${UNTIL} WHERE writer_id IN (SELECT writer_id FROM mine)
      )
      SELECT clock_timestamp()::text AS now FROM writers WHERE writer_id = $1`
    try {
      const [row] = await db.rows<{ now: string }>(sql, [id, this.ms])
      if (!row) throw this.lose(id)
      this.#renewedAt = row.now
      const now = performance.now()
      // An answer this late was late for every process.
      this.#reachedSince = now - begun < this.ms / LATE ? (this.#reachedSince ?? now) : now
    } catch (error) {
      this.#reachedSince = null
      throw error
    }
  }

  /**
   * Time of the last renewal, by the database's clock: a lease that had expired by then marks its process as dead. One
   * that expired since does not: the database may have hung meanwhile, and its process could not renew. Null: the
   * database was unreachable lately, for the others too, so nobody may be declared dead.
   */
  get judgedAt(): string | null {
    const isSteady = this.#reachedSince !== null && performance.now() - this.#reachedSince > this.ms
    return isSteady ? this.#renewedAt : null
  }

  /** The row of `id` is gone. Returns the error to throw. */
  lose(id: string): LeaseLost {
    // Batch and renewal may both find out.
    if (id === this.#id && this.#isKnown) {
      this.#id = randomUUID()
      this.#isKnown = false
      this.#onLost()
    }
    return new LeaseLost()
  }
}
