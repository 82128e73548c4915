// The in-memory store: a SQLite `:memory:` database in this thread, gone with the process.
import { connect } from '../sqlite/connection.ts'
import { writerGroup } from '../sqlite/batch-codec.ts'
import { opWriters } from '../sqlite/ops.ts'
import { readsOf } from '../sqlite/open.ts'
import type { Reader } from '../sqlite/reader.ts'
import { Remover } from '../sqlite/removal.ts'
import { migrate } from '../sqlite/schema.ts'
import { batchWriter } from '../sqlite/worker.ts'
import { Refused } from '../ports/ops.ts'
import type { Group, Outcome, Store } from '../store.ts'
import { BYTES_MAX, FRAME_BYTES_MAX, FrameBound, ThreadBound, writtenOps } from './bounds.ts'

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
    search.written(groups)
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
