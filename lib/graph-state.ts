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
