// Removed threads: their data is hidden at once, and deleted step by step.
import { setTimeout } from 'node:timers/promises'
import { RUN_NAMESPACE } from '../../conversation/state.ts'

/** How long removals may take that somebody waits for, in ms. */
const REMOVED_MS_MAX = 5 * 60_000
const LOOK_MS = 50

/** Condition on rows with a thread_id: the thread was not removed. Frames only have a run key, see `isRunPresent`. */
export const PRESENT = 'thread_id NOT IN (SELECT thread_id FROM removed_threads)'

/** Resolves when nothing of removed threads is left. @throws Error when something is for too long */
export async function untilRemoved(isLeft: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + REMOVED_MS_MAX; await isLeft(); await setTimeout(LOOK_MS))
    if (Date.now() > end) throw new Error('what was removed is still being deleted')
}

export const ANY_REMOVED = 'SELECT 1 FROM removed_threads LIMIT 1'

/** Condition: the thread of a run was not removed; `key` is its parameter. */
export function isRunPresent(key: string): string {
  return `NOT EXISTS (SELECT 1 FROM runs AS r JOIN removed_threads AS gone ON gone.thread_id = r.thread_id WHERE r.key = ${key})`
}

/** Deletes the bodies that frames of these runs name, see `RunBodies`: they go with the frames. `runs`: a condition on their rows. */
export function runBodiesRemoval(runs: string): string {
  return `DELETE FROM graph_values WHERE (thread_id, ns) IN
    (SELECT thread_id, '${RUN_NAMESPACE}' || CAST(key AS text) FROM runs WHERE ${runs})`
}

/** Rows deleted per step, by table: few enough for a step to take milliseconds. */
export const STEP_ROWS = {
  frames: 200,
  run_events: 1000,
  checkpoint_bodies: 500,
  checkpoints: 500,
  graph_writes: 500,
  graph_values: 500,
  graph_checkpoints: 500,
  feedback: 1000,
  aliases: 1000,
  search_blocks: 200,
  search_queue: 10,
  crons: 500,
  runs: 500
} as const

/** Runs looked at in one step of the sweep, besides the frames it deletes. */
export const SWEPT_RUNS = 50
