// The steps of a migration, each done while programs of both schemas go on: expand, backfill, and, when the old form is not needed any
// more, contract. Their order is in schema.ts.
//
// The row of a step says which programs may read and write after it. Each batch of a backfill is a transaction together with the key that
// it has reached, so a process that is killed loses one batch.
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { messageOf } from '../../base/errors.ts'
import { Poller } from '../../base/poller.ts'
import { type Migration, type MigrationProgress, migrationsIn, type OnProgress } from '../sql/migrations.ts'
import type { PgConnection } from './pg-connection.ts'

export const STEPS: readonly Migration[] = migrationsIn(new URL('./migrations/', import.meta.url))

/** Advisory lock for migrations: any number nobody else uses in this database. */
const MIGRATION_LOCK = 7_236_001
/** The step since which rows of steps say who may go on, and rows of processes what they know. */
const COMPATIBLE_SINCE = 28
/** Progress of what takes long, in ms. */
const REPORT_MS = 2000
/** How long a change of a table that is in use waits for its lock: all who want the table wait behind it. */
const LOCK_TIMEOUT = '1s'
const LOCK_PAUSE_MS = 1000
const LOCK_TRIES = 120
/** A batch holds its rows for about this long, in ms. */
const BATCH_MS = 250
const BATCH = { first: 200, least: 100, most: 10_000 }
/** Deadlock, lock timeout: the same is tried again. */
const IN_THE_WAY = /^(40P01|40001|55P03)$/

/** What the database says of itself. */
export interface Schema {
  /** The newest step; 0: none. */
  readonly version: number
  readonly minReader: number
  readonly minWriter: number
  readonly pending: readonly Backfill[]
  /** Steps whose old form is gone. */
  readonly contracted: ReadonlySet<number>
}

/** How far a backfill is; `rows` 0 also of a step whose indexes are being made. */
interface Backfill {
  readonly version: number
  readonly after: string
  readonly rows: number
}

const NONE: Schema = { version: 0, minReader: 0, minWriter: 0, pending: [], contracted: new Set() }

export async function hasTable(connection: PgConnection, name: string): Promise<boolean> {
  const [row] = await connection.rows<{ found: string | null }>(`SELECT to_regclass('${name}')::text AS found`)
  return row?.found != null
}

export async function schemaOf(connection: PgConnection): Promise<Schema> {
  if (!(await hasTable(connection, 'migrations'))) return NONE
  // A table of before has not these columns.
  const rows = await connection.rows<{
    version: number
    reader: number
    writer: number
    backfill: string | null
    isContracted: boolean
  }>(`SELECT version, coalesce((said->>'min_reader')::integer, version) AS reader,
      coalesce((said->>'min_writer')::integer, version) AS writer, said->>'backfill' AS backfill,
      said->>'contracted_at' IS NOT NULL AS "isContracted"
    FROM (SELECT version, to_jsonb(migrations) AS said FROM migrations) AS steps ORDER BY version`)
  return {
    version: Math.max(0, ...rows.map(({ version }) => version)),
    minReader: Math.max(0, ...rows.map(({ reader }) => reader)),
    minWriter: Math.max(0, ...rows.map(({ writer }) => writer)),
    pending: rows.flatMap(({ version, backfill }) =>
      // Written by `fill`.
      backfill === null ? [] : [{ version, ...(JSON.parse(backfill) as Omit<Backfill, 'version'>) }]
    ),
    contracted: new Set(rows.filter(({ isContracted }) => isContracted).map(({ version }) => version))
  }
}

/** Processes with a lease, by the newest schema that each knows. */
export async function processesOn(connection: PgConnection): Promise<{ schema: number; count: number }[]> {
  if (!(await hasTable(connection, 'writers'))) return []
  return connection.rows(`SELECT coalesce((to_jsonb(writers)->>'schema')::integer, 0) AS schema, count(*)::integer AS count
    FROM writers WHERE lease_until > clock_timestamp() GROUP BY 1 ORDER BY 1`)
}

/** What is to be done so that a program of these steps can use the database. */
export function missingOf({ version, pending }: Schema): Migration[] {
  const isPending = new Set(pending.map((one) => one.version))
  return STEPS.filter((step) => step.version > version || isPending.has(step.version))
}

/** Steps whose old form is still there, and could go. */
export function contractsOf({ version, contracted }: Schema): Migration[] {
  return STEPS.filter((step) => step.contract !== null && step.version <= version && !contracted.has(step.version))
}

export class Migrator {
  readonly #connection: PgConnection
  readonly #onProgress: OnProgress
  readonly #begun = performance.now()
  #reported = ''
  #reportedAt = Number.NEGATIVE_INFINITY

  constructor(connection: PgConnection, onProgress: OnProgress) {
    this.#connection = connection
    this.#onProgress = onProgress
  }

  /** Takes the lock of migrations, which is released with the connection: one process at a time. */
  async lock(): Promise<void> {
    for (;;) {
      const sql = 'SELECT pg_try_advisory_lock($1) AS locked'
      const [row] = await this.#connection.rows<{ locked: boolean }>(sql, [MIGRATION_LOCK])
      if (row?.locked) return
      const schema = await schemaOf(this.#connection)
      const [pending] = schema.pending
      this.#report({
        version: pending?.version ?? schema.version,
        phase: 'other',
        ...(pending && { rows: pending.rows })
      })
      await sleep(LOCK_PAUSE_MS / 4)
    }
  }

  /** Applies a step, or what is left of it. `inUse`: other processes go on meanwhile. */
  async expand(step: Migration, schema: Schema, inUse: boolean): Promise<void> {
    if (step.version > schema.version) await this.#expand(step, inUse)
    if (!isLong(step)) return
    const pending = schema.pending.find(({ version }) => version === step.version)
    if (step.indexes !== null) await this.#index(step, step.indexes)
    if (step.backfill !== null)
      await this.#fill(step, step.backfill, pending ?? { version: step.version, ...NOTHING_YET })
    else await this.#connection.rows('UPDATE migrations SET backfill = NULL WHERE version = $1', [step.version])
  }

  async #expand(step: Migration, inUse: boolean): Promise<void> {
    const { version, minReader, minWriter } = step
    const record =
      version <= COMPATIBLE_SINCE
        ? this.#statement('INSERT INTO migrations (version, applied_at) VALUES ($1, now())', [version])
        : this.#statement(
            `INSERT INTO migrations (version, applied_at, min_reader, min_writer, backfill) VALUES ($1, now(), $2, $3, $4)`,
            [version, minReader, minWriter, isLong(step) ? JSON.stringify(NOTHING_YET) : null]
          )
    await this.#changing(step.version, 'expand', inUse, [this.#statement(step.sql), record])
  }

  /**
   * Removes the old form of a step.
   * @throws Error when a process that needs it is using the database, or may be
   */
  async contract(step: Migration): Promise<void> {
    const { version, contract, minReader, minWriter } = step
    await this.#refuseOlder(version)
    // A program of the version before may start at this moment: from here on it is refused, and one that was faster is found below.
    await this.#allow(version, version, version)
    try {
      await this.#refuseOlder(version)
      const done = 'UPDATE migrations SET contracted_at = now() WHERE version = $1'
      const statements = [this.#statement(contract ?? ''), this.#statement(done, [version])]
      await this.#changing(version, 'contract', true, statements)
    } catch (error) {
      if (!this.#connection.isLost) await this.#allow(version, minReader, minWriter)
      throw error
    }
  }

  async #refuseOlder(version: number): Promise<void> {
    const older = (await processesOn(this.#connection)).filter(({ schema }) => schema < version)
    const count = older.reduce((sum, one) => sum + one.count, 0)
    if (count === 0) return
    throw new Error(
      `Step ${version} removes what ${count} ${count === 1 ? 'process' : 'processes'} of an older version (schema ${older
        .map(({ schema }) => schema || 'unknown')
        .join(
          ', '
        )}) still ${count === 1 ? 'needs' : 'need'}: stop them first (one that was killed counts until its lease is over)`
    )
  }

  async #allow(version: number, minReader: number, minWriter: number): Promise<void> {
    const sql = 'UPDATE migrations SET min_reader = $2, min_writer = $3 WHERE version = $1'
    await this.#connection.rows(sql, [version, minReader, minWriter])
  }

  #statement(sql: string, params: readonly (string | number | null)[] = []): () => Promise<unknown> {
    return () => this.#connection.rows(sql, params)
  }

  /** One transaction that changes tables. In use, it waits for a lock as short as nobody notices, and comes again. */
  async #changing(
    version: number,
    phase: 'expand' | 'contract',
    inUse: boolean,
    statements: readonly (() => Promise<unknown>)[]
  ): Promise<void> {
    const all = [this.#statement(`SET LOCAL lock_timeout = '${inUse ? LOCK_TIMEOUT : 0}'`), ...statements]
    await this.#ticking({ version, phase }, async () => {
      for (let tries = 1; !(await this.#hasCommitted(all, version, tries === LOCK_TRIES)); tries++) {
        this.#report({ version, phase: 'lock' })
        await sleep(LOCK_PAUSE_MS)
      }
    })
  }

  /** Reports again and again until the work is done. */
  async #ticking(
    what: { version: number; phase: MigrationProgress['phase'] },
    work: () => Promise<void>
  ): Promise<void> {
    const ticking = new Poller({ everyMs: REPORT_MS, work: async () => this.#report(what), onError: () => {} })
    this.#report(what)
    ticking.start()
    try {
      await work()
    } finally {
      await ticking.stop()
    }
  }

  /** Makes the indexes while their tables are written. One that was broken off has left a part that is no good. */
  async #index({ version }: Migration, sql: string): Promise<void> {
    const connection = this.#connection
    const broken = await connection.rows<{ name: string }>(
      `SELECT relname AS name FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
       WHERE NOT indisvalid AND relnamespace = quote_ident(current_schema())::regnamespace`
    )
    await this.#ticking({ version, phase: 'indexes' }, async () => {
      for (const { name } of broken)
        if (new RegExp(`\\b${name}\\b`).test(sql)) await connection.rows(`DROP INDEX CONCURRENTLY "${name}"`)
      for (const statement of sql.split(/;\s*$/m)) if (statement.trim() !== '') await connection.rows(statement)
    })
  }

  /** False: somebody was in the way, and nothing has happened. */
  async #hasCommitted(
    statements: readonly (() => Promise<unknown>)[],
    version: number,
    isLast: boolean
  ): Promise<boolean> {
    const connection = this.#connection
    try {
      await connection.rows('BEGIN')
      for (const run of statements) await run()
      await connection.rows('COMMIT')
      return true
    } catch (error) {
      if (!connection.isLost) await connection.rows('ROLLBACK')
      if (!isLast && isInTheWay(error)) return false
      throw new Error(`Step ${version} of the database schema failed: ${messageOf(error)}`, { cause: error })
    }
  }

  async #fill(step: Migration, sql: string, { after, rows }: Backfill): Promise<void> {
    const { version } = step
    const of = await rowsOfBackfill(this.#connection, sql)
    let [key, done, limit] = [after, rows, BATCH.first]
    let heldSince: number | null = null
    this.#report({ version, phase: 'backfill', rows: done, of })
    // A batch that a crash of the server takes back is done again: nobody needs to wait for its disk.
    await this.#connection.rows('SET synchronous_commit = off')
    await this.#connection.rows(`SET lock_timeout = '${LOCK_TIMEOUT}'`)
    for (;;) {
      const begun = performance.now()
      let batch: Filled | undefined
      const isDone = await this.#hasCommitted(
        [
          async () => {
            // For this limit: a plan for any would read the table through.
            ;[batch] = await this.#connection.rows<Filled>(sql, [key, limit], 'anew')
            const state = batch?.after == null ? null : JSON.stringify({ after: batch.after, rows: done + batch.rows })
            await this.#connection.rows('UPDATE migrations SET backfill = $2 WHERE version = $1', [version, state])
          }
        ],
        version,
        false
      )
      if (!isDone) {
        heldSince ??= begun
        // Not for a batch or two: it would be said in turns with how far it is.
        if (begun - heldSince >= REPORT_MS) this.#report({ version, phase: 'lock', rows: done, of })
        limit = Math.max(BATCH.least, limit >> 1)
        await sleep(BATCH_MS)
        continue
      }
      heldSince = null
      if (batch?.after == null) break
      key = batch.after
      done += batch.rows
      const took = performance.now() - begun
      limit = Math.max(BATCH.least, Math.min(BATCH.most, took < BATCH_MS ? limit * 2 : limit >> 1))
      this.#report({ version, phase: 'backfill', rows: done, of: Math.max(of, done) })
    }
    await this.#connection.rows('SET synchronous_commit = on')
    await this.#connection.rows('SET lock_timeout = 0')
    this.#reportedAt = Number.NEGATIVE_INFINITY
    this.#report({ version, phase: 'backfill', rows: done, of: done })
  }

  /** At once when it is something else, then every two seconds. */
  #report(progress: Omit<MigrationProgress, 'elapsed_ms'>): void {
    const now = performance.now()
    const what = `${progress.version} ${progress.phase}`
    if (what === this.#reported && now - this.#reportedAt < REPORT_MS) return
    this.#reported = what
    this.#reportedAt = now
    this.#onProgress({ ...progress, elapsed_ms: Math.round(now - this.#begun) })
  }
}

interface Filled {
  readonly after: string | null
  readonly rows: number
}

/** True: it is not done when its tables are changed. */
function isLong({ indexes, backfill }: Migration): boolean {
  return indexes !== null || backfill !== null
}

const NOTHING_YET = { after: '', rows: 0 }

/** Rows of the table that the first line of a backfill names, `-- of: threads_meta`, as the server estimates them. */
export async function rowsOfBackfill(connection: PgConnection, sql: string): Promise<number> {
  const [, table] = /^-- of: (\w+)/.exec(sql) ?? []
  if (table === undefined) return 0
  const estimate = `SELECT reltuples::float8 AS rows FROM pg_class WHERE oid = to_regclass($1)`
  const [row] = await connection.rows<{ rows: number }>(estimate, [table])
  if (row && row.rows >= 0) return row.rows
  const [counted] = await connection.rows<{ rows: number }>(`SELECT count(*)::float8 AS rows FROM "${table}"`)
  return counted?.rows ?? 0
}

function isInTheWay(error: unknown): boolean {
  return error instanceof postgres.PostgresError && IN_THE_WAY.test(error.code)
}
