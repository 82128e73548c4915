// Checkpoints, as they are written and read.
import type { JsonObject, Timestamp } from '../../types.ts'

/** Inclusive range of body numbers: [from, to]. */
export type BodyRange = readonly [number, number]

/**
 * One checkpoint as it is written: which bodies it consists of, and the bodies that are new. A body is the JSON text of one
 * message or one channel, kept once a version under a number of its thread; the list of messages is a list of ranges, so that
 * a turn that only appends costs the same at turn 10 and at turn 1,000.
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

/** A checkpoint with the bodies it consists of. `json` is the text that was given, to the letter. */
export interface StoredCheckpoint extends CheckpointHead {
  readonly messageBodies: readonly { readonly no: number; readonly json: string }[]
  readonly channelBodies: readonly { readonly name: string; readonly no: number; readonly json: string }[]
  /** The first body number of the thread that is not taken. */
  readonly nextBody: number
}

export interface HistoryPage {
  readonly limit: number
  readonly before?: string
  /** null: all. */
  readonly channels?: readonly string[] | null
}

export interface CheckpointReads {
  /** `checkpointId` null: the newest, which is the one that was written last [Store 11]. With `channels`, only those are read (messages is one of them). */
  load(threadId: string, checkpointId: string | null, channels?: readonly string[]): Promise<StoredCheckpoint | null>
  /**
   * Newest first; `before` gives those that were written before it, none when there is no such checkpoint. Each has the bodies of `channels` (default: none), the first one its
   * messages too, if they are among them.
   */
  history(threadId: string, page: HistoryPage): Promise<StoredCheckpoint[]>
}

export type StateUpdate =
  | { readonly outcome: 'written'; readonly checkpoint: CheckpointHead }
  | { readonly outcome: 'busy' | 'checkpoint_missing' }
