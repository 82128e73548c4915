// A LangGraph graph as a run sees it, wherever it works: on a server of its own (server.ts), or in this process (compiled.ts).
// What it tells comes in parts, the same from both: LangGraph's stream modes.
import type { Interrupt, Json, JsonObject } from '../../types.ts'
import type { Agent, AgentInput } from '../runtime.ts'
import type { GraphCheckpointRef } from './checkpoint-ref.ts'

export interface Graph {
  /**
   * Enters the thread of a run, where the reference says; without one, one that nobody has been in.
   * @throws AgentError for what a person should read; the signal's reason after an abort
   */
  open(input: AgentInput, ref: GraphCheckpointRef, signal: AbortSignal): Promise<GraphThread>
  /** Drops what it keeps of a thread. @throws Error when it cannot */
  forget(threadId: string): Promise<void>
  /** See Agent.adoptThreads; a graph without it has no threads but ours. */
  adoptThreads?: Agent['adoptThreads']
}

export interface GraphThread {
  /** The graph's name for it. */
  readonly id: string
  /** The state at a checkpoint; `null`: at the newest one. Null: there is none. */
  state(checkpointId: string | null): Promise<GraphState | null>
  /**
   * Works once. Every part is heard in the turn it came; after a false `space` is awaited before more is read.
   * Resolves when the graph has said everything. When the signal aborts the graph is stopped, wherever it works, before this rejects.
   * @throws AgentError, what `hear` throws, the signal's reason
   */
  work(input: GraphInput, hear: (part: Part) => boolean, space: () => Promise<void>): Promise<void>
}

/** What a graph is asked to do. */
export interface GraphInput {
  /** Written into its state before it works; null: it goes on from where it stands. */
  readonly input: JsonObject | null
  /** The answer to its questions. */
  readonly resume: { readonly value: Json } | null
  /** The checkpoint it goes on from; null: the newest. */
  readonly checkpointId: string | null
}

/** One thing that a graph tells. */
export interface Part {
  /** LangGraph's stream mode: `messages` for the tuple of a piece and its metadata, and `error`. */
  readonly mode: string
  /** The tasks it comes from, from the outermost inwards; empty: the graph itself. */
  readonly namespace: readonly string[]
  readonly data: Json
}

export interface GraphState {
  /** Null: it will not be found again by one. */
  readonly checkpointId: string | null
  /** The graph's name for the run that made it. */
  readonly runId: string | null
  readonly values: JsonObject
  /** Nodes that would go on from here. */
  readonly next: readonly string[]
  readonly interrupts: readonly Interrupt[]
}
