// Keys only the service and its runtime may set: those that speak for a user, and those that lead a graph to other threads and checkpoints.
import { isObject, type Json, type JsonObject } from './types.ts'

const NAMES: ReadonlySet<string> = new Set(['owner_id', 'user_id', 'is_internal', 'thread_ts'])
/** Graphs authorise by `langgraph_auth_*`; with `__*` and `checkpoint_*` their runtime finds its own way. */
const PREFIXES = ['langgraph_', 'checkpoint_', '__']

function isReserved(key: string): boolean {
  return NAMES.has(key) || PREFIXES.some((prefix) => key.startsWith(prefix))
}

/**
 * Of a user's items those that the service keeps for itself, and believes: browsers that are told of answers. They are exported and deleted
 * with the account.
 */
export const OWN_NAMESPACE: readonly string[] = ['colloquy', 'push']

/** A caller's metadata, context or `configurable`, without reserved keys [Auth 13]. Of several, each gives way to the next. */
export function withoutReserved(...given: readonly JsonObject[]): JsonObject {
  const kept: JsonObject = {}
  // One by one: a body has room for 50,000 keys, and lists of entries cost several times as much.
  for (const part of given) for (const key of Object.keys(part)) if (!isReserved(key)) kept[key] = part[key]!
  return kept
}

/** The same for each part of a run's config. */
export function configWithoutReserved(config: JsonObject): JsonObject {
  const clean = (value: Json): Json => (isObject(value) ? withoutReserved(value) : value)
  return Object.fromEntries(Object.entries(config).map(([part, value]) => [part, clean(value)]))
}
