// The state of threads as a port of the agent's runtime: the built-in agent and agents of a file have it from our checkpoints, graphs
// from LangGraph's. Who asks knows no table and no graph. What is answered is JSON text: mostly it is only passed on.
import type { Json, JsonObject } from '../types.ts'

/** Which state of a thread. */
export interface StatePlace {
  /** null: the newest. */
  readonly checkpointId: string | null
  /** Of a graph inside of the graph, e.g. `worker:<task>`; empty: the graph itself. */
  readonly namespace: string
}

export interface HistoryQuery {
  readonly limit: number
  /** A checkpoint: only what is older. */
  readonly before: string | null
  /** That checkpoint and what led to it, or a namespace; null: all of the graph itself. */
  readonly place: StatePlace | null
  /** Exact values of the checkpoints' metadata; null: any. */
  readonly metadata: JsonObject | null
  /** Who asks: what is shown beside the messages is theirs. */
  readonly user: string | null
}

/** What one node is said to have written. */
export interface StateUpdate {
  /** null, with `__end__` as node: nothing goes on from here. */
  readonly values: Json
  readonly asNode: string | null
  /** LangGraph's command in place of values. */
  readonly command?: JsonObject | null
}

export interface StateChange extends StateUpdate {
  readonly place: StatePlace
  readonly user: string | null
}

export type StateChanged =
  /** The state after it, as `get` answers it. */
  | { readonly outcome: 'written'; readonly json: string }
  /** `busy`: a run of the thread is in flight. */
  | { readonly outcome: 'busy' | 'checkpoint_missing' }
  /** There is no such node or channel, or message `index` is none; the text is for who asked. */
  | { readonly outcome: 'invalid'; readonly message: string; readonly index?: number }

/** What lists and final answers show of a state. */
export interface StateValues {
  readonly json: string
  /** Questions that wait, by task. */
  readonly interrupts: JsonObject
}

/** A graph that a run can name; the lead agent is one, and its only one. */
export interface GraphInfo {
  readonly id: string
  readonly description: string | null
  /** What its runs are configured with that say nothing else; absent: nothing. */
  readonly config?: JsonObject
  readonly context?: JsonObject
}

export interface StatePort {
  /** Whether the thread has this checkpoint. */
  has(threadId: string, checkpointId: string): Promise<boolean>
  /** null: there is no such state. A thread that nothing was ever written to has one of its own. */
  get(threadId: string, place: StatePlace, withSubgraphs?: boolean): Promise<string | null>
  /** The values alone; `checkpointId` null: the newest. null: there are none. */
  values(threadId: string, checkpointId: string | null): Promise<StateValues | null>
  /** Newest first. */
  history(threadId: string, query: HistoryQuery): Promise<string[]>
  /** Writes through the reducers of the graph, as one of its nodes would. Refused while a run is in flight. */
  update(threadId: string, change: StateChange): Promise<StateChanged>
  /** Makes a history of a new thread: each of the supersteps is a checkpoint. */
  build(
    threadId: string,
    graphId: string | null,
    supersteps: readonly (readonly StateUpdate[])[]
  ): Promise<StateChanged>
  /** All checkpoints of a thread become those of another one, that was just made. */
  copy(fromId: string, toId: string): Promise<void>

  /** What runs can name, in the order in which they are configured; the first is what a run is with that names none. */
  graphs(): readonly GraphInfo[]
  /** Schemas of a graph as LangGraph's clients read them; null: there is no such graph. */
  schemas(graphId: string, config?: JsonObject): Promise<JsonObject | null>
  /** Its drawing: `nodes` and `edges`; null: there is no such graph. `xray`: how deep into graphs inside of it, true: all the way. */
  draw(graphId: string, xray: boolean | number, config?: JsonObject): Promise<JsonObject | null>
  /** Schemas of the graphs inside of it, by namespace; null: there is no such graph. */
  subgraphs(
    graphId: string,
    namespace: string | null,
    recurse: boolean,
    config?: JsonObject
  ): Promise<JsonObject | null>
}
