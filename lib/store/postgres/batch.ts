// A batch in progress: one transaction, what it knows of its threads, and rows waiting to be written together.
//
// Its threads are locked first, behind users of whom something is counted, ordered by id, so that two processes cannot deadlock. From then
// on nobody else writes to them: counters read under the lock are advanced here, and rows of frames and events, which are nearly all of a
// batch, go out as one statement for all runs, at the end or before an op that would read them.
import { Refused } from '../ports/ops.ts'
import type { NewEventRow } from '../sql/events.ts'
import type { Op, OpName, OpOf, Result, Segment } from '../store.ts'
import type { PgConnection } from './pg-connection.ts'
import type { Steps, StepWrites } from '../sql/steps.ts'
import { ADD_MANY, type UsageAddition } from '../sql/usage.ts'
import { byteStrings, type Db, numbers, type Param, runSteps, texts } from './db.ts'

/** An existing thread, as this batch leaves it. */
interface ThreadState {
  /** seq of the next event [Store 5]. */
  nextSeq: number
  /** The next seq in its row. */
  storedSeq: number
  /** Last k by run, for runs this batch appends to. */
  readonly lastK: Map<string, number>
  /** Existing runs among those this batch appends frames to. */
  readonly runKeys: Set<number>
}

/** Bytes per statement, about: the server takes a gigabyte at most, and holds several copies of it. */
const STATEMENT_BYTES = 8 * 1024 * 1024

/** The threads an op writes to, or copies from; none: it has none, or its rows name it. */
function threadsOfOp(op: Op): readonly string[] {
  if (op.name === 'thread.create') return [op.thread.thread_id]
  if (op.name === 'run.create') return [op.run.thread_id]
  if (op.name === 'feedback.upsert') return [op.feedback.thread_id]
  if (op.name === 'job.put') return op.job.thread_id === null ? [] : [op.job.thread_id]
  if (op.name === 'hold.put') return op.hold.kind === 'thread' ? [op.hold.target] : []
  // What is copied must not change meanwhile, neither by other groups nor by other processes.
  if (op.name === 'state.copy') return [op.from, op.thread_id]
  return 'thread_id' in op && op.thread_id !== null ? [op.thread_id] : []
}

/** The distinct threads of these ops. */
export function threadsOf(ops: readonly Op[]): string[] {
  return [...new Set(ops.flatMap(threadsOfOp))]
}

/** Locks those of the threads that exist and returns their counters. */
export async function lockThreads(db: Db, threadIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  if (threadIds.length === 0) return new Map()
  const sql =
    'SELECT thread_id, next_seq FROM threads_meta WHERE thread_id = ANY($1::text[]) ORDER BY thread_id FOR UPDATE'
  const rows = await db.rows<{ thread_id: string; next_seq: number }>(sql, [texts(threadIds)])
  return new Map(rows.map(({ thread_id, next_seq }) => [thread_id, next_seq]))
}

/** Advisory locks of users, by a hash: whoever shares one with somebody waits for them, and no more. */
const USER_LOCK = 7_236_004

/** Users of whom these ops make something of which each may have so many. */
function countedUsers(ops: readonly Op[]): string[] {
  const users = ops.flatMap((op) => {
    if (op.name === 'thread.create') return op.max && !op.isTemporary ? [op.thread.user_id ?? ''] : []
    if (op.name === 'cron.create') return [op.cron.user_id]
    if (op.name === 'apiToken.create') return [op.token.user_id]
    if (op.name === 'quota.take') return [op.user_id]
    if (op.name === 'run.create') return op.max ? [op.run.user_id ?? ''] : []
    return op.name === 'assistant.create' ? [op.assistant.user_id ?? ''] : []
  })
  return [...new Set(users)]
}

/**
 * Locks out other processes that would count the same users at the same time: both would give the last place away. In order, and before
 * any thread, so that two processes cannot deadlock: of a thread that both create, the second takes the lock only when it finds it there.
 */
export async function lockUsers(db: Db, ops: readonly Op[]): Promise<void> {
  const users = countedUsers(ops)
  if (users.length === 0) return
  const sql = `SELECT pg_advisory_xact_lock($1::integer, hash) FROM (
    SELECT DISTINCT hashtext(id) AS hash FROM unnest($2::text[]) AS id ORDER BY hash) AS sorted`
  await db.rows(sql, [USER_LOCK, texts(users)])
}

export class Batch implements Db {
  /** The writing process: owner of the runs it admits. */
  readonly writerId: string
  readonly #connection: PgConnection
  readonly #ops: readonly Op[]
  /** Existing threads among those that were loaded or made. */
  readonly threads = new Map<string, ThreadState>()
  /** Rows to write. */
  readonly events: NewEventRow[] = []
  readonly frames: RunSegment[] = []
  /** Sums to add to, with the last statement: other processes wait for their rows until the commit. */
  readonly usage: UsageAddition[] = []

  constructor(connection: PgConnection, ops: readonly Op[], writerId: string) {
    this.writerId = writerId
    this.#connection = connection
    this.#ops = ops
  }

  rows<Row>(sql: string, params?: readonly Param[]): Promise<Row[]> {
    return this.#connection.rows(sql, params)
  }

  changes(sql: string, params?: readonly Param[]): Promise<number> {
    return this.#connection.changes(sql, params)
  }

  /** Locks these threads and reads what the batch's ops need to know about them. None of their rows may be waiting. */
  async load(threadIds: readonly string[]): Promise<void> {
    const ids = new Set(threadIds)
    const ops = this.#ops.filter((op) => threadsOfOp(op).some((id) => ids.has(id)))
    const runIds = new Map(ops.flatMap((op) => (op.name === 'events.append' ? [[op.run_id, op.thread_id]] : [])))
    const runKeys = new Set(ops.flatMap((op) => (op.name === 'frames.append' ? [op.run_key] : [])))
    const [counters, lasts, runs] = await Promise.all([
      lockThreads(this, threadIds),
      this.#lastKs([...runIds.keys()]),
      this.#runsOf([...runKeys])
    ])
    for (const id of ids) this.threads.delete(id)
    for (const [id, nextSeq] of counters) this.keep(id, nextSeq)
    for (const { run_id, k } of lasts) this.threads.get(runIds.get(run_id) ?? '')?.lastK.set(run_id, k)
    for (const { key, thread_id } of runs) this.threads.get(thread_id)?.runKeys.add(key)
  }

  async #lastKs(runIds: readonly string[]): Promise<{ run_id: string; k: number }[]> {
    if (runIds.length === 0) return []
    const sql = `SELECT run.id AS run_id, last.k FROM unnest($1::text[]) AS run (id)
      CROSS JOIN LATERAL (SELECT k FROM run_events WHERE run_id = run.id ORDER BY seq DESC LIMIT 1) AS last`
    return this.rows(sql, [texts(runIds)])
  }

  async #runsOf(keys: readonly number[]): Promise<{ key: number; thread_id: string }[]> {
    if (keys.length === 0) return []
    return this.rows('SELECT key, thread_id FROM runs WHERE key = ANY($1::bigint[])', [numbers(keys)])
  }

  keep(threadId: string, nextSeq: number): void {
    this.threads.set(threadId, { nextSeq, storedSeq: nextSeq, lastK: new Map(), runKeys: new Set() })
  }

  /** @throws Refused when there is no such thread [Store 8] */
  needs(threadId: string): ThreadState {
    const state = this.threads.get(threadId)
    if (!state) throw new Refused(`thread ${threadId} is gone`)
    return state
  }

  /** Sends waiting rows. Later statements on this connection see them, whether or not they wait for the answer. */
  async flush(): Promise<void> {
    const frames = this.frames.splice(0)
    const events = this.events.splice(0)
    const counters = this.#moved()
    const [some, ...more] = chunks(events, ({ content }) => content.length)
    await Promise.all([
      ...chunks(frames, ({ segment }) => segment.data.length).map((few) => insertFrames(this, few)),
      some ? insertEvents(this, some, counters) : counters.length > 0 && moveCounters(this, counters),
      ...more.map((few) => insertEvents(this, few, []))
    ])
  }

  /** Counters not written to their rows yet; marks them as written. */
  #moved(): Counter[] {
    const counters: Counter[] = []
    for (const [thread_id, state] of this.threads) {
      if (state.nextSeq === state.storedSeq) continue
      state.storedSeq = state.nextSeq
      counters.push({ thread_id, next_seq: state.nextSeq })
    }
    return counters
  }
}

/** Splits the items, in order, into chunks of about STATEMENT_BYTES. */
function chunks<T>(items: readonly T[], sizeOf: (item: T) => number): T[][] {
  const lists: T[][] = []
  let bytes = STATEMENT_BYTES
  for (const item of items) {
    if (bytes >= STATEMENT_BYTES) {
      lists.push([])
      bytes = 0
    }
    lists.at(-1)!.push(item)
    bytes += sizeOf(item)
  }
  return lists
}

// --------------------------------------------------------------------------------------------------------------- bulk

/** A segment to write. */
interface RunSegment {
  readonly run_key: number
  readonly segment: Segment
}

/** Segments of any runs in one statement. */
function insertFrames(db: Db, list: readonly RunSegment[]): Promise<number> {
  const sql = `INSERT INTO frames (run_key, first_n, last_n, epoch, bytes, idx, data)
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::integer[], $6::bytea[], $7::bytea[])`
  return db.changes(sql, [
    numbers(list.map((one) => one.run_key)),
    numbers(list.map((one) => one.segment.first)),
    numbers(list.map((one) => one.segment.last)),
    numbers(list.map((one) => one.segment.epoch)),
    numbers(list.map((one) => one.segment.data.length)),
    byteStrings(list.map((one) => one.segment.index)),
    byteStrings(list.map((one) => one.segment.data))
  ])
}

/** Adds to the sums of usage, in the order of their keys. */
export async function addAllUsage(db: Db, additions: readonly UsageAddition[]): Promise<void> {
  if (additions.length === 0) return
  const column = <N extends keyof UsageAddition & number>(at: N) => additions.map((one) => one[at])
  const sums = ([4, 5, 6, 7, 8] as const).map((at) => numbers(column(at)))
  await db.changes(ADD_MANY, [texts(column(0)), texts(column(1)), texts(column(2)), texts(column(3)), ...sums])
}

/** The seq that the next event of a thread gets. */
interface Counter {
  readonly thread_id: string
  readonly next_seq: number
}

const MOVE_COUNTERS = (ids: number, seqs: number) => `UPDATE threads_meta AS t SET next_seq = counter.next_seq
  FROM unnest($${ids}::text[], $${seqs}::bigint[]) AS counter (thread_id, next_seq) WHERE t.thread_id = counter.thread_id`

/** Writes the counters of these threads, which are locked. */
function moveCounters(db: Db, counters: readonly Counter[]): Promise<number> {
  return db.changes(MOVE_COUNTERS(1, 2), counterParams(counters))
}

/**
 * Inserts events of any threads and advances their counters in one statement, because every statement costs an answer
 * that wakes both sides.
 */
function insertEvents(db: Db, rows: readonly NewEventRow[], counters: readonly Counter[]): Promise<number> {
  const sql = `WITH moved AS (${MOVE_COUNTERS(12, 13)})
    INSERT INTO run_events (thread_id, run_id, user_id, event_type, category, content, event_metadata, message_id,
      created_at, seq, k)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
      $9::timestamptz[], $10::bigint[], $11::integer[])`
  return db.changes(sql, [
    texts(rows.map((row) => row.thread_id)),
    texts(rows.map((row) => row.run_id)),
    texts(rows.map((row) => row.user_id)),
    texts(rows.map((row) => row.event_type)),
    texts(rows.map((row) => row.category)),
    texts(rows.map((row) => row.content)),
    texts(rows.map((row) => row.event_metadata)),
    texts(rows.map((row) => row.message_id)),
    texts(rows.map((row) => row.created_at)),
    numbers(rows.map((row) => row.seq)),
    numbers(rows.map((row) => row.k)),
    ...counterParams(counters)
  ])
}

function counterParams(counters: readonly Counter[]): [ids: string, seqs: string] {
  return [texts(counters.map(({ thread_id }) => thread_id)), numbers(counters.map(({ next_seq }) => next_seq))]
}

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { readonly [P in K]: (op: OpOf<P>, batch: Batch) => Promise<Result<P>> }
export type AnyWriter = (op: Op, batch: Batch) => Promise<unknown>

export function stepWriters<K extends OpName>(writes: StepWrites<K>): Writers<K> {
  // Wraps each function by name, which the compiler cannot follow.
  const entries = Object.entries(writes) as [K, (op: never) => Steps<unknown>][]
  const around = entries.map(([name, steps]) => [name, (op: never, batch: Db) => runSteps(batch, steps(op))])
  return Object.fromEntries(around) as unknown as Writers<K>
}
