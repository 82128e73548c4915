// A batch under way: one transaction, what it knows of the threads it writes to, and the rows that wait to be written together.
//
// Its threads are locked first, in the order of their ids, so that two processes cannot wait for each other. From then on nobody
// else writes to them: the counters read with the lock are counted on here, and rows of frames and events, which are nearly all of a
// batch, go out as one statement for all runs, at the end or before an op of the batch that would look at them.
import { Refused } from '../refused.ts'
import type { NewEventRow } from '../sql/events.ts'
import type { Op } from '../store.ts'
import { type Counter, insertEvents, insertFrames, moveCounters, type RunSegment } from './bulk.ts'
import type { PgConnection } from './pg-connection.ts'
import type { Db, Param } from './db.ts'
import { numbers, texts } from './text.ts'

/** A thread that is there, as this batch leaves it. */
export interface ThreadState {
  /** seq of the next event [Store 5]. */
  nextSeq: number
  /** The same in the row. */
  storedSeq: number
  /** Last k by run, for the runs that this batch appends to. */
  readonly lastK: Map<string, number>
  /** Of the runs that this batch appends frames to, those that there are. */
  readonly runKeys: Set<number>
}

/** Bytes in one statement, about: the server takes a gigabyte at most, and holds several copies of it. */
const STATEMENT_BYTES = 8 * 1024 * 1024

/** The thread that an op writes to; null: it writes to none, or to whichever its rows are of. */
export function threadOf(op: Op): string | null {
  if (op.name === 'thread.create') return op.thread.thread_id
  if (op.name === 'run.create') return op.run.thread_id
  if (op.name === 'feedback.upsert') return op.feedback.thread_id
  return 'thread_id' in op ? op.thread_id : null
}

/** The threads of these ops, each once. */
export function threadsOf(ops: readonly Op[]): string[] {
  return [...new Set(ops.flatMap((op) => threadOf(op) ?? []))]
}

/** Locks the threads that there are and answers their counters. */
export async function lockThreads(db: Db, threadIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  if (threadIds.length === 0) return new Map()
  const sql =
    'SELECT thread_id, next_seq FROM threads_meta WHERE thread_id = ANY($1::text[]) ORDER BY thread_id FOR UPDATE'
  const rows = await db.rows<{ thread_id: string; next_seq: number }>(sql, [texts(threadIds)])
  return new Map(rows.map(({ thread_id, next_seq }) => [thread_id, next_seq]))
}

export class Batch implements Db {
  /** The process that writes: the owner of the runs that it admits. */
  readonly writerId: string
  readonly #connection: PgConnection
  readonly #ops: readonly Op[]
  readonly #threads = new Map<string, ThreadState>()
  #events: NewEventRow[] = []
  #frames: RunSegment[] = []

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

  /** Locks these threads and reads what the ops of the batch want to know of them. Nothing of them may be waiting. */
  async load(threadIds: readonly string[]): Promise<void> {
    const ids = new Set(threadIds)
    const ops = this.#ops.filter((op) => ids.has(threadOf(op) ?? ''))
    const runIds = new Map(ops.flatMap((op) => (op.name === 'events.append' ? [[op.run_id, op.thread_id]] : [])))
    const runKeys = new Set(ops.flatMap((op) => (op.name === 'frames.append' ? [op.run_key] : [])))
    const [counters, lasts, runs] = await Promise.all([
      lockThreads(this, threadIds),
      this.#lastKs([...runIds.keys()]),
      this.#runsOf([...runKeys])
    ])
    for (const id of ids) this.#threads.delete(id)
    for (const [id, nextSeq] of counters) this.keep(id, nextSeq)
    for (const { run_id, k } of lasts) this.#threads.get(runIds.get(run_id) ?? '')?.lastK.set(run_id, k)
    for (const { key, thread_id } of runs) this.#threads.get(thread_id)?.runKeys.add(key)
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
    this.#threads.set(threadId, { nextSeq, storedSeq: nextSeq, lastK: new Map(), runKeys: new Set() })
  }

  /** What is known of a thread; undefined: there is no such thread. */
  thread(threadId: string): ThreadState | undefined {
    return this.#threads.get(threadId)
  }

  /** @throws Refused when there is no such thread [Store 8] */
  needs(threadId: string): ThreadState {
    const state = this.#threads.get(threadId)
    if (!state) throw new Refused(`thread ${threadId} is gone`)
    return state
  }

  /** A thread was made by this batch. */
  created(threadId: string): void {
    this.keep(threadId, 1)
  }

  /** A thread was removed by this batch. */
  removed(threadId: string): void {
    this.#threads.delete(threadId)
  }

  addEvent(row: NewEventRow): void {
    this.#events.push(row)
  }

  addFrames(segment: RunSegment): void {
    this.#frames.push(segment)
  }

  /** Sends what waits. Later statements of the connection see it, whether or not they wait for the answer. */
  async flush(): Promise<void> {
    const frames = this.#frames.splice(0)
    const events = this.#events.splice(0)
    const counters = this.#moved()
    const [some, ...more] = chunks(events, ({ content }) => content.length)
    await Promise.all([
      ...chunks(frames, ({ segment }) => segment.data.length).map((few) => insertFrames(this, few)),
      some ? insertEvents(this, some, counters) : counters.length > 0 && moveCounters(this, counters),
      ...more.map((few) => insertEvents(this, few, []))
    ])
  }

  /** Counters that are not in their rows yet. Asked once: then they are. */
  #moved(): Counter[] {
    const counters: Counter[] = []
    for (const [thread_id, state] of this.#threads) {
      if (state.nextSeq === state.storedSeq) continue
      state.storedSeq = state.nextSeq
      counters.push({ thread_id, next_seq: state.nextSeq })
    }
    return counters
  }
}

/** The items in their order, cut where STATEMENT_BYTES are together. */
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
