// Where a graph stood when our state was as it is: kept in every checkpoint of ours, so that a run that goes on from one, be it an
// old one, goes on from the graph's own checkpoint as well.
import { type Json, isObject } from '../../types.ts'
import { textOr } from '../json.ts'

/** The channel it is kept in: one that clients are not shown. */
export const MARK = '__pregel_graph'

export interface Mark {
  /**
   * Its name for the thread; null: it has not been told of it. Who has our state has the name, and nobody else: a thread that is
   * deleted and made again, by whomever, is another one to the graph [Auth 13].
   */
  readonly threadId: string | null
  /** The graph's checkpoint; null: it had none. */
  readonly checkpointId: string | null
  /** The graph's run that has come here from that checkpoint, when it does not tell which checkpoints it makes. */
  readonly runId: string | null
  /** What the graph wants to be given back; see GraphThread.pack. */
  readonly luggage: Json
}

const NO_MARK: Mark = { threadId: null, checkpointId: null, runId: null, luggage: null }

export function readMark(channel: Json | undefined): Mark {
  if (!isObject(channel)) return NO_MARK
  const { thread_id, checkpoint_id, run_id, luggage } = channel
  return {
    threadId: textOr(thread_id),
    checkpointId: textOr(checkpoint_id),
    runId: textOr(run_id),
    luggage: luggage ?? null
  }
}

export function markJson({ threadId, checkpointId, runId, luggage }: Mark): Json {
  return { thread_id: threadId, checkpoint_id: checkpointId, run_id: runId, luggage }
}
