// What each of our backends derives from an event before storing it.
import { type EventCategory, type Json, type JsonObject, isObject } from '../base/types.ts'

/** The metadata readers see: it marks an object content, to tell it from a text that looks like JSON [contract 4.1]. */
export function markedMetadata({ content, metadata }: { content: Json; metadata: JsonObject }): JsonObject {
  if (typeof content === 'string') return metadata
  return isObject(content) ? { ...metadata, content_is_dict: true } : { ...metadata, content_is_json: true }
}

/** The id of the message that an event of category message holds, or null. */
export function messageIdOf({ category, content }: { category: EventCategory; content: Json }): string | null {
  if (category !== 'message' || !isObject(content)) return null
  return typeof content.id === 'string' ? content.id : null
}
