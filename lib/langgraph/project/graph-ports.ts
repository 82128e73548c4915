// Services for in-process graphs.
import type { StatePort } from '../../agent/states.ts'
import type { Door } from '../../base/loopback.ts'
import type { GraphUpdate } from '../../conversation/state.ts'
import type { JsonObject } from '../../base/types.ts'
import type { GraphItems } from './graph-store.ts'
import type { GraphReads } from './saver-session.ts'

/** Thread lookups, and storing updates. */
export interface GraphThreads {
  /** The graph of a thread; null: none yet; undefined: no such thread. */
  graphOf(threadId: string): Promise<string | null | undefined>
  /** Config and context of the thread's newest run, with which a factory makes the same graph again. */
  configOf(threadId: string): Promise<{ readonly config: JsonObject; readonly context: JsonObject }>
  /**
   * Stores an update in one transaction.
   * @returns `busy`: a run is in flight, or the thread is gone; `conflict`: the thread has another version than expected
   */
  update(update: GraphUpdate): Promise<'written' | 'busy' | 'conflict'>
  copy(fromId: string, toId: string): Promise<void>
  isBusy(threadId: string): Promise<boolean>
}

export interface VersionedReads extends GraphReads {
  /** Changes with every checkpoint of the thread; null: it has none. */
  version(threadId: string): Promise<string | null>
}

/** It takes no graph to say whether a checkpoint is there. */
export const hasCheckpoint =
  (reads: GraphReads): StatePort['has'] =>
  async (threadId, checkpointId, namespace = '') =>
    (await reads.load(threadId, namespace, checkpointId)) !== null

export interface GraphPorts {
  readonly reads: VersionedReads
  readonly threads: GraphThreads
  readonly items: GraphItems
  /** Access to our own API. */
  readonly door: Door
  readonly log: GraphLog
}

export interface GraphLog {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}
