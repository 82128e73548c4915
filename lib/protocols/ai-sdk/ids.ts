// The AI SDK's ids: its chat is a thread, its message the answer of a run, or of runs that go on after their user's approval.
import type { Run } from '../../base/types.ts'

/** Under it the names of chats are kept. */
export const PROTOCOL = 'ai-sdk'

/** In a run's metadata: the message that it continues. */
export const MESSAGE_KEY = 'ui_message_id'

export function messageIdOf({ run_id, metadata }: Pick<Run, 'run_id' | 'metadata'>): string {
  const known = metadata[MESSAGE_KEY]
  return typeof known === 'string' ? known : run_id
}

/** Its answer goes on in the message of an earlier run. */
export function continuesMessage({ metadata }: Pick<Run, 'metadata'>): boolean {
  return typeof metadata[MESSAGE_KEY] === 'string'
}
