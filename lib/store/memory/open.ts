// The in-memory store: a SQLite `:memory:` database in this thread, gone with the process.
import type Database from 'better-sqlite3'
import { connect } from '../sqlite/connection.ts'
import { writerGroup } from '../sqlite/batch-codec.ts'
import { opWriters } from '../sqlite/ops.ts'
import { readsOf } from '../sqlite/open.ts'
import { SEARCHED } from '../sqlite/search.ts'
import type { Reader } from '../sqlite/reader.ts'
import { Remover } from '../sqlite/removal.ts'
import { migrate } from '../sqlite/schema.ts'
import { batchWriter } from '../sqlite/worker.ts'
import { Refused } from '../ports/ops.ts'
import { runBodiesRemoval } from '../sql/removal.ts'
import type { Group, Op, Outcome, Store } from '../store.ts'

// ----------------------------------------------------------------------------------------------------
// Memory limits of an in-memory database: above them the frames of ended runs go first, and the least recently written threads.

/**
 * Limit for all frames, in bytes. Frames grow fastest in a long-lived process, and those of an ended run only serve late joiners, who
 * otherwise get a gap and the final values. 64 MiB is some hundred long answers, and little beside Node's own memory.
 */
const FRAME_BYTES_MAX = 64 * 1024 * 1024
/** Limit for threads with everything that belongs to them except frames, in bytes: some ten thousand long conversations. */
const BYTES_MAX = 256 * 1024 * 1024

export class FrameBound {
  readonly #max: number
  /** Runs in the order they ended, and their threads: with a thread its runs are forgotten. */
  readonly #ended = new Map<string, string>()
  readonly #byThread = new Map<string, Set<string>>()
  readonly #remove: Database.Statement<[string], { bytes: number }>
  readonly #removeBodies: Database.Statement<[string]>
  readonly #count: Database.Statement<[], number>
  #bytes = 0

  constructor(db: Database.Database, max: number) {
    this.#max = max
    this.#removeBodies = db.prepare(runBodiesRemoval('run_id = ?'))
    this.#remove = db.prepare(`DELETE FROM frames WHERE run_key = (SELECT key FROM runs WHERE run_id = ?)
      RETURNING length(idx) + length(data) AS bytes`)
    this.#count = db.prepare<[], number>('SELECT coalesce(sum(length(idx) + length(data)), 0) FROM frames').pluck()
  }

  written(op: Op): void {
    if (op.name === 'frames.append') this.#bytes += op.segment.index.length + op.segment.data.length
    else if (op.name === 'run.settle') this.#add(op.run_id, op.thread_id)
    else if (op.name === 'run.remove') this.#drop(op.run_id)
    else if (op.name === 'thread.remove') for (const runId of this.#byThread.get(op.thread_id) ?? []) this.#drop(runId)
    if (op.name === 'thread.remove' || op.name === 'run.remove' || op.name === 'frames.sweep')
      this.#bytes = this.#count.get() ?? 0
  }

  #add(runId: string, threadId: string): void {
    this.#ended.set(runId, threadId)
    const runs = this.#byThread.get(threadId)
    if (runs) runs.add(runId)
    else this.#byThread.set(threadId, new Set([runId]))
  }

  #drop(runId: string): void {
    const threadId = this.#ended.get(runId)
    if (threadId === undefined) return
    this.#ended.delete(runId)
    const runs = this.#byThread.get(threadId)!
    runs.delete(runId)
    if (runs.size === 0) this.#byThread.delete(threadId)
  }

  /** Frames of runs in flight always stay. */
  keep(): void {
    for (const runId of this.#ended.keys()) {
      if (this.#bytes <= this.#max) return
      for (const { bytes } of this.#remove.all(runId)) this.#bytes -= bytes
      this.#removeBodies.run(runId)
      this.#drop(runId)
    }
  }
}

class ThreadBound {
  readonly #max: number
  readonly #isIdle: Database.Statement<[string]>
  /** Estimated bytes by thread, least recently written first. */
  readonly #byThread = new Map<string, number>()
  #bytes = 0

  constructor(db: Database.Database, max: number) {
    this.#max = max
    this.#isIdle = db.prepare(`SELECT 1 WHERE NOT EXISTS
      (SELECT 1 FROM runs WHERE thread_id = ? AND status IN ('pending', 'running'))`)
  }

  written(op: Op): void {
    if (op.name === 'thread.remove') return this.#forget(op.thread_id)
    const threadId = threadOf(op)
    if (threadId === null) return
    const bytes = sizeOf(op) + (op.name === 'state.copy' ? (this.#byThread.get(op.from) ?? 0) : 0)
    const before = this.#byThread.get(threadId) ?? 0
    this.#byThread.delete(threadId)
    this.#byThread.set(threadId, before + bytes)
    this.#bytes += bytes
  }

  #forget(threadId: string): void {
    this.#bytes -= this.#byThread.get(threadId) ?? 0
    this.#byThread.delete(threadId)
  }

  /** Removes threads until the rest fits, but never the one written last or one with runs in flight. `remove` reports back here too. */
  keep(remove: (threadId: string) => void): void {
    if (this.#bytes <= this.#max) return
    for (const threadId of [...this.#byThread.keys()].slice(0, -1)) {
      if (this.#bytes <= this.#max) return
      if (this.#isIdle.get(threadId)) remove(threadId)
    }
  }
}

/** Ops that have changed the database. */
function* writtenOps(groups: readonly Group[], outcomes: readonly Outcome[]): Iterable<Op> {
  for (const [at, { ops }] of groups.entries()) {
    const outcome = outcomes[at]!
    if (!outcome.ok) continue
    for (const [n, op] of ops.entries()) if (!isRefused(outcome.results[n])) yield op
  }
}

/** Refusals are results too: of a run that may not be made, a thread that exists or is somebody else's, a run that has ended already. */
function isRefused(result: unknown): boolean {
  if (typeof result !== 'object' || result === null) return result === false || result === 'too_many'
  if ('created' in result) return result.created !== true
  return 'outcome' in result && result.outcome !== 'created' && result.outcome !== 'written'
}

/** The thread an op adds data to; null: none, or next to none. Frames have a limit of their own. */
function threadOf(op: Op): string | null {
  switch (op.name) {
    case 'thread.create':
      return op.thread.thread_id
    case 'run.create':
      return op.run.thread_id
    case 'events.append':
    case 'checkpoint.put':
    case 'state.update':
    case 'state.copy':
    case 'graph.put':
    case 'run.bodies':
    case 'graph.write':
    case 'graph.update':
    case 'search.put':
      return op.thread_id
    default:
      return null
  }
}

// ------------------------------------------------------------------- Plain data in memory: copying and measuring

/**
 * Copies plain data. Everything that enters or leaves is copied, so that a caller changing its object does not change
 * the store. By hand: structuredClone is slower, and would copy the whole slab behind a view.
 */
export function copyOf<T>(value: T): T {
  if (!isComposite(value)) return value
  if (Array.isArray(value)) return value.map(copyOf) as T // same elements, same type
  if (value instanceof Uint8Array) return new Uint8Array(value) as T // a Buffer becomes what the interface promises
  // A spread defines members rather than assigning them, so a key named __proto__ stays a key.
  const copy = { ...value } as Record<string, unknown> // plain data
  for (const key in copy) {
    const member = copy[key]
    if (isComposite(member)) copy[key] = copyOf(member)
  }
  return copy as T // same members, same type
}

function isComposite(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Estimated memory of plain data, in bytes: strings by length, everything else a fixed cost per value. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length
  if (value === null || typeof value !== 'object') return 8
  if (value instanceof Uint8Array) return 64 + value.length
  let bytes = 32
  for (const member of Object.values(value)) bytes += 16 + sizeOf(member)
  return bytes
}

interface MemoryOptions {
  /** Keeps feedback too. Default false: the service has feedback with a SQL database only, else answers 503 [Errors]. */
  readonly feedback?: boolean
  /** Limit for frames in bytes; the earliest ended runs lose theirs first. Default FRAME_BYTES_MAX. */
  readonly frameBytesMax?: number
  /** Limit for everything else in bytes, about; above it the least recently written idle thread is removed. Default BYTES_MAX. */
  readonly bytesMax?: number
  /** A thread was evicted. */
  readonly onForget?: (threadId: string) => void
}

/** An empty database, made once: every store starts as a copy of it. */
let empty: Buffer | null = null

function emptyDatabase(): Buffer {
  if (empty) return empty
  const db = connect(':memory:')
  migrate(db)
  empty = db.serialize()
  db.close()
  return empty
}

const noFeedback = (): never => {
  throw new Refused('feedback needs a SQL database')
}
const NO_FEEDBACK = {
  'feedback.upsert': noFeedback,
  'feedback.remove': noFeedback,
  'feedback.removeById': noFeedback
}

/** Opens an empty store. Never fails, and `apply` never has to wait. */
export function openMemoryStore({
  feedback: keepsFeedback = false,
  frameBytesMax = FRAME_BYTES_MAX,
  bytesMax = BYTES_MAX,
  onForget = () => {}
}: MemoryOptions = {}): Store {
  const db = connect(emptyDatabase())
  const reader: Reader = {
    // Rows are shaped by the SQL in the call.
    rows: async <Row>(sql: string, params: object) => db.prepare<object>(sql).all(params) as Row[]
  }
  const { reads, search } = readsOf(db, reader)
  const write = batchWriter(db, {
    ...opWriters(db),
    // Compressing would block the event loop, for data that goes with the process.
    'frames.compact': () => ({ next: null }),
    ...(!keepsFeedback && NO_FEEDBACK)
  })
  const remover = new Remover(db)
  const frames = new FrameBound(db, frameBytesMax)
  const threads = new ThreadBound(db, bytesMax)

  const apply = (groups: readonly Group[]): Outcome[] => {
    const outcomes = write(groups.map(writerGroup))
    for (const op of writtenOps(groups, outcomes)) {
      frames.written(op)
      threads.written(op)
      if (op.name === 'thread.remove') remover.wake()
    }
    for (const { ops } of groups) for (const { name } of ops) if (SEARCHED.has(name)) search.written(name)
    return outcomes
  }

  return {
    ...reads,
    feedback: keepsFeedback ? reads.feedback : null,
    async apply(groups) {
      const outcomes = apply(groups)
      frames.keep()
      // Better to lose the oldest conversation than the process.
      threads.keep((threadId) => {
        apply([{ ops: [{ name: 'thread.remove', thread_id: threadId, user: null }] }])
        onForget(threadId)
      })
      return outcomes
    },
    async close() {
      remover.stop()
      db.close()
    }
  }
}
