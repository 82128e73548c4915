// A LangGraph graph as a run sees it, on a server of its own (server.ts) or in this process. Both emit the same parts:
// LangGraph's stream modes.
import type { Interrupt, Json, JsonObject } from '../../base/types.ts'
import type { Agent, AgentInput } from '../../agent/runtime.ts'
import type { GraphCheckpointRef } from './checkpoint-ref.ts'

export interface Graph {
  /**
   * Enters the thread a reference names; without one, a new one.
   * @throws AgentError for the user; the signal's reason after an abort
   */
  open(input: AgentInput, ref: GraphCheckpointRef, signal: AbortSignal): Promise<GraphThread>
  /** Deletes what it keeps of a thread. @throws Error if it cannot */
  forget(threadId: string): Promise<void>
  /** See Agent.adoptThreads; a graph without it has no threads but ours. */
  adoptThreads?: Agent['adoptThreads']
}

export interface GraphThread {
  /** The graph's id for it. */
  readonly id: string
  /** The state at a checkpoint; `null`: at the newest one. Null: there is none. */
  state(checkpointId: string | null): Promise<GraphState | null>
  /**
   * Runs the graph once. Every part is passed on in the tick it came; after a false `space` is awaited before more is
   * read. Resolves when the graph is done. When the signal aborts, the graph is stopped before this rejects.
   * @throws AgentError, what `hear` throws, the signal's reason
   */
  work(input: GraphInput, hear: (part: Part) => boolean, space: () => Promise<void>): Promise<void>
}

/** Input of a graph run. */
export interface GraphInput {
  /** Written into its state first; null: it continues where it is. */
  readonly input: JsonObject | null
  /** The answer to its questions. */
  readonly resume: { readonly value: Json } | null
  /** The checkpoint it starts from; null: the newest. */
  readonly checkpointId: string | null
}

/** One part of a graph's stream. */
export interface Part {
  /** LangGraph's stream mode: `messages` for the tuple of a piece and its metadata, and `error`. */
  readonly mode: string
  /** The tasks it comes from, outermost first; empty: the graph itself. */
  readonly namespace: readonly string[]
  readonly data: Json
}

export interface GraphState {
  /** Null: it cannot be looked up by one. */
  readonly checkpointId: string | null
  /** The graph's id of the run that made it. */
  readonly runId: string | null
  readonly values: JsonObject
  /** Nodes that would run next. */
  readonly next: readonly string[]
  readonly interrupts: readonly Interrupt[]
}
