// The writing half of the database: batches of groups, each batch one transaction, one after the other.
//
// A batch is tried whole: groups of different threads side by side, statements sent without waiting for the answers of others, no
// savepoint. It is a few round trips, however many groups there are. When one of the groups cannot be written, nothing was, and the
// batch is done again group by group, each under a savepoint, to find out which [Store 2].
import { randomUUID } from 'node:crypto'
import { type Group, type Outcome, StoreUnavailable } from '../store.ts'
import { Batch, lockThreads, threadsOf } from './batch.ts'
import type { Line } from './line.ts'
import { write } from './ops.ts'
import type { Pool } from './pool.ts'
import { isEcho, unavailable } from './trouble.ts'

/** Between two questions to a server that does not answer, in ms. */
const ASK_AGAIN_MS = 200
/** Rows of writers that were not seen for so long are of processes that are no more. */
const FORGOTTEN_AFTER = '30 days'

/** Sends the rows that wait and COMMIT behind them. */
type Commit = (outcomes: Outcome[], flush?: () => Promise<void>) => Promise<void>
/** What a transaction does; it ends with `commit`. When it rejects, it sends nothing more. */
type Work = (line: Line, commit: Commit) => Promise<void>

export class BatchWriter {
  readonly #pool: Pool
  readonly #id = randomUUID()
  /** Number of the batch that was begun last. */
  #number = 0
  #isKnown = false
  /** The server's process of a transaction whose connection broke. */
  #abandoned: number | null = null
  #trouble: StoreUnavailable | null = null
  #isClosed = false
  #last: Promise<unknown> = Promise.resolve()

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** Batches follow each other in the order of their calls. Rejects as [Store 3] says. */
  apply(groups: readonly Group[]): Promise<Outcome[]> {
    const outcomes = this.#last.then(() => this.#apply(groups))
    this.#last = outcomes.catch(() => {})
    return outcomes
  }

  /** Why nobody can say at the moment whether the batch under way was written. */
  get trouble(): StoreUnavailable | null {
    return this.#trouble
  }

  /** Waits for the batches that were handed over, then forgets this writer. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#last
    if (this.#isKnown) await this.#pool.changes('DELETE FROM writers WHERE writer_id = $1', [this.#id]).catch(() => {})
  }

  async #apply(groups: readonly Group[]): Promise<Outcome[]> {
    if (groups.length === 0) return []
    try {
      return await this.#transaction((line, commit) => allTogether(line, groups, commit))
    } catch (error) {
      throwIfOfTheMoment(error)
      if (groups.length === 1) return [refusal(error)]
    }
    try {
      return await this.#transaction((line, commit) => oneByOne(line, groups, commit))
    } catch (error) {
      throwIfOfTheMoment(error)
      throw error
    }
  }

  /** Rejects when nothing was written, for certain. */
  async #transaction(work: Work): Promise<Outcome[]> {
    await this.#endAbandoned()
    await this.#introduce()
    const number = ++this.#number
    let outcomes: Outcome[] | null = null
    const onLine = async (line: Line): Promise<void> => {
      const begun = this.#begin(line, number)
      const commit: Commit = async (results, flush) => {
        await begun
        outcomes = results
        await allSent([flush?.(), committed(line)])
      }
      try {
        // The first statements of the work need not wait for the answer to BEGIN.
        await allSent([begun, work(line, commit)])
      } catch (error) {
        if (line.isLost) this.#abandoned = line.pid
        else await line.rows('ROLLBACK')
        throw error
      }
    }
    try {
      await this.#pool.use(onLine, { first: true })
    } catch (error) {
      // Once COMMIT is on its way, a connection that breaks says nothing about what became of it.
      if (outcomes === null || !unavailable(error) || !(await this.#isWritten(number))) throw error
    }
    return outcomes!
  }

  async #begin(line: Line, number: number): Promise<void> {
    const sql = 'UPDATE writers SET batch = $2, seen_at = now() WHERE writer_id = $1'
    const [, known] = await Promise.all([line.rows('BEGIN'), line.changes(sql, [this.#id, number])])
    if (known === 1) return
    this.#isKnown = false
    throw new StoreUnavailable('WRITER_FORGOTTEN', 'the row of this writer is gone')
  }

  /** A server that has not noticed yet would hold the locks of a transaction that nobody goes on with. */
  async #endAbandoned(): Promise<void> {
    if (this.#abandoned === null) return
    const sql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE pid = $1 AND usename = current_user AND application_name = current_setting('application_name')`
    await this.#pool.rows(sql, [this.#abandoned])
    this.#abandoned = null
  }

  /** The row that tells which batch was written last. It must be there before the first transaction that could be in doubt. */
  async #introduce(): Promise<void> {
    if (this.#isKnown) return
    await this.#pool.changes(`DELETE FROM writers WHERE seen_at < now() - interval '${FORGOTTEN_AFTER}'`)
    await this.#pool.changes('INSERT INTO writers (writer_id, batch) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
      this.#id,
      this.#number
    ])
    this.#isKnown = true
  }

  /**
   * Whether a batch was written whose connection broke while it was committed. Asks until the server answers: before that nobody
   * may be told either. The row is locked by the transaction in doubt for as long as there is one.
   */
  async #isWritten(number: number): Promise<boolean> {
    for (;;) {
      try {
        await this.#endAbandoned()
        const sql = 'SELECT batch FROM writers WHERE writer_id = $1 FOR UPDATE'
        const [row] = await this.#pool.rows<{ batch: number }>(sql, [this.#id])
        this.#trouble = null
        return row?.batch === number
      } catch (error) {
        this.#trouble = unavailable(error)
        if (this.#isClosed || !this.#trouble) throw error
        await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS))
      }
    }
  }
}

async function committed(line: Line): Promise<void> {
  const answer = await line.command('COMMIT')
  if (answer !== 'COMMIT') throw new StoreUnavailable('NOT_COMMITTED', 'PostgreSQL has rolled the batch back')
}

/**
 * Waits for all of these to end, also when one has failed: what the others send would come behind the ROLLBACK and stay. Rejects
 * with the failure that was the reason of the others.
 */
async function allSent(work: readonly (Promise<void> | undefined)[]): Promise<void> {
  const ends = await Promise.allSettled(work)
  const failures = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
  if (failures.length) throw failures.find((error) => !isEcho(error)) ?? failures[0]
}

/** All groups, those of different threads side by side. Any failure is the batch's. */
async function allTogether(line: Line, groups: readonly Group[], commit: Commit): Promise<void> {
  const ops = groups.flatMap((group) => group.ops)
  const batch = new Batch(line, ops)
  await batch.look(threadsOf(ops))
  const outcomes: Outcome[] = []
  const lanes = lanesOf(groups).map(async (lane) => {
    for (const at of lane) outcomes[at] = { ok: true, results: await applyGroup(groups[at]!, batch) }
  })
  await allSent(lanes)
  await commit(outcomes, () => batch.flush())
}

/** Each group under a savepoint, in their order: what cannot be written fails alone. */
async function oneByOne(line: Line, groups: readonly Group[], commit: Commit): Promise<void> {
  await lockThreads(line, threadsOf(groups.flatMap((group) => group.ops)))
  const outcomes: Outcome[] = []
  for (const group of groups) {
    await line.rows('SAVEPOINT one_group')
    try {
      const batch = new Batch(line, group.ops)
      await batch.look(threadsOf(group.ops))
      const results = await applyGroup(group, batch)
      await batch.flush()
      outcomes.push({ ok: true, results })
    } catch (error) {
      throwIfOfTheMoment(error)
      await line.rows('ROLLBACK TO SAVEPOINT one_group')
      outcomes.push(refusal(error))
    }
    await line.rows('RELEASE SAVEPOINT one_group')
  }
  await commit(outcomes)
}

async function applyGroup(group: Group, batch: Batch): Promise<unknown[]> {
  const results: unknown[] = []
  for (const op of group.ops) results.push(await write(op, batch))
  return results
}

/**
 * Which groups may go side by side: each lane is the groups of one thread in their order, or those of none. A group of several
 * threads would join their lanes: then there is one lane for all.
 */
function lanesOf(groups: readonly Group[]): number[][] {
  const lanes = new Map<string, number[]>()
  for (const [at, group] of groups.entries()) {
    const threads = threadsOf(group.ops)
    if (threads.length > 1 || (threads.length === 1 && isMixed(group))) return [groups.map((_, index) => index)]
    const lane = threads[0] ?? ''
    const found = lanes.get(lane)
    if (found) found.push(at)
    else lanes.set(lane, [at])
  }
  return [...lanes.values()]
}

/** True when some ops of the group are of a thread and others of none. */
function isMixed({ ops }: Group): boolean {
  return ops.some((op) => threadsOf([op]).length === 0)
}

function refusal(error: unknown): Outcome {
  return { ok: false, message: error instanceof Error ? error.message : String(error) }
}

function throwIfOfTheMoment(error: unknown): void {
  const trouble = unavailable(error)
  if (trouble) throw trouble
}
