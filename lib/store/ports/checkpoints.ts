// Writing and reading checkpoints: ours, and those of LangGraph's graphs, whose contents are opaque to us.
import type { Body, ChannelVersion, GraphPage, PartRange, StoredGraphCheckpoint } from '../../conversation/state.ts'
import type { JsonObject, Timestamp } from '../../base/types.ts'

/** Inclusive range of body numbers: [from, to]. */
export type BodyRange = PartRange

/**
 * A checkpoint to write: the bodies it consists of, and the new ones among them. A body is the JSON text of one message
 * or one channel, stored once per version under a number in its thread; messages are a list of ranges, so that a turn
 * that only appends costs the same at turn 10 and at turn 1,000.
 */
export interface CheckpointWrite {
  readonly thread_id: string
  readonly checkpoint_id: string
  readonly parent_checkpoint_id: string | null
  readonly run_id: string | null
  readonly created_at: Timestamp
  readonly metadata: JsonObject
  readonly next: readonly string[]
  readonly messages: readonly BodyRange[]
  readonly channels: Readonly<Record<string, number>>
  readonly bodies: readonly { readonly no: number; readonly json: string }[]
}

export type CheckpointHead = Omit<CheckpointWrite, 'bodies'>

/** A checkpoint with its bodies. `json` is the given text, byte for byte. */
export interface StoredCheckpoint extends CheckpointHead {
  readonly messageBodies: readonly { readonly no: number; readonly json: string }[]
  readonly channelBodies: readonly { readonly name: string; readonly no: number; readonly json: string }[]
  /** The thread's next free body number. */
  readonly nextBody: number
}

export interface HistoryPage {
  readonly limit: number
  readonly before?: string
  /** null: all. */
  readonly channels?: readonly string[] | null
}

export interface CheckpointReads {
  /** `checkpointId` null: the newest, i.e. the one written last [Store 11]. `channels` limits what is read (messages is one of them). */
  load(threadId: string, checkpointId: string | null, channels?: readonly string[]): Promise<StoredCheckpoint | null>
  /**
   * Newest first; with `before`, those written before that checkpoint, none if it does not exist. Each has the bodies
   * of `channels` (default: none); only the first one has its messages, if asked for.
   */
  history(threadId: string, page: HistoryPage): Promise<StoredCheckpoint[]>
}

export type StateUpdate =
  | { readonly outcome: 'written'; readonly checkpoint: CheckpointHead }
  | { readonly outcome: 'busy' | 'conflict' | 'checkpoint_missing' }

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
