// Removing one run: its row, frames and feedback. Its messages stay in the thread.
import { ask, ownedBy, type StepWrites } from './steps.ts'

export const runRemoval: StepWrites<'run.remove'> = {
  *'run.remove'({ run_id, thread_id, user }) {
    const sql = `DELETE FROM runs WHERE run_id = $2 AND thread_id = $3 AND status NOT IN ('pending', 'running')
      AND ${ownedBy(1)} RETURNING key`
    const [row] = yield* ask<{ key: number }>(sql, user, run_id, thread_id)
    if (!row) return false
    yield* ask('DELETE FROM frames WHERE run_key = $1', row.key)
    yield* ask('DELETE FROM feedback WHERE run_id = $1', run_id)
    return true
  }
}
