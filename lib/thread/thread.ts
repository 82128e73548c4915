// A new thread and its first checkpoint.
import { withoutReserved } from '../base/reserved.ts'
import type { JsonObject, Thread, Timestamp } from '../base/types.ts'
import type { CheckpointWrite } from '../store/store.ts'
import { checkpointId } from './ids.ts'

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
    // Ours last: runs continue counting from `step`.
    metadata: { ...metadata, step: -1, source: 'input', writes: null, parents: {}, created_at: now },
    next: [],
    messages: [],
    channels: {},
    bodies: []
  }
  return { thread, checkpoint }
}
