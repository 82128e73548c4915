// An event as a row.
import type { EventCategory, Json, JsonObject, RunEvent } from '../../types.ts'
import { markedMetadata, messageIdOf } from '../event.ts'
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

/** A row that is to be written. */
export interface NewEventRow extends EventRow {
  readonly k: number
  readonly message_id: string | null
}

/** The row of an event at its place. `how`: its content and metadata as this database stores them. */
export function toRow(
  event: NewEvent,
  place: Pick<EventRow, 'thread_id' | 'run_id' | 'user_id' | 'seq'>,
  how = stored(event)
): NewEventRow {
  // Every field by its name: this is done for every event, and a spread costs more than all of them.
  const { thread_id, run_id, user_id, seq } = place
  return {
    thread_id,
    run_id,
    user_id,
    seq,
    event_type: event.event_type,
    category: event.category,
    content: how.content,
    event_metadata: JSON.stringify(how.metadata),
    k: event.k,
    message_id: messageIdOf(event),
    created_at: event.created_at
  }
}
