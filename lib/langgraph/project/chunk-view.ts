// Chunks of a graph's stream and the places of its checkpoints, as LangGraph's server shows them.
import { isObject, type JsonObject } from '../../base/types.ts'
import type { CheckpointPlace } from '../../conversation/checkpoint.ts'

/** Renamed as LangGraph's server does. */
export function shownOf(mode: string, data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data
  // LangGraph's chunks of these modes are objects.
  const chunk = data as Record<string, unknown>
  if (mode === 'tasks') return withCheckpoint(chunk)
  // An Error would serialise to `{}`.
  if (mode === 'tools' && chunk.error instanceof Error) {
    const { name, message } = chunk.error
    return { ...chunk, error: { name, message } }
  }
  if (mode === 'checkpoints') return { values: chunk.values, metadata: chunk.metadata, next: chunk.next }
  if (mode !== 'debug') return data
  const payload = objectIn(chunk.payload)
  if (chunk.type === 'checkpoint') return { ...chunk, payload: debugCheckpoint(payload) }
  return chunk.type === 'task_result' ? { ...chunk, payload: withCheckpoint(payload) } : data
}

function debugCheckpoint({ parentConfig, ...payload }: Record<string, unknown>): object {
  const tasks = Array.isArray(payload.tasks) ? payload.tasks : []
  return {
    ...payload,
    config: shownConfig(payload.config),
    parent_config: shownConfig(parentConfig),
    checkpoint: checkpointIn(payload.config),
    parent_checkpoint: checkpointIn(parentConfig),
    tasks: tasks.map((task) => withCheckpoint(objectIn(task)))
  }
}

/** Tasks that are subgraphs show their checkpoint instead of their state. */
function withCheckpoint(task: Record<string, unknown>): object {
  const { thread_id } = configurableIn(task.state)
  if (typeof thread_id !== 'string') return task
  const { state, ...rest } = task
  return { ...rest, checkpoint: placeShown(configurableIn(state)) }
}

/** null: not a checkpoint's config. */
export function checkpointIn(config: unknown): CheckpointPlace | null {
  const { thread_id, checkpoint_id } = configurableIn(config)
  if (typeof thread_id !== 'string' || typeof checkpoint_id !== 'string') return null
  return placeShown(configurableIn(config))
}

/** The same without a map where there is none, as LangGraph for Python names it. */
export function knownPlaceIn(config: unknown): CheckpointPlace | null {
  const { checkpoint_map, ...place } = checkpointIn(config) ?? { checkpoint_id: null }
  if (place.checkpoint_id === null) return null
  return isObject(checkpoint_map) ? { ...place, checkpoint_map } : place
}

/** Namespace of a subgraph's task; without a checkpoint id, which means the newest. */
export function taskPlace(place: Record<string, unknown>): JsonObject {
  return Object.fromEntries(Object.entries(placeShown(place)).filter(([, value]) => value !== null))
}

function placeShown({
  thread_id,
  checkpoint_id,
  checkpoint_ns,
  checkpoint_map
}: Record<string, unknown>): CheckpointPlace {
  return {
    thread_id: String(thread_id),
    checkpoint_id: typeof checkpoint_id === 'string' ? checkpoint_id : null,
    checkpoint_ns: typeof checkpoint_ns === 'string' ? checkpoint_ns : '',
    checkpoint_map: isObject(checkpoint_map) ? checkpoint_map : null
  }
}

function shownConfig(config: unknown): unknown {
  const { callbacks: _, ...rest } = objectIn(config)
  if (!('configurable' in rest)) return config
  const kept = Object.entries(configurableIn(config)).filter(([key]) => !/^(__|langgraph_auth_)/.test(key))
  return { ...rest, configurable: Object.fromEntries(kept) }
}

function configurableIn(config: unknown): Record<string, unknown> {
  return objectIn(objectIn(config).configurable)
}

function objectIn(value: unknown): Record<string, unknown> {
  // Any member of any object may be read.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
