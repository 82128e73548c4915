// The graph's own checkpoint that belongs to one of ours, stored in each of our checkpoints, so that a run that starts from
// any of them starts the graph from the matching one.
import { type Json, isObject } from '../../base/types.ts'
import { textOr } from '../../base/json.ts'

/** Its channel, which clients do not see. */
export const REF_CHANNEL = '__pregel_graph'

export interface GraphCheckpointRef {
  /**
   * The graph's id for the thread; null: it does not know the thread yet. The id is only stored in our state, so a thread
   * that is deleted and recreated is a different one to the graph [Auth 13].
   */
  readonly threadId: string | null
  /** The graph's checkpoint; null: it had none. */
  readonly checkpointId: string | null
  /** The graph's run that led here from that checkpoint, when it does not report its checkpoints. */
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
