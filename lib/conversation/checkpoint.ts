// A state of a thread as clients read it, whoever keeps it: with the fields of LangGraph's clients and, flat beside them, those of others.
import type { GraphTaskWrite } from './state.ts'
import type { Json, JsonObject } from '../base/types.ts'

/** What a state is shown with, besides its values. */
export interface CheckpointFields {
  /** null: nothing was written to the thread yet. */
  readonly checkpoint: CheckpointPlace | null
  readonly parent: CheckpointPlace | null
  readonly createdAt: string | null
  readonly next: readonly string[]
  readonly tasks: readonly TaskFields[]
  /** Those of all tasks, where the graph says them beside its tasks. */
  readonly interrupts?: Json
  readonly metadata: JsonObject
}

/** `thread_id`, `checkpoint_ns` and `checkpoint_id`, of graphs also `checkpoint_map`. */
export type CheckpointPlace = JsonObject & { readonly checkpoint_id: string | null }

/** A node that would run next, or waits for an answer. */
export interface TaskFields {
  readonly id: string
  readonly name: string
  readonly path?: Json
  readonly interrupts: Json
  readonly error?: Json
  readonly result?: Json
  /** Of a subgraph. */
  readonly checkpoint?: JsonObject | null
  readonly state?: JsonObject | null
}

export const NEVER_RUN: CheckpointFields = {
  checkpoint: null,
  parent: null,
  createdAt: null,
  next: [],
  tasks: [],
  metadata: {}
}

/** `isBare`: for LangGraph's clients, whose checkpoints have neither `id` nor `ts`. */
export function checkpointView(fields: CheckpointFields, isBare = false): JsonObject {
  const { checkpoint, parent, createdAt, next, tasks, interrupts, metadata } = fields
  return {
    next: [...next],
    tasks: tasks.map(taskView),
    ...(interrupts !== undefined && { interrupts }),
    metadata,
    created_at: createdAt,
    checkpoint: checkpoint && { ...checkpoint, ...(!isBare && { id: checkpoint.checkpoint_id, ts: createdAt }) },
    parent_checkpoint: parent,
    checkpoint_id: checkpoint?.checkpoint_id ?? null,
    parent_checkpoint_id: parent?.checkpoint_id ?? null
  }
}

/** Of a task that has nothing yet too: clients read these members. */
function taskView({ id, name, path, interrupts, error, result, checkpoint, state }: TaskFields): JsonObject {
  return {
    id,
    name,
    path: path ?? [name],
    interrupts,
    error: error ?? null,
    result: result ?? null,
    checkpoint: checkpoint ?? null,
    state: state ?? null
  }
}

/** `{"values": <text>, ...}` for the rest of the members and a JSON text. */
export function withValues(values: string, fields: JsonObject): string {
  return `{"values":${values},${JSON.stringify(fields).slice(1)}`
}

/** The order in which LangGraph applies writes, whatever was written first. */
export function compareWrites(one: GraphTaskWrite, other: GraphTaskWrite): number {
  if (one.task_path !== other.task_path) return one.task_path < other.task_path ? -1 : 1
  if (one.task_id !== other.task_id) return one.task_id < other.task_id ? -1 : 1
  return one.idx - other.idx
}
