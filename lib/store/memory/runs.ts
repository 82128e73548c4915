// Runs in memory.
import { isVisible } from '../../scope.ts'
import { type Run, type Timestamp, isInFlight } from '../../types.ts'
import { Refused } from '../refused.ts'
import type { Admission, NewRun, OpOf, RunReads, TokenUsage } from '../store.ts'
import { type ThreadOwned, copyOf, type Noun } from './rows.ts'
import type { ThreadRows } from './threads.ts'
import type { Undo } from './undo.ts'

/** Runs of one thread. */
interface ThreadRuns {
  /** Ids by ordinal, which counts from 1. */
  readonly ids: string[]
  /** Those that are not terminal: few, whatever the thread's length. */
  readonly inFlight: Map<string, Run>
}

/** One namespace of keys a user; the runs of nobody share one. */
function keyOf({ user_id, idempotency_key }: Pick<NewRun, 'user_id' | 'idempotency_key'>): string | null {
  return idempotency_key === null ? null : JSON.stringify([user_id, idempotency_key])
}

/** The rows of runs with the indexes that reads and admission need. */
export class RunRows implements ThreadOwned {
  readonly #byId = new Map<string, Run>()
  readonly #byThread = new Map<string, ThreadRuns>()
  readonly #idByIdempotency = new Map<string, string>()
  readonly #threadByKey = new Map<number, string>()
  /** Never given twice, not even when a group is taken back: frames of a removed run must not show up under a later one. */
  #nextKey = 1

  get(runId: string): Run | undefined {
    return this.#byId.get(runId)
  }

  /** Which thread a run key belongs to. */
  threadOf(key: number): string | undefined {
    return this.#threadByKey.get(key)
  }

  /** Whether the run was last touched before `time`. */
  isOlderThan(key: number, time: Timestamp): boolean {
    for (const run of this.newestFirst(this.threadOf(key) ?? '')) if (run.key === key) return run.updated_at < time
    return true
  }

  count(threadId: string): number {
    return this.#byThread.get(threadId)?.ids.length ?? 0
  }

  *newestFirst(threadId: string): Iterable<Run> {
    const ids = this.#byThread.get(threadId)?.ids ?? []
    for (let index = ids.length - 1; index >= 0; index--) {
      const run = this.#byId.get(ids[index]!)
      // One that was removed has left its place, so that no other is given its ordinal.
      if (run) yield run
    }
  }

  /** Oldest first. */
  inFlight(threadId: string): Run[] {
    const runs = this.#byThread.get(threadId)?.inFlight.values() ?? []
    return [...runs].sort((left, right) => left.ordinal - right.ordinal)
  }

  /** Of all threads, oldest first. */
  unfinished(): Run[] {
    const runs = [...this.#byThread.values()].flatMap((one) => [...one.inFlight.values()])
    return runs.sort((left, right) => left.key - right.key)
  }

  /** The run that an idempotency key has made. */
  byIdempotency(run: Pick<NewRun, 'user_id' | 'idempotency_key'>): Run | undefined {
    const key = keyOf(run)
    const runId = key === null ? undefined : this.#idByIdempotency.get(key)
    return runId === undefined ? undefined : this.#byId.get(runId)
  }

  add(given: NewRun, undo: Undo): Run {
    if (this.#byId.has(given.run_id)) throw new Refused(`run ${given.run_id} exists already`)
    let thread = this.#byThread.get(given.thread_id)
    if (!thread) {
      thread = { ids: [], inFlight: new Map() }
      undo.set(this.#byThread, given.thread_id, thread)
    }
    undo.push(thread.ids, given.run_id)
    const run: Run = { ...given, key: this.#nextKey++, ordinal: thread.ids.length }
    undo.set(this.#threadByKey, run.key, run.thread_id)
    const key = keyOf(run)
    if (key !== null) undo.set(this.#idByIdempotency, key, run.run_id)
    this.replace(run, undo)
    return run
  }

  /**
   * Writes a row, new or changed.
   * @throws Refused when it would be the second running one of its thread [Store 6].
   */
  replace(run: Run, undo: Undo): void {
    const { inFlight } = this.#byThread.get(run.thread_id)!
    const running = [...inFlight.values()].find(({ status }) => status === 'running')
    if (run.status === 'running' && running && running.run_id !== run.run_id) {
      throw new Refused(`run ${running.run_id} of thread ${run.thread_id} is running already`)
    }
    undo.set(this.#byId, run.run_id, run)
    if (isInFlight(run)) undo.set(inFlight, run.run_id, run)
    else undo.delete(inFlight, run.run_id)
  }

  remove(run: Run, undo: Undo): void {
    undo.delete(this.#byId, run.run_id)
    undo.delete(this.#threadByKey, run.key)
    const key = keyOf(run)
    if (key !== null) undo.delete(this.#idByIdempotency, key)
  }

  forget(threadId: string, undo: Undo): void {
    for (const run of this.newestFirst(threadId)) this.remove(run, undo)
    undo.delete(this.#byThread, threadId)
  }
}

/** Sums over finished runs, however they ended: what was asked for has to be paid. */
function usageOf(runs: readonly Run[]): TokenUsage {
  const sum = (pick: (run: Run) => number) => runs.reduce((total, run) => total + pick(run), 0)
  const byModel = new Map<string, { tokens: number; runs: number }>()
  for (const run of runs) {
    const model = run.model_name ?? 'unknown'
    const before = byModel.get(model) ?? { tokens: 0, runs: 0 }
    byModel.set(model, { tokens: before.tokens + run.total_tokens, runs: before.runs + 1 })
  }
  return {
    total_tokens: sum((run) => run.total_tokens),
    total_input_tokens: sum((run) => run.total_input_tokens),
    total_output_tokens: sum((run) => run.total_output_tokens),
    total_runs: runs.length,
    by_model: Object.fromEntries(byModel),
    by_caller: {
      lead_agent: sum((run) => run.lead_agent_tokens),
      subagent: sum((run) => run.subagent_tokens),
      middleware: sum((run) => run.middleware_tokens)
    }
  }
}

function runReads(rows: RunRows): RunReads {
  return {
    async get(runId, owner) {
      const run = rows.get(runId)
      return run && isVisible(run, owner) ? copyOf(run) : null
    },
    async byKey(key, userId) {
      return copyOf(rows.byIdempotency({ user_id: userId, idempotency_key: key }) ?? null)
    },
    async list(threadId, { limit, offset, status }, owner) {
      const page: Run[] = []
      let skipped = 0
      for (const run of rows.newestFirst(threadId)) {
        if (page.length >= limit) break
        if (!isVisible(run, owner) || (status !== undefined && run.status !== status)) continue
        if (skipped++ < offset) continue
        page.push(run)
      }
      return copyOf(page)
    },
    async after(threadId, ordinal, owner) {
      let found: Run | null = null
      for (const run of rows.newestFirst(threadId)) {
        if (run.ordinal <= ordinal) break
        if (isVisible(run, owner)) found = run
      }
      return copyOf(found)
    },
    async inFlight(threadId) {
      return copyOf(rows.inFlight(threadId))
    },
    async unfinished() {
      return copyOf(rows.unfinished())
    },
    async tokens(threadId, owner) {
      const finished = [...rows.newestFirst(threadId)].filter((run) => isVisible(run, owner) && !isInFlight(run))
      return usageOf(finished)
    }
  }
}

export function memoryRuns(
  rows: RunRows,
  threads: ThreadRows,
  frames: { ended(runKey: number): void; drop(runKey: number, undo: Undo): void },
  feedback: { forgetRun(threadId: string, runId: string, undo: Undo): void }
): Noun<RunReads, 'run.create' | 'run.start' | 'run.settle' | 'run.remove'> {
  const newestSuccess = ({ thread_id, user_id }: NewRun): string | null => {
    for (const run of rows.newestFirst(thread_id))
      if (run.status === 'success' && isVisible(run, user_id)) return run.run_id
    return null
  }

  /** Whose key came before is answered before anything else: the run may well be what is in flight now. */
  const admit = ({ run, autoFollowUp }: OpOf<'run.create'>, undo: Undo): Admission => {
    const earlier = rows.byIdempotency(run)
    if (earlier) {
      const isSame = earlier.idempotency_hash === run.idempotency_hash
      return isSame ? { outcome: 'repeated', run: earlier } : { outcome: 'key_reused' }
    }
    if (!threads.get(run.thread_id)) return { outcome: 'thread_missing' }
    const inFlight = rows.inFlight(run.thread_id).map(({ run_id }) => run_id)
    if (inFlight.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
    const followUp = autoFollowUp ? newestSuccess(run) : run.follow_up_to_run_id
    return { outcome: 'created', run: rows.add({ ...run, follow_up_to_run_id: followUp }, undo), inFlight }
  }

  const settled = (before: Run, settlement: OpOf<'run.settle'>): Run => {
    const { name: _, thread_status: __, title: ___, now, ...told } = settlement
    return {
      ...before,
      ...told,
      model_name: told.model_name ?? before.model_name,
      first_human_message: told.first_human_message ?? before.first_human_message,
      last_ai_message: told.last_ai_message ?? before.last_ai_message,
      updated_at: now
    }
  }

  return {
    reads: runReads(rows),
    writes: {
      'run.create': admit,
      'run.start': ({ run_id, thread_id, now }, undo) => {
        const thread = threads.require(thread_id)
        const run = rows.get(run_id)
        if (run?.thread_id !== thread_id || run.status !== 'pending') return false
        rows.replace({ ...run, status: 'running', updated_at: now }, undo)
        threads.set({ ...thread, status: 'running', updated_at: now }, undo)
        return true
      },
      'run.settle': (settlement, undo) => {
        const { thread_id, now } = settlement
        const thread = threads.require(thread_id)
        const run = rows.get(settlement.run_id)
        // A terminal status is never overwritten [Store 7].
        if (run?.thread_id !== thread_id || !isInFlight(run)) return false
        rows.replace(settled(run, settlement), undo)
        const status = settlement.thread_status ?? thread.status
        const display_name = settlement.title || thread.display_name
        threads.set({ ...thread, status, display_name, updated_at: now }, undo)
        undo.whenKept(() => frames.ended(run.key))
        return true
      },
      'run.remove': (op, undo) => {
        const run = rows.get(op.run_id)
        if (run?.thread_id !== op.thread_id || isInFlight(run) || !isVisible(run, op.user)) return false
        frames.drop(run.key, undo)
        feedback.forgetRun(op.thread_id, op.run_id, undo)
        rows.remove(run, undo)
        return true
      }
    }
  }
}
