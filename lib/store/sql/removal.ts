// Removed threads: what they have left lies there, unseen, until it is gone, step by step.

/** Of the rows of any table of threads: their thread was not removed. Of frames, which know their run only, see `isRunPresent`. */
export const PRESENT = 'thread_id NOT IN (SELECT thread_id FROM removed_threads)'

/** That the thread of a run was not removed; `key` is its parameter. */
export function isRunPresent(key: string): string {
  return `NOT EXISTS (SELECT 1 FROM runs AS r JOIN removed_threads AS gone ON gone.thread_id = r.thread_id WHERE r.key = ${key})`
}

/** Rows of one step, by table: so many that a step is done in milliseconds, whatever they hold. */
export const STEP_ROWS = {
  frames: 200,
  run_events: 1000,
  checkpoint_bodies: 500,
  checkpoints: 500,
  graph_writes: 500,
  graph_values: 500,
  graph_checkpoints: 500,
  feedback: 1000,
  crons: 500,
  thread_ttls: 2,
  runs: 500
} as const

/** Run by run: how many are looked at in one step of the sweep, besides the frames that it removes. */
export const SWEPT_RUNS = 50
