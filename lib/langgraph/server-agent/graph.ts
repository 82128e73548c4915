// A graph on a LangGraph server in plain data: what a run sends to it, the parts of its stream, and its state.
import type { Interrupt, Json, JsonObject } from '../../base/types.ts'

/** Servers accept only such ids of threads and checkpoints. */
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Stream modes that a run has only where its creator asks: they cost much and say nothing of the answer. */
export const DETAILS = ['tasks', 'checkpoints', 'debug'] as const

/** Input of a graph run. */
export interface GraphInput {
  /** Written into its state first; null: it continues where it is. */
  readonly input: JsonObject | null
  /** The answer to its interrupts. */
  readonly resume: { readonly value: Json } | null
  /** The checkpoint it starts from; null: the newest. */
  readonly checkpointId: string | null
}

/** One part of a graph's stream. */
export interface Part {
  /** LangGraph's stream mode: `messages` for the tuple of a chunk and its metadata, and `error`. */
  readonly mode: string
  /** The tasks it comes from, outermost first; empty: the graph itself. */
  readonly namespace: readonly string[]
  readonly data: Json
  /** Of its event, behind which the stream can be resumed; null: none. */
  readonly id: string | null
}

export interface GraphState {
  /** Null: it cannot be looked up by one. */
  readonly checkpointId: string | null
  /** The server's id of the run that made it. */
  readonly runId: string | null
  readonly values: JsonObject
  /** Nodes that would run next. */
  readonly next: readonly string[]
  readonly interrupts: readonly Interrupt[]
}
