// A snapshot: the state of a run as one frame. It holds the thread state and the messages in progress at its position,
// so that a new reader needs only what follows, however long the run is [needs N22, N23].
import type { JsonObject, Run } from '../../base/types.ts'
import { rowBounds, cursorText, frameText } from './frame.ts'
import type { RunLog } from './run-log.ts'

export interface Snapshot {
  readonly bytes: Buffer
  /** n of the first frame that it does not contain. */
  readonly next: number
  /** Messages in progress, each as one chunk with everything so far. */
  readonly partial: readonly JsonObject[]
}

/** What is known at a position of a run's log. */
interface SnapshotData {
  /** JSON of the state; null: the run has left none (it was cancelled before its turn came). */
  readonly values: string | null
  readonly partial: readonly JsonObject[]
  /** Position of the last frame. */
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

/** The snapshot of a finished run: with the state it left. Null: it has no frames, so no position. */
export async function finalSnapshot(log: RunLog): Promise<Snapshot | null> {
  const { last_cursor, final_checkpoint_id: id } = log.run
  if (last_cursor === null) return null
  const values = id === null ? null : await log.valuesStored(id)
  const { epochs, head } = rowBounds(log.run)
  return snapshotOf(log.run, { values, partial: [], epoch: epochs[0]!.epoch, n: head - 1 })
}
