// What graphs of LangGraph keep of their threads: its checkpoints, as it writes them. What stands in them is its own affair.

/** One version of one channel of a graph: kept once, however many checkpoints it stands in. */
export interface GraphValue {
  /** Channel and version, unique in the thread and the namespace. */
  readonly name: string
  /** How `data` is written, in LangGraph's words. */
  readonly type: string
  readonly data: string
}

/** What a task has written that no checkpoint holds yet. */
export interface GraphTaskWrite {
  readonly task_id: string
  /** Where the task stands among those of its superstep. */
  readonly task_path: string
  /** Its place among those of the task; below 0 for those of which a task has one of a kind. */
  readonly idx: number
  readonly channel: string
  readonly type: string
  readonly data: string
}

export interface GraphCheckpointHead {
  readonly thread_id: string
  /** Of a graph inside of the graph; empty: the graph itself. */
  readonly ns: string
  readonly checkpoint_id: string
  readonly parent_id: string | null
  /** The run that has made it; null: an update. */
  readonly run_id: string | null
  /** JSON, without the values of its channels. */
  readonly checkpoint: string
  /** JSON. */
  readonly metadata: string
  /** Of its values, those of earlier checkpoints too. */
  readonly names: readonly string[]
}

export interface GraphCheckpointWrite extends GraphCheckpointHead {
  /** Those that are new. */
  readonly values: readonly GraphValue[]
}

export interface StoredGraphCheckpoint extends GraphCheckpointHead {
  readonly values: readonly GraphValue[]
  readonly writes: readonly GraphTaskWrite[]
}

export interface GraphPage {
  /** null: of all namespaces. */
  readonly ns: string | null
  readonly limit: number
  /** Only those that were written before this one; none when it is not there. */
  readonly before?: string
}

export interface GraphStateReads {
  /** `checkpointId` null: the newest of the namespace, which is the one that was written last [Store 11]. */
  load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null>
  /** Newest first. */
  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]>
}
