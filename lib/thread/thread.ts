// What a thread is made with.
import type { JsonObject, Thread, Timestamp } from '../types.ts'
import type { CheckpointWrite } from '../store/store.ts'
import { checkpointId } from './ids.ts'

/** Metadata keys that only the service may set: a client's are dropped. */
const RESERVED = ['owner_id', 'user_id']

export function withoutReserved(metadata: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => !RESERVED.includes(key)))
}

/** A new thread, and the empty checkpoint with which its state and history answer at once. */
export function newThread(
  given: { thread_id: string; user_id: string | null; assistant_id: string | null; metadata: JsonObject },
  now: Timestamp
): { thread: Thread; checkpoint: CheckpointWrite } {
  const metadata = withoutReserved(given.metadata)
  const thread: Thread = { ...given, metadata, display_name: null, status: 'idle', created_at: now, updated_at: now }
  const checkpoint: CheckpointWrite = {
    thread_id: given.thread_id,
    checkpoint_id: checkpointId(),
    parent_checkpoint_id: null,
    run_id: null,
    created_at: now,
    metadata: { step: -1, source: 'input', writes: null, parents: {}, ...metadata, created_at: now },
    next: [],
    messages: [],
    channels: {},
    bodies: []
  }
  return { thread, checkpoint }
}
