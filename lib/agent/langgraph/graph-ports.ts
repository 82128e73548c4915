// Services for in-process graphs.
import type { Door } from '../../loopback.ts'
import type { JsonObject } from '../../types.ts'
import type { GraphItems } from './graph-store.ts'
import type { GraphReads, GraphWrite } from './saver.ts'

/** Thread lookups, and storing updates. */
export interface GraphThreads {
  /** The graph of a thread; null: none yet; undefined: no such thread. */
  graphOf(threadId: string): Promise<string | null | undefined>
  /** Config of the thread's newest run, with which a factory makes the same graph again. */
  configOf(threadId: string): Promise<JsonObject>
  /**
   * Stores the writes of an update in one transaction. `title`: the thread's new name.
   * @returns false: a run is in flight, or the thread is gone
   */
  write(
    threadId: string,
    writes: readonly GraphWrite[],
    stand: { readonly isWaiting: boolean; readonly title: string | null }
  ): Promise<boolean>
  copy(fromId: string, toId: string): Promise<void>
  isBusy(threadId: string): Promise<boolean>
}

export interface GraphPorts {
  readonly reads: GraphReads
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
