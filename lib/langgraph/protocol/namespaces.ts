// Namespaces in protocol v2, from their first event to their end: what runs below the root, and its lifecycle events.
import type { JsonObject } from '../../base/types.ts'
import type { EventBody, Namespace } from './event.ts'

const COMPLETED_MAX = 64

/** Immutable. */
export interface Namespaces {
  /** Open namespaces below the root, by path. */
  readonly namespaces: ReadonlyMap<string, Namespace>
  /** Namespaces whose task has ended: `completed` follows with the next frame, unless that is the run's error. */
  readonly ended: readonly Namespace[]
  /** Recently completed namespaces: late events must not restart them. */
  readonly completed: readonly string[]
}

/** Emits `started` for every new namespace on the path, outermost first. */
export function startNamespaces<S extends Namespaces>(
  state: S,
  namespace: Namespace
): { state: S; emitted: EventBody[] } {
  if (namespace.length === 0 || state.namespaces.has(namespace.join('|'))) return { state, emitted: [] }
  const namespaces = new Map(state.namespaces)
  const emitted: EventBody[] = []
  for (let depth = 1; depth <= namespace.length; depth++) {
    const part = namespace.slice(0, depth)
    const name = part.join('|')
    if (namespaces.has(name) || state.completed.includes(name)) continue
    namespaces.set(name, part)
    emitted.push(lifecycle(part, { event: 'started', graph_name: nameOf(part.at(-1)!) }))
  }
  return emitted.length === 0 ? { state, emitted } : { state: { ...state, namespaces }, emitted }
}

/** Emits `completed` for ended namespaces, innermost first. */
export function completeEnded<S extends Namespaces>(state: S): { state: S; emitted: EventBody[] } {
  if (state.ended.length === 0) return { state, emitted: [] }
  const namespaces = new Map(state.namespaces)
  const names = state.ended.map((namespace) => namespace.join('|'))
  for (const name of names) namespaces.delete(name)
  const completed = [...state.completed, ...names].slice(-COMPLETED_MAX)
  const emitted = state.ended.map((namespace) => lifecycle(namespace, endOf(namespace, 'completed')))
  return { state: { ...state, namespaces, ended: [], completed }, emitted }
}

export function endOf(namespace: Namespace, event: string): JsonObject {
  return { event, graph_name: nameOf(namespace.at(-1)!) }
}

/** A segment without its id. */
function nameOf(segment: string): string {
  return segment.split(':', 1)[0]!
}

export function lifecycle(namespace: Namespace, about: JsonObject): EventBody {
  return { method: 'lifecycle', channel: 'lifecycle', namespace, json: JSON.stringify(about) }
}
