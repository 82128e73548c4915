// Writes batches of groups, each batch one transaction, one after the other.
//
// A batch is first tried as a whole: groups of different threads in parallel, statements pipelined, no savepoints. That
// takes a few round trips, however many groups there are. When a group fails, nothing was written, and the batch is
// redone group by group, each under a savepoint, to find out which one [Store 2].
import { type Group, LeaseLost, type Outcome, StoreUnavailable } from '../store.ts'
import { refusal } from '../ports/ops.ts'
import { addAllUsage, Batch, lockThreads, lockUsers, threadsOf } from './batch.ts'
import type { Lease } from './lease.ts'
import type { PgConnection } from './pg-connection.ts'
import { write } from './ops.ts'
import type { Pool } from './pool.ts'
import type { UsageAddition } from '../sql/usage.ts'
import { isAbortedTransaction, unavailable } from './sqlstate.ts'

/** Retry delay while the server does not answer, in ms. */
const ASK_AGAIN_MS = 200
/** Flushes waiting rows and sends COMMIT right behind them. */
type Commit = (outcomes: Outcome[], flush?: () => Promise<void>) => Promise<void>
/** The body of a transaction; it ends with `commit`. After it rejects, it sends nothing more. */
type Work = (connection: PgConnection, commit: Commit) => Promise<void>

export class BatchWriter {
  readonly #pool: Pool
  readonly #lease: Lease
  /** Number of the last batch begun. */
  #number = 0
  /** Server process of a transaction whose connection broke. */
  #abandoned: number | null = null
  #trouble: StoreUnavailable | null = null
  #isClosed = false
  #last: Promise<unknown> = Promise.resolve()

  constructor(pool: Pool, lease: Lease) {
    this.#pool = pool
    this.#lease = lease
  }

  /** Registers this process with the others. The first batch does it too. */
  register(): Promise<void> {
    return this.#lease.register(this.#pool, this.#number)
  }

  /** Batches run in call order. Rejects as [Store 3] says. */
  apply(groups: readonly Group[]): Promise<Outcome[]> {
    const outcomes = this.#last.then(() => this.#apply(groups))
    this.#last = outcomes.catch(() => {})
    return outcomes
  }

  /** Why it is currently unknown whether the batch in flight was written. */
  get trouble(): StoreUnavailable | null {
    return this.#trouble
  }

  /** Waits for queued batches, then deletes this writer's row. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#last
    const { id, isKnown } = this.#lease
    if (isKnown) await this.#pool.changes('DELETE FROM writers WHERE writer_id = $1', [id]).catch(() => {})
  }

  async #apply(groups: readonly Group[]): Promise<Outcome[]> {
    const { id } = this.#lease
    const own = groups.filter(({ owner = id }) => owner === id)
    const outcomes = await this.#write(own)
    if (own.length === groups.length) return outcomes
    return groups.map(({ owner = id }) => (owner === id ? outcomes.shift()! : refusal(new LeaseLost())))
  }

  async #write(groups: readonly Group[]): Promise<Outcome[]> {
    if (groups.length === 0) return []
    const { id } = this.#lease
    try {
      return await this.#transaction(id, (connection, commit) => allTogether(connection, groups, commit, id))
    } catch (error) {
      throwIfUnavailable(error)
      if (groups.length === 1) return [refusal(error)]
    }
    try {
      return await this.#transaction(id, (connection, commit) => oneByOne(connection, groups, commit, id))
    } catch (error) {
      throwIfUnavailable(error)
      throw error
    }
  }

  /** Rejects only when nothing was written. `id`: the writer. */
  async #transaction(id: string, work: Work): Promise<Outcome[]> {
    await this.#endAbandoned()
    await this.register()
    if (id !== this.#lease.id) throw new LeaseLost()
    const number = ++this.#number
    let outcomes: Outcome[] | null = null
    const onConnection = async (connection: PgConnection): Promise<void> => {
      const started = performance.now()
      const begun = this.#begin(connection, id, number)
      const commit: Commit = async (results, flush) => {
        await begun
        outcomes = results
        const isLate = performance.now() - started > this.#lease.ms / 3
        await allSent([flush?.(), isLate ? this.#lease.renew(connection, id) : undefined, committed(connection)])
      }
      try {
        // The first statements need not wait for the answer to BEGIN.
        await allSent([begun, work(connection, commit)])
      } catch (error) {
        if (connection.isLost) this.#abandoned = connection.pid
        else await connection.rows('ROLLBACK')
        throw error
      }
    }
    try {
      await this.#pool.use(onConnection, { first: true })
    } catch (error) {
      // Once COMMIT was sent, a broken connection leaves the outcome unknown.
      if (outcomes === null || !unavailable(error) || !(await this.#isWritten(id, number))) throw error
    }
    return outcomes!
  }

  async #begin(connection: PgConnection, id: string, number: number): Promise<void> {
    await Promise.all([connection.rows('BEGIN'), this.#lease.assert(connection, id, number)])
  }

  /** Ends the abandoned transaction on the server, which would hold its locks until it noticed. */
  async #endAbandoned(): Promise<void> {
    if (this.#abandoned === null) return
    const sql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE pid = $1 AND usename = current_user AND application_name = current_setting('application_name')`
    await this.#pool.rows(sql, [this.#abandoned])
    this.#abandoned = null
  }

  /** The last batch of a writer whose lease was taken: it could not be taken while the batch in doubt was still running. */
  async #takenFrom(id: string): Promise<{ batch: number } | undefined> {
    const sql = 'SELECT batch FROM former_writers WHERE writer_id = $1'
    return (await this.#pool.rows<{ batch: number }>(sql, [id]))[0]
  }

  /**
   * Whether a batch was written whose connection broke during COMMIT. Asks until the server answers; nothing is
   * acknowledged before. The transaction in doubt keeps the row locked as long as it exists.
   */
  async #isWritten(id: string, number: number): Promise<boolean> {
    for (;;) {
      try {
        await this.#endAbandoned()
        const sql = 'SELECT batch FROM writers WHERE writer_id = $1 FOR UPDATE'
        const [row] = await this.#pool.rows<{ batch: number }>(sql, [id])
        const last = row ?? (await this.#takenFrom(id))
        this.#trouble = null
        const isWritten = last?.batch === number
        if (row) return isWritten
        // The lease is lost either way; what was committed under it stays committed.
        const lost = this.#lease.lose(id)
        if (!isWritten) throw lost
        return true
      } catch (error) {
        if (error instanceof LeaseLost) throw error
        this.#trouble = unavailable(error)
        if (this.#isClosed || !this.#trouble) throw error
        await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS))
      }
    }
  }
}

async function committed(connection: PgConnection): Promise<void> {
  const answer = await connection.command('COMMIT')
  if (answer !== 'COMMIT') throw new StoreUnavailable('NOT_COMMITTED', 'PostgreSQL has rolled the batch back')
}

/**
 * Waits for all of these even when one fails: statements sent after the ROLLBACK would be committed on their own.
 * Rejects with the failure that caused the others.
 */
async function allSent(work: readonly (Promise<void> | undefined)[]): Promise<void> {
  const ends = await Promise.allSettled(work)
  const failures = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
  if (failures.length) throw failures.find((error) => !isAbortedTransaction(error)) ?? failures[0]
}

/** All groups, different threads in parallel. Any failure fails the batch. */
async function allTogether(
  connection: PgConnection,
  groups: readonly Group[],
  commit: Commit,
  writerId: string
): Promise<void> {
  const ops = groups.flatMap((group) => group.ops)
  const batch = new Batch(connection, ops, writerId)
  await lockUsers(batch, ops)
  await batch.load(threadsOf(ops))
  const outcomes: Outcome[] = []
  const queues = queuesOf(groups).map(async (queue) => {
    for (const at of queue) outcomes[at] = { ok: true, results: await applyGroup(groups[at]!, batch) }
  })
  await allSent(queues)
  await commit(outcomes, async () => allSent([batch.flush(), addAllUsage(batch, batch.usage)]))
}

/** Each group under a savepoint, in the order of `queuesOf`, so that a failing one fails alone. */
async function oneByOne(
  connection: PgConnection,
  groups: readonly Group[],
  commit: Commit,
  writerId: string
): Promise<void> {
  const all = groups.flatMap((group) => group.ops)
  await lockUsers(connection, all)
  await lockThreads(connection, threadsOf(all))
  const outcomes: Outcome[] = []
  const usage: UsageAddition[] = []
  for (const at of queuesOf(groups).flat()) {
    const group = groups[at]!
    await connection.rows('SAVEPOINT one_group')
    try {
      const batch = new Batch(connection, group.ops, writerId)
      await batch.load(threadsOf(group.ops))
      const results = await applyGroup(group, batch)
      await batch.flush()
      outcomes[at] = { ok: true, results }
      usage.push(...batch.usage)
    } catch (error) {
      throwIfUnavailable(error)
      await connection.rows('ROLLBACK TO SAVEPOINT one_group')
      outcomes[at] = refusal(error)
    }
    await connection.rows('RELEASE SAVEPOINT one_group')
  }
  await commit(outcomes, () => addAllUsage(connection, usage))
}

async function applyGroup(group: Group, batch: Batch): Promise<unknown[]> {
  const results: unknown[] = []
  for (const op of group.ops) results.push(await write(op, batch))
  return results
}

/**
 * Which groups may run in parallel: a queue per thread, in order, and one for groups without a thread. A group of
 * several threads would merge their queues: then there is one queue for all. Queues begin sorted by
 * thread, since a thread that is not there yet is locked only by its creation: two processes that create the same two
 * must not do it crosswise.
 */
function queuesOf(groups: readonly Group[]): number[][] {
  const queues = new Map<string, number[]>()
  for (const [at, group] of groups.entries()) {
    const threads = threadsOf(group.ops)
    if (threads.length > 1 || (threads.length === 1 && isMixed(group))) return [groups.map((_, index) => index)]
    const queue = threads[0] ?? ''
    const found = queues.get(queue)
    if (found) found.push(at)
    else queues.set(queue, [at])
  }
  return [...queues.keys()].sort().map((thread) => queues.get(thread)!)
}

/** True when some ops of the group are of a thread and others of none. */
function isMixed({ ops }: Group): boolean {
  return ops.some((op) => threadsOf([op]).length === 0)
}

function throwIfUnavailable(error: unknown): void {
  const trouble = unavailable(error)
  if (trouble) throw trouble
}
