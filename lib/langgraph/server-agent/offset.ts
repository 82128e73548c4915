// How far the stream of a server's run is recorded: stored with what is, for the attempt that goes on when this process is gone.
import { textOr } from '../../base/json.ts'
import type { JsonObject } from '../../base/types.ts'

/** Nothing of it is recorded: servers send all of it behind this position. */
export const FROM_START = '-1'
/** Its events have no positions. */
export const UNKNOWN = ''

export interface StreamOffset {
  /** The server's ids. */
  readonly threadId: string
  readonly runId: string
  /** The last event that is recorded. */
  readonly eventId: string
  /** All of it is, with the state it has left. */
  readonly isOver?: boolean
}

export function offsetJson({ threadId, runId, eventId, isOver = false }: StreamOffset): JsonObject {
  return { thread_id: threadId, run_id: runId, event_id: eventId, ...(isOver && { is_over: true }) }
}

/** null: none. */
export function readOffset(given: JsonObject | null): StreamOffset | null {
  const [threadId, runId, eventId] = [textOr(given?.thread_id), textOr(given?.run_id), given?.event_id]
  if (threadId === null || runId === null || typeof eventId !== 'string') return null
  return { threadId, runId, eventId, isOver: given?.is_over === true }
}
