// LangGraph's checkpoints, as it writes them. Their contents are opaque to us.

import type { GraphPage, StoredGraphCheckpoint } from '../../types.ts'

export type {
  GraphCheckpointHead,
  GraphCheckpointWrite,
  GraphPage,
  GraphTaskWrite,
  GraphValue,
  StoredGraphCheckpoint
} from '../../types.ts'

export interface GraphStateReads {
  /** `checkpointId` null: the newest of the namespace, i.e. the one written last [Store 11]. */
  load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null>
  /** Newest first. */
  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]>
}
