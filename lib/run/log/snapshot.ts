// A snapshot: where a run stands, as one frame. It holds the state and the messages being written as of its position, so that who
// begins with it needs nothing of what came before, however long that was: only what follows [needs N22, N23].
import type { JsonObject, Run } from '../../types.ts'
import type { RunLog } from './run-log.ts'
import { cursorText, frameText } from './sse.ts'

export interface Snapshot {
  /** The frame. */
  readonly bytes: Buffer
  /** n of the first frame that it does not contain. */
  readonly next: number
  /** The messages being written, each as one chunk with all that was said of it. */
  readonly partial: readonly JsonObject[]
}

/** What is known at a position of a run's log. */
export interface SnapshotData {
  /** JSON of the state; null: the run has left none (it was cancelled before its turn came). */
  readonly values: string | null
  readonly partial: readonly JsonObject[]
  /** Of the frame that came last. */
  readonly epoch: number
  readonly n: number
}

/**
 * `event: snapshot`, data `{run_id, thread_id, values, partial}`. `partial` lists chunks as `messages` frames carry them: what such
 * frames add later continues them. The state is never cut.
 */
export function snapshotOf({ run_id, thread_id }: Run, { values, partial, epoch, n }: SnapshotData): Snapshot {
  const about = JSON.stringify({ run_id, thread_id }).slice(1, -1)
  const json = `{${about},"values":${values ?? 'null'},"partial":${JSON.stringify(partial)}}`
  return { bytes: Buffer.from(frameText('snapshot', json, cursorText(epoch, n))), next: n + 1, partial }
}

/** How a run that has ended stands: with the state that it has left. Null: it has no frames, and no position to stand at. */
export async function finalSnapshot(log: RunLog): Promise<Snapshot | null> {
  const { last_cursor, final_checkpoint_id: id } = log.run
  if (last_cursor === null) return null
  const values = id === null ? null : await log.valuesStored(id)
  const [epoch, n] = last_cursor.split('-').map(Number)
  // A cursor is two numbers: this process or one before it wrote it.
  return snapshotOf(log.run, { values, partial: [], epoch: epoch!, n: n! })
}
