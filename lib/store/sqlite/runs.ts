// Admitting, starting and settling runs in SQLite.
import { UNPLACED } from '../../base/types.ts'
import {
  IN_FLIGHT,
  insertRun,
  LATEST_SUCCESS,
  repeated,
  SETTLE_RUN,
  SETTLE_THREAD,
  settledOf,
  startRun
} from '../sql/runs.ts'
import { putJob } from '../sql/jobs.ts'
import { ask, askOne, type Steps, type StepWrites } from '../sql/steps.ts'
import { hasThread, needsThread } from '../sql/threads.ts'

const START_RUN = startRun()

function* nextOrdinal(threadId: string): Steps<number> {
  const counted = yield* askOne<{ ordinal: number }>(
    'UPDATE threads_meta SET next_ordinal = next_ordinal + 1 WHERE thread_id = $1 RETURNING next_ordinal - 1 AS ordinal',
    threadId
  )
  return counted!.ordinal
}

export const runWrites: StepWrites<'run.create' | 'run.start' | 'run.settle'> = {
  *'run.create'({ run, autoFollowUp, isLater }) {
    const { thread_id, user_id } = run
    const earlier = yield* repeated(run)
    if (earlier) return earlier
    if (!(yield* hasThread(thread_id))) return { outcome: 'thread_missing' }
    const inFlight = `SELECT run_id FROM runs WHERE thread_id = $1 AND ${IN_FLIGHT} ORDER BY +ordinal`
    const before = (yield* ask<{ run_id: string }>(inFlight, thread_id)).map(({ run_id }) => run_id)
    if (before.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
    const followUp = autoFollowUp
      ? ((yield* askOne<{ run_id: string }>(LATEST_SUCCESS, user_id, thread_id))?.run_id ?? null)
      : run.follow_up_to_run_id
    const ordinal = (yield* nextOrdinal(thread_id)) + (isLater ? UNPLACED : 0)
    const attempts = before.length === 0 && !isLater ? 1 : 0
    const admitted = { ...run, ordinal, attempts, follow_up_to_run_id: followUp }
    const { sql, params } = insertRun(admitted)
    const made = yield* askOne<{ key: number }>(`${sql} RETURNING key`, ...params)
    return { outcome: 'created', run: { ...admitted, key: made!.key }, inFlight: before }
  },

  *'run.start'({ run_id, thread_id, now, attempt, isLater }) {
    yield* needsThread(thread_id)
    if ((yield* ask(START_RUN, run_id, now, attempt)).length === 0) return false
    if (isLater) yield* ask('UPDATE runs SET ordinal = $2 WHERE run_id = $1', run_id, yield* nextOrdinal(thread_id))
    yield* ask("UPDATE threads_meta SET status = 'running', updated_at = $2 WHERE thread_id = $1", thread_id, now)
    return true
  },

  *'run.settle'(end) {
    yield* needsThread(end.thread_id)
    const settled = settledOf(end)
    if ((yield* ask(SETTLE_RUN, ...settled)).length === 0) return false
    yield* ask(SETTLE_THREAD, ...settled)
    for (const job of end.jobs ?? []) yield* putJob(job)
    return true
  }
}
