// A PostgreSQL database for application data and checkpoints: opened as a store. Several processes may have it open.
import type { Migrated, OnProgress } from '../sql/migrations.ts'
import type { Store } from '../store.ts'
import { sqlReads } from '../sql/nouns.ts'
import { ANY_REMOVED, untilRemoved } from '../sql/removal.ts'
import { checkpointReads } from './checkpoints.ts'
import { prepareDatabase } from './schema.ts'
import { type ReadDb, runSteps } from './db.ts'
import { originReads, threadSearch, WORDS } from './ops.ts'
import { frameReads } from './frames.ts'
import { Lease } from './lease.ts'
import { PostgresPeers } from './peers.ts'
import { PgConnection } from './pg-connection.ts'
import { Pool, type PoolOptions } from './pool.ts'
import { Remover } from './removal.ts'
import type { RunSteps } from '../sql/steps.ts'
import { BatchWriter } from './writer.ts'

export interface PostgresOptions extends PoolOptions {
  /** Lifetime of this process's lease without renewal, in ms. Default 15,000. */
  readonly leaseMs?: number
  readonly onMigrated?: (what: Migrated) => void
  readonly onProgress?: OnProgress
  /** False: an older schema is refused, as when another version is serving it. */
  readonly mayMigrate?: boolean
}

const LEASE_MS = 15_000
/** Connections reserved for batches, the lease and takeovers: behind slow reads a healthy process would lose its lease. */
const OWN_CONNECTIONS = 3
/** No healthy transaction is idle this long. */
const IDLE_IN_TRANSACTION_MS = 10_000

/**
 * Opens the database at `url` (`postgres://user:password@host:port/name`), and creates or migrates it.
 * @throws Error with a sentence when the server cannot be used, or the schema is newer than this program.
 */
export async function openPostgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const { leaseMs = LEASE_MS, onMigrated, onProgress, mayMigrate = true, ...poolOptions } = options
  await prepareDatabase(url, { onMigrated, onProgress, mayMigrate })
  const connectionOptions = { idleInTransactionMs: Math.min(leaseMs, IDLE_IN_TRANSACTION_MS), ...poolOptions }
  const pool = new Pool(url, connectionOptions)
  const ownPool = new Pool(url, { ...connectionOptions, max: OWN_CONNECTIONS })
  const lease = new Lease(leaseMs)
  const writer = new BatchWriter(ownPool, lease)
  const remover = new Remover(pool)
  const peers = new PostgresPeers(url, { pool, ownPool, lease, writer })
  return {
    ...readsOf(pool),
    peers,
    async apply(groups) {
      const outcomes = await writer.apply(groups)
      remover.written(groups)
      return outcomes
    },
    get trouble() {
      return writer.trouble
    },
    async size() {
      const [row] = await pool.rows<{ bytes: number }>('SELECT pg_database_size(current_database())::float8 AS bytes')
      // The write-ahead log is the whole server's, not ours.
      return { database: row?.bytes ?? 0, wal: 0 }
    },
    purge: () => untilRemoved(async () => (await pool.rows(ANY_REMOVED)).length > 0),
    connections: () => ({ reads: pool.figures, writes: ownPool.figures }),
    async withUrl(next) {
      await (await PgConnection.open(next)).close()
      return () => {
        for (const part of [pool, ownPool, peers]) part.connectTo(next)
      }
    },
    async close() {
      await writer.close()
      await remover.close()
      await peers.close()
      await Promise.all([pool.close(), ownPool.close()])
    }
  }
}

/** All reads of the store. */
export function readsOf(db: ReadDb) {
  const run: RunSteps = (steps) => runSteps(db, steps)
  const nouns = sqlReads(run, {
    search: threadSearch(db),
    words: WORDS,
    beside: run,
    snapshot: (make) => db.snapshot((one) => runSteps(one, make())),
    runsOfMessages: originReads(db)
  })
  return { frames: frameReads(db), checkpoints: checkpointReads(db), ...nouns }
}
