// What a database in memory may take: when it is too much, frames of ended runs go, and threads that were not written for longest.
import type Database from 'better-sqlite3'
import type { Group, Op, Outcome } from '../store.ts'
import { sizeOf } from './rows.ts'

/**
 * Bytes of frames that are kept in all. Frames are what grows fastest in a process that runs for months, and of an ended run
 * they only serve a late joiner, who is otherwise told of the gap and gets the final values. 64 MiB is some hundred long
 * answers, and little beside what node takes for itself.
 */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024
/** Bytes of threads with everything that belongs to them, beside their frames. Some ten thousand long conversations. */
export const BYTES_MAX = 256 * 1024 * 1024

export class FrameBound {
  readonly #max: number
  /** Ids of runs in the order in which they ended. */
  readonly #ended = new Set<string>()
  readonly #remove: Database.Statement<[string], { bytes: number }>
  readonly #count: Database.Statement<[], number>
  #bytes = 0

  constructor(db: Database.Database, max: number) {
    this.#max = max
    this.#remove = db.prepare(`DELETE FROM frames WHERE run_key = (SELECT key FROM runs WHERE run_id = ?)
      RETURNING length(idx) + length(data) AS bytes`)
    this.#count = db.prepare<[], number>('SELECT coalesce(sum(length(idx) + length(data)), 0) FROM frames').pluck()
  }

  written(op: Op): void {
    if (op.name === 'frames.append') this.#bytes += op.segment.index.length + op.segment.data.length
    else if (op.name === 'run.settle') this.#ended.add(op.run_id)
    else if (op.name === 'thread.remove' || op.name === 'run.remove' || op.name === 'frames.sweep')
      this.#bytes = this.#count.get() ?? 0
  }

  /** Frames of a run in flight always stay. */
  keep(): void {
    for (const runId of this.#ended) {
      if (this.#bytes <= this.#max) return
      for (const { bytes } of this.#remove.all(runId)) this.#bytes -= bytes
      this.#ended.delete(runId)
    }
  }
}

export class ThreadBound {
  readonly #max: number
  readonly #isIdle: Database.Statement<[string]>
  /** Bytes by thread, about, in the order in which they were written last. */
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
    const bytes = sizeOf(op)
    const before = this.#byThread.get(threadId) ?? 0
    this.#byThread.delete(threadId)
    this.#byThread.set(threadId, before + bytes)
    this.#bytes += bytes
  }

  #forget(threadId: string): void {
    this.#bytes -= this.#byThread.get(threadId) ?? 0
    this.#byThread.delete(threadId)
  }

  /** Threads that go until the rest fits; the last one written stays, and those with runs in flight. `remove` tells of it here too. */
  keep(remove: (threadId: string) => void): void {
    if (this.#bytes <= this.#max) return
    for (const threadId of [...this.#byThread.keys()].slice(0, -1)) {
      if (this.#bytes <= this.#max) return
      if (this.#isIdle.get(threadId)) remove(threadId)
    }
  }
}

/** Ops that were written, one by one. */
export function* writtenOps(groups: readonly Group[], outcomes: readonly Outcome[]): Iterable<Op> {
  for (const [at, { ops }] of groups.entries()) if (outcomes[at]!.ok) yield* ops
}

/** The thread that an op adds something to; null: none, or next to nothing. Frames have a bound of their own. */
function threadOf(op: Op): string | null {
  switch (op.name) {
    case 'thread.create':
      return op.thread.thread_id
    case 'run.create':
      return op.run.thread_id
    case 'events.append':
    case 'checkpoint.put':
    case 'state.update':
    case 'graph.put':
    case 'graph.write':
      return op.thread_id
    default:
      return null
  }
}
