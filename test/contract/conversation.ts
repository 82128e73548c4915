// A conversation as checkpoints of a thread, and what a suite looks at in one.
import type { CheckpointWrite, Store, StoredCheckpoint } from '../../lib/store/store.ts'
import { aCheckpoint, addThread, checkpointId, someBodies, write } from './harness.ts'

export function put(store: Store, checkpoint: CheckpointWrite): Promise<null> {
  return write(store, { name: 'checkpoint.put', ...checkpoint })
}

export function texts(checkpoint: StoredCheckpoint | null): string[] | undefined {
  return checkpoint?.messageBodies.map(({ json }) => json)
}

export function channels(checkpoint: StoredCheckpoint | null): Record<string, string> | undefined {
  return checkpoint ? Object.fromEntries(checkpoint.channelBodies.map(({ name, json }) => [name, json])) : undefined
}

export const messageText = (no: number) => `{"id":"m${no}"}`

/** A thread with the checkpoints 0 (empty), 1 (messages 0..1, title 2), 2 (message 3 added, title 4). */
export async function addConversation(store: Store): Promise<string> {
  const { thread_id } = await addThread(store)
  const one = {
    checkpoint_id: checkpointId(1),
    parent_checkpoint_id: checkpointId(0),
    metadata: { step: 1 },
    messages: [[0, 1]],
    channels: { title: 2 },
    bodies: [...someBodies([0, 1], messageText), { no: 2, json: '"first"' }]
  } satisfies Partial<CheckpointWrite>
  await put(store, aCheckpoint(thread_id, one))
  const two = {
    checkpoint_id: checkpointId(2),
    parent_checkpoint_id: checkpointId(1),
    metadata: { step: 2 },
    messages: [
      [0, 1],
      [3, 3]
    ],
    channels: { title: 4, todos: 5 },
    bodies: [
      { no: 3, json: messageText(3) },
      { no: 4, json: '"second"' },
      { no: 5, json: '[]' }
    ]
  } satisfies Partial<CheckpointWrite>
  await put(store, aCheckpoint(thread_id, two))
  return thread_id
}
