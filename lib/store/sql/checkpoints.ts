// A checkpoint as a row.
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

export function toHead({
  metadata_json,
  next_json,
  messages_json,
  channels_json,
  ...row
}: CheckpointRow): CheckpointHead {
  return {
    metadata: parseObject(metadata_json),
    // These columns are only ever written by `checkpointPut` of a database.
    next: JSON.parse(next_json) as string[],
    messages: JSON.parse(messages_json) as BodyRange[],
    channels: JSON.parse(channels_json) as Record<string, number>,
    ...row
  }
}
