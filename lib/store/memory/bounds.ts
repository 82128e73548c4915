// Memory limits of an in-memory database: above them the frames of ended runs go first, and the least recently written threads.
import type Database from 'better-sqlite3'
import type { Group, Op, Outcome } from '../store.ts'
import { sizeOf } from './open.ts'

/**
 * Limit for all frames, in bytes. Frames grow fastest in a long-lived process, and those of an ended run only serve late joiners, who
 * otherwise get a gap and the final values. 64 MiB is some hundred long answers, and little beside Node's own memory.
 */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024
/** Limit for threads with everything that belongs to them except frames, in bytes: some ten thousand long conversations. */
export const BYTES_MAX = 256 * 1024 * 1024

export class FrameBound {
  readonly #max: number
  /** Runs in the order they ended, and their threads: with a thread its runs are forgotten. */
  readonly #ended = new Map<string, string>()
  readonly #byThread = new Map<string, Set<string>>()
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
      this.#drop(runId)
    }
  }
}

export class ThreadBound {
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
export function* writtenOps(groups: readonly Group[], outcomes: readonly Outcome[]): Iterable<Op> {
  for (const [at, { ops }] of groups.entries()) {
    const outcome = outcomes[at]!
    if (!outcome.ok) continue
    for (const [n, op] of ops.entries()) if (!isRefused(outcome.results[n])) yield op
  }
}

/** Refusals are results too: of a run that may not be made, a thread that exists or is somebody else's, a run that has ended already. */
function isRefused(result: unknown): boolean {
  if (typeof result !== 'object' || result === null) return result === false
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
    case 'graph.write':
    case 'graph.update':
      return op.thread_id
    default:
      return null
  }
}
