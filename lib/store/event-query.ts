// Queries over events that lie in memory, or over an index of them. Every list is ascending by seq.
import { isVisible } from '../base/scope.ts'
import type { EventQuery, EventRecord } from './store.ts'
import { type EventCategory, isObject, type Json, type JsonObject } from '../base/types.ts'

type Indexed = Pick<EventRecord, 'seq' | 'category' | 'event_type' | 'user_id'>

/** Index of the first event with `seq >= bound`. */
export function firstFrom(events: readonly { readonly seq: number }[], bound: number): number {
  let low = 0
  let high = events.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (events[middle]!.seq < bound) low = middle + 1
    else high = middle
  }
  return low
}

/** The first `limit` matching events, or the last ones; ascending either way. */
export function selectEvents<T extends Indexed>(
  events: readonly T[],
  { after, before, owner, category, types, messageIds }: EventQuery,
  limit: number,
  which: 'first' | 'last',
  messageIdOf: (event: T) => string | null
): T[] {
  const from = firstFrom(events, after + 1)
  const to = firstFrom(events, before)
  // Sets, because a history asks for all messages of its thread.
  const wantedTypes = types && new Set(types)
  const wantedIds = messageIds && new Set(messageIds)
  const found: T[] = []
  for (let step = 0; step < to - from && found.length < limit; step++) {
    const event = events[which === 'first' ? from + step : to - 1 - step]!
    if (!isVisible(event, owner) || (category !== undefined && event.category !== category)) continue
    if (wantedTypes && !wantedTypes.has(event.event_type)) continue
    if (wantedIds && !wantedIds.has(messageIdOf(event) ?? '')) continue
    found.push(event)
  }
  return which === 'last' ? found.reverse() : found
}

/** Items by key; keys and items keep their order. */
export function grouped<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

// --------------------------------------------- What each of our backends derives from an event before storing it

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
