// A graph that langgraph.json names no more: the states that it has left are read from its checkpoints. What is next in them, and what
// its tasks ask, only the graph itself could say.
import type { JsonObject } from '../../base/types.ts'
import type { CompiledGraph, RunnableConfig, StateSnapshot } from './library.ts'

/** What reading a state takes of a graph. */
export type ReadableGraph = Pick<
  CompiledGraph,
  'getState' | 'getStateHistory' | 'channels' | 'outputChannels' | 'release'
>

/** The reads of LangGraph's checkpointer. */
export interface SavedStates {
  getTuple(config: RunnableConfig): Promise<SavedState | undefined>
  list(config: RunnableConfig, options?: object): AsyncIterable<SavedState>
}

interface SavedState {
  readonly config: RunnableConfig
  readonly parentConfig?: RunnableConfig
  readonly metadata: JsonObject
  readonly checkpoint: { readonly ts?: string; readonly channel_values: Readonly<Record<string, unknown>> }
}

/** A state that is one value, and no channels by name. */
const ROOT = '__root__'
/** Channels of LangGraph's own: of beginnings, branches and tasks. */
const INTERNAL = /^__|:/

export class GoneGraph implements ReadableGraph {
  readonly #saved: SavedStates

  constructor(saved: SavedStates) {
    this.#saved = saved
  }

  async getState(config: RunnableConfig): Promise<StateSnapshot> {
    const found = await this.#saved.getTuple(config)
    return found ? snapshotOf(found) : { values: {}, next: [], tasks: [], config }
  }

  async *getStateHistory(config: RunnableConfig, options: object = {}): AsyncGenerator<StateSnapshot> {
    for await (const saved of this.#saved.list(config, options)) yield snapshotOf(saved)
  }
}

function snapshotOf({ config, parentConfig, metadata, checkpoint }: SavedState): StateSnapshot {
  const { ts, channel_values: channels } = checkpoint
  const shown = Object.entries(channels).filter(([name]) => !INTERNAL.test(name))
  return {
    values: ROOT in channels ? channels[ROOT] : Object.fromEntries(shown),
    next: [],
    tasks: [],
    config,
    metadata,
    ...(ts !== undefined && { createdAt: ts }),
    ...(parentConfig && { parentConfig })
  }
}
