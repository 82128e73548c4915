// A checkpoint as a row.
import { GRAPH_COPIES } from './graph-states.ts'
import type { BodyRange, CheckpointHead } from '../store.ts'
import { parseObject } from './json.ts'

export interface CheckpointRow {
  readonly thread_id: string
  readonly checkpoint_id: string
  readonly parent_checkpoint_id: string | null
  readonly run_id: string | null
  readonly metadata_json: string
  readonly next_json: string
  readonly messages_json: string
  readonly channels_json: string
  readonly created_at: string
}

export const COLUMN_NAMES = [
  'thread_id',
  'checkpoint_id',
  'parent_checkpoint_id',
  'run_id',
  'metadata_json',
  'next_json',
  'messages_json',
  'channels_json',
  'created_at'
] as const satisfies readonly (keyof CheckpointRow)[]
export const COLUMNS = COLUMN_NAMES.join(', ')

/** Deletes the empty checkpoint of a new thread $1. */
export const FORGET = 'DELETE FROM checkpoints WHERE thread_id = $1'

/** Copies all states of thread $1 to $2. */
export const COPIES = [
  `INSERT INTO checkpoint_bodies (thread_id, no, json) SELECT $2, no, json FROM checkpoint_bodies WHERE thread_id = $1`,
  `INSERT INTO checkpoints (${COLUMNS})
   SELECT $2, ${COLUMN_NAMES.slice(1).join(', ')} FROM checkpoints WHERE thread_id = $1 ORDER BY key`,
  ...GRAPH_COPIES
] as const

export function toHead({
  metadata_json,
  next_json,
  messages_json,
  channels_json,
  ...row
}: CheckpointRow): CheckpointHead {
  return {
    metadata: parseObject(metadata_json),
    // Only written by `checkpointPut`.
    next: JSON.parse(next_json) as string[],
    messages: JSON.parse(messages_json) as BodyRange[],
    channels: JSON.parse(channels_json) as Record<string, number>,
    ...row
  }
}
