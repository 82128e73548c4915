// Reading LangGraph's checkpoints, whose contents are opaque to us.
import type { GraphPage, StoredGraphCheckpoint } from '../../graph-state.ts'

export type * from '../../graph-state.ts'

export interface GraphStateReads {
  /** `checkpointId` null: the newest of the namespace, i.e. the one written last [Store 11]. */
  load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null>
  /** Newest first. */
  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]>
}
