// An event as a row.
import type { EventCategory, Json, JsonObject, RunEvent } from '../../types.ts'
import { markedMetadata } from '../event.ts'
import type { NewEvent } from '../store.ts'
import { parseJson, parseObject } from './json.ts'

export interface EventRow {
  readonly thread_id: string
  readonly run_id: string
  readonly user_id: string | null
  readonly event_type: string
  readonly category: EventCategory
  readonly content: string
  readonly event_metadata: string
  readonly seq: number
  readonly created_at: string
}

export const COLUMNS = 'thread_id, run_id, user_id, event_type, category, content, event_metadata, seq, created_at'

export function toEvent({ content, event_metadata, ...row }: EventRow): RunEvent {
  const metadata = parseObject(event_metadata)
  return { ...row, content: contentOf(content, metadata), metadata }
}

/** Objects and lists are stored as JSON text and marked; a text is a text, even one that looks like JSON [contract 4.1]. */
function contentOf(text: string, metadata: JsonObject): Json {
  if (metadata.content_is_dict !== true && metadata.content_is_json !== true) return text
  try {
    return parseJson(text)
  } catch {
    // A trace that was cut no longer parses: its text is what is left of it.
    return text
  }
}

/** How a content is stored: its text, and the mark that readers see. */
export function stored(event: NewEvent): { content: string; metadata: JsonObject } {
  const { content, metadata } = event
  if (typeof content === 'string') return { content, metadata }
  return { content: JSON.stringify(content), metadata: markedMetadata(event) }
}
