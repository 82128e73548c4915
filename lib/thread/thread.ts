// A new thread: the checkpoint that it begins with, whose id sorts by time, as those of all that follow.
import { withoutReserved } from '../base/reserved.ts'
import type { JsonObject, Thread, Timestamp } from '../base/types.ts'
import type { CheckpointWrite } from '../store/store.ts'
import { randomUUID } from 'node:crypto'

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

/** Metadata of what is made of a thread: it is none of the cron's that has made that one. */
export function inheritedMetadata({ metadata: { cron_id: _, ...kept } }: Thread): JsonObject {
  return kept
}

// ------------------------------------------------------------------------------------------- ids of checkpoints

let lastMs = 0
let counter = 0

/** Time and counter of our ids. */
const OURS = /^([0-9a-f]{8})-([0-9a-f]{4})-7([0-9a-f]{3})-/

/**
 * A checkpoint id: UUIDv7 with a counter, so that ids of one process sort in creation order, even within a millisecond and when
 * the clock is set back. Clients sort branches by id, so an id is also greater than `parent`, even if another process made that.
 * Stores order checkpoints by their own numbers [Store 11].
 */
export function checkpointId(parent?: string | null, now = Date.now()): string {
  follow(parent)
  if (now > lastMs) {
    lastMs = now
    counter = 0
  } else if (++counter > 0xfff) {
    lastMs++
    counter = 0
  }
  const time = lastMs.toString(16).padStart(12, '0')
  // The last two fields are those of a random UUID: variant and random bits.
  const tail = randomUUID().slice(19)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, '0')}-${tail}`
}

/** Advances to the time of an id, if that is ahead. */
function follow(id: string | null | undefined): void {
  const [, high, low, count] = (id && OURS.exec(id)) || []
  if (high === undefined) return
  const ms = Number.parseInt(`${high}${low}`, 16)
  if (ms < lastMs) return
  const used = Number.parseInt(count!, 16)
  counter = ms === lastMs ? Math.max(counter, used) : used
  lastMs = ms
}
