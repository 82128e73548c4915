// The port for states of threads: from our checkpoints for the built-in agent and agents in files, from LangGraph's for graphs.
// Results are JSON text, which is mostly only passed on.
import type { Interrupt, Json, JsonObject, Message } from '../base/types.ts'

/** Selects a state of a thread. */
export interface StatePlace {
  /** null: the newest. */
  readonly checkpointId: string | null
  /** Namespace of a subgraph, e.g. `worker:<task>`; empty: the graph itself. */
  readonly namespace: string
}

export interface HistoryQuery {
  readonly limit: number
  /** A checkpoint: only older ones. */
  readonly before: string | null
  /** A checkpoint with its ancestors, or a namespace; null: the whole graph itself. */
  readonly place: StatePlace | null
  /** Required metadata of the checkpoints; null: any. */
  readonly metadata: JsonObject | null
  /** The asking user: feedback shown beside messages is theirs. */
  readonly user: string | null
  /** For LangGraph's clients: checkpoints without `id` and `ts`, as in streams. */
  readonly isBare?: boolean
}

/** A write attributed to one node. */
export interface StateUpdate {
  /** null, with node `__end__`: the graph is finished. */
  readonly values: Json
  readonly asNode: string | null
  /** LangGraph's command in place of values. */
  readonly command?: JsonObject | null
}

export interface StateChange extends StateUpdate {
  readonly place: StatePlace
  /** Of a thread that has no graph yet, whose this is. */
  readonly graphId?: string
  /** Id of the checkpoint that it was made of: a `conflict` when there is a newer one. Graphs, which add to their state, do not look at it. */
  readonly expected?: string
  readonly user: string | null
}

export type StateChanged =
  /** The state afterwards, as `get` returns it. */
  | { readonly outcome: 'written'; readonly json: string }
  /** `busy`: a run of the thread is in flight; `conflict`: others kept changing the state meanwhile. */
  | { readonly outcome: 'busy' | 'conflict' | 'checkpoint_missing' }
  /** No such node or channel, or message `index` is invalid; the text is for the caller. */
  | { readonly outcome: 'invalid'; readonly message: string; readonly index?: number }

/** The part of a state shown in lists and final answers. */
export interface StateValues {
  readonly json: string
  /** Open questions, by task. */
  readonly interrupts: JsonObject
  /** The run has answered with channels too that no checkpoint keeps: the state that it showed last has them. */
  readonly isPartial?: boolean
}

/** A state as one of our checkpoints keeps it. */
export interface KeptState {
  readonly checkpointId: string
  /** As an entry of a history. */
  readonly json: string
  /** Including channels that clients do not see. */
  state(): { readonly messages: readonly Message[]; readonly channels: Readonly<Record<string, Json>> }
}

/** Those of our checkpoints. */
export interface KeptStates extends StatePort {
  /** Newest first; `before`: a checkpoint, only older ones. */
  kept(threadId: string, page: Pick<HistoryQuery, 'limit' | 'before' | 'user'>): Promise<KeptState[]>
}

/** A state that others keep. */
export interface StateAt {
  readonly messages: readonly Message[]
  readonly channels: Readonly<Record<string, Json>>
  /** Channels that clients do not see, by which its agent finds it. */
  readonly own: Readonly<Record<string, Json>>
  readonly interrupts: readonly Interrupt[]
  /** Nodes that would run next. */
  readonly next: readonly string[]
}

/** A graph a run can name; for the built-in agent, the lead agent is the only one. */
export interface GraphInfo {
  readonly id: string
  readonly description: string | null
  /** Default config of its runs; absent: none. */
  readonly config?: JsonObject
  readonly context?: JsonObject
}

/** What graphs are. */
export type GraphDescriptions = Pick<StatePort, 'graphs' | 'schemas' | 'draw' | 'subgraphs'>

export interface StatePort {
  /** Graphs write it: their runs take LangGraph's own input, commands and breakpoints, and can go on after a crash. */
  readonly isOfGraphs: boolean
  /** Runs may name nodes before or after which they stop. Graphs always take that. */
  readonly takesBreakpoints?: boolean
  /** Whether the thread has this checkpoint. @param namespace of a subgraph, in which it is; absent: the graph itself */
  has(threadId: string, checkpointId: string, namespace?: string): Promise<boolean>
  /** null: no such state. A thread nothing was written to has a state of its own. */
  get(threadId: string, place: StatePlace, withSubgraphs?: boolean, isBare?: boolean): Promise<string | null>
  /** Only the values; `checkpointId` null: the newest. null: there are none. */
  values(threadId: string, checkpointId: string | null): Promise<StateValues | null>
  /** Newest first. */
  history(threadId: string, query: HistoryQuery): Promise<string[]>
  /** Writes through the graph's reducers, as one of its nodes would. Refused while a run is in flight. */
  update(threadId: string, change: StateChange): Promise<StateChanged>
  /** Creates the history of a new thread: one checkpoint per superstep. */
  build(
    threadId: string,
    graphId: string | null,
    supersteps: readonly (readonly StateUpdate[])[]
  ): Promise<StateChanged>
  /** A state that our checkpoints do not keep, for a run that starts from it; null: there is none. Absent: there are no others. */
  elsewhere?(threadId: string, checkpointId: string): Promise<StateAt | null>
  /** Copies all checkpoints of a thread to another one just created. */
  copy(fromId: string, toId: string): Promise<void>

  /** Graphs runs can name, in configured order; the first is the default. */
  graphs(): readonly GraphInfo[]
  /** Schemas of a graph as LangGraph's clients read them; null: no such graph. */
  schemas(graphId: string, config?: JsonObject): Promise<JsonObject | null>
  /** Its drawing: `nodes` and `edges`; null: no such graph. `xray`: depth of subgraphs, true: all. */
  draw(graphId: string, xray: boolean | number, config?: JsonObject): Promise<JsonObject | null>
  /** Schemas of its subgraphs, by namespace; null: no such graph. */
  subgraphs(
    graphId: string,
    namespace: string | null,
    recurse: boolean,
    config?: JsonObject
  ): Promise<JsonObject | null>
}
