// The in-memory store: a SQLite `:memory:` database in this thread, gone with the process.
import { connect } from '../sqlite/connection.ts'
import { writerGroup } from '../sqlite/batch-codec.ts'
import { opWriters } from '../sqlite/ops.ts'
import { readsOf } from '../sqlite/open.ts'
import type { Reader } from '../sqlite/reader.ts'
import { Remover } from '../sqlite/removal.ts'
import { migrate } from '../sqlite/schema.ts'
import { batchWriter } from '../sqlite/worker.ts'
import { Refused } from '../refused.ts'
import type { Group, Outcome, Store } from '../store.ts'
import { BYTES_MAX, FRAME_BYTES_MAX, FrameBound, ThreadBound, writtenOps } from './bounds.ts'

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
