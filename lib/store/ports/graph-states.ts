// Reading LangGraph's checkpoints, whose contents are opaque to us.
import type { Body, ChannelVersion, GraphPage, StoredGraphCheckpoint } from '../../conversation/state.ts'

export type * from '../../conversation/state.ts'

/** Each answer is of one moment: no write and no removal falls between its parts [Store 12]. */
export interface GraphStateReads {
  /** `checkpointId` null: the newest of the namespace, i.e. the one written last [Store 11]. */
  load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null>
  /** Newest first. */
  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]>
  /** The bodies of these versions, as far as they are stored, each once, in any order. The namespace may be that of a run, see `RunBodies`. */
  bodies(threadId: string, ns: string, versions: readonly ChannelVersion[]): Promise<Body[]>
  /** Names the checkpoint written last, in any namespace: changes with each that is written or taken back. null: there is none. */
  version(threadId: string): Promise<string | null>
  /** A number above those of all parts that are stored of a channel's lists in a namespace. */
  nextPart(threadId: string, ns: string, channel: string): Promise<number>
}
