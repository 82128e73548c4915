// Event texts: an `events.append` on its way to the writer thread. JSON is encoded on this side, because structured
// cloning of nested objects costs more than their text.
import { messageIdOf } from '../event.ts'
import { stored, storedAsJson } from '../sql/events.ts'
import type { NewEvent, OpOf } from '../store.ts'

export interface EventTexts {
  readonly name: 'events.append'
  readonly thread_id: string
  readonly run_id: string
  readonly user_id: string | null
  /** Position within the run, by event. */
  readonly ks: readonly number[]
  /** TEXTS_OF_EVENT of each event, one after the other: type, category, content, metadata, message id or null, time. */
  readonly texts: readonly (string | null)[]
}

export const TEXTS_OF_EVENT = 6

/** @throws Error when an event is not JSON */
export function eventTexts({ name, thread_id, run_id, user_id, events }: OpOf<'events.append'>): EventTexts {
  const ks: number[] = []
  const texts: (string | null)[] = []
  for (const event of events) {
    const { content, metadata } = storedAsUtf8(event)
    ks.push(event.k)
    texts.push(event.event_type, event.category, content, metadata, messageIdOf(event), event.created_at)
  }
  return { name, thread_id, run_id, user_id, ks, texts }
}

/** A lone surrogate has no UTF-8 form, so such a text is stored as JSON and marked. */
function storedAsUtf8(event: NewEvent): { content: string; metadata: string } {
  const { content, metadata } = event
  if (typeof content !== 'string' || content.isWellFormed()) return stored(event)
  return storedAsJson(content, metadata, 'content_is_json')
}
