// Where a graph stood when our state was as it is: kept in every checkpoint of ours, so that a run that goes on from one, be it an
// old one, goes on from the graph's own checkpoint as well.
import { type Json, isObject } from '../../types.ts'
import { textOr } from '../json.ts'

/** The channel it is kept in: one that clients are not shown. */
export const REF_CHANNEL = '__pregel_graph'

export interface GraphCheckpointRef {
  /**
   * Its name for the thread; null: it has not been told of it. Who has our state has the name, and nobody else: a thread that is
   * deleted and made again, by whomever, is another one to the graph [Auth 13].
   */
  readonly threadId: string | null
  /** The graph's checkpoint; null: it had none. */
  readonly checkpointId: string | null
  /** The graph's run that has come here from that checkpoint, when it does not tell which checkpoints it makes. */
  readonly runId: string | null
}

const NO_REF: GraphCheckpointRef = { threadId: null, checkpointId: null, runId: null }

export function readRef(channel: Json | undefined): GraphCheckpointRef {
  if (!isObject(channel)) return NO_REF
  const { thread_id, checkpoint_id, run_id } = channel
  return {
    threadId: textOr(thread_id),
    checkpointId: textOr(checkpoint_id),
    runId: textOr(run_id)
  }
}

export function refJson({ threadId, checkpointId, runId }: GraphCheckpointRef): Json {
  return { thread_id: threadId, checkpoint_id: checkpointId, run_id: runId }
}
