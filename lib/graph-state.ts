// LangGraph's checkpoints, as its checkpointer writes them.

/** One version of one channel: stored once, however many checkpoints refer to it. */
export interface GraphValue {
  /** Channel and version, unique in the thread and the namespace. */
  readonly name: string
  /** LangGraph's name for the encoding of `data`. */
  readonly type: string
  readonly data: string
}

/** A pending write of a task, not part of a checkpoint yet. */
export interface GraphTaskWrite {
  readonly task_id: string
  /** Position of the task in its superstep. */
  readonly task_path: string
  /** Index among the task's writes; below 0 for kinds of which a task has only one. */
  readonly idx: number
  readonly channel: string
  readonly type: string
  readonly data: string
}

/** Pending writes for one checkpoint. */
export interface GraphTaskWrites {
  readonly thread_id: string
  readonly ns: string
  readonly checkpoint_id: string
  /** The run they belong to, which may not be the checkpoint's: they go when it is rolled back. null: a state update. */
  readonly run_id: string | null
  readonly writes: readonly GraphTaskWrite[]
}

export interface GraphCheckpointHead {
  readonly thread_id: string
  /** Namespace of a subgraph; empty: the graph itself. */
  readonly ns: string
  readonly checkpoint_id: string
  readonly parent_id: string | null
  /** The run that made it; null: a state update. */
  readonly run_id: string | null
  /** JSON, without the values of its channels. */
  readonly checkpoint: string
  /** JSON. */
  readonly metadata: string
  /** Names of all its values, including unchanged ones. */
  readonly names: readonly string[]
}

export interface GraphCheckpointWrite extends GraphCheckpointHead {
  /** The new values. */
  readonly values: readonly GraphValue[]
}

/** What a checkpointer writes, in its order. */
export type GraphWrite =
  | ({ readonly name: 'graph.put' } & GraphCheckpointWrite)
  | ({ readonly name: 'graph.write' } & GraphTaskWrites)

/** A change of a graph's state outside of a run, with how its thread stands afterwards. */
export interface GraphUpdate {
  readonly thread_id: string
  /** The version the change was made of, see `GraphStateReads.version`; absent: it is a fork, whatever is newest. */
  readonly expected?: string | null
  readonly writes: readonly GraphWrite[]
  readonly status: 'idle' | 'interrupted'
  /** The thread's new name; null: unchanged. */
  readonly title: string | null
}

export interface StoredGraphCheckpoint extends GraphCheckpointHead {
  readonly values: readonly GraphValue[]
  readonly writes: readonly GraphTaskWrite[]
}

export interface GraphPage {
  /** null: all namespaces. */
  readonly ns: string | null
  readonly limit: number
  /** Only those written before this one; none if it does not exist. */
  readonly before?: string
}
