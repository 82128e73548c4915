// The services in-process graphs use.
import type { Door } from '../../loopback.ts'
import type { JsonObject } from '../../types.ts'
import type { GraphItems } from './graph-store.ts'
import type { GraphReads, GraphWrite } from './saver.ts'

/** Thread lookups, and storing updates. */
export interface GraphThreads {
  /** The graph that the thread is with, as its record says; null: none yet; undefined: there is no such thread. */
  graphOf(threadId: string): Promise<string | null | undefined>
  /** What the thread's newest run was configured with: a factory makes the same graph of it again. */
  configOf(threadId: string): Promise<JsonObject>
  /**
   * Stores what an update has written, all or nothing. `title`: the thread's new name.
   * @returns false: a run of the thread is in flight, or it is gone
   */
  write(
    threadId: string,
    writes: readonly GraphWrite[],
    stand: { readonly isWaiting: boolean; readonly title: string | null }
  ): Promise<boolean>
  copy(fromId: string, toId: string): Promise<void>
  isBusy(threadId: string): Promise<boolean>
}

/** Services for graphs: their states, and which thread belongs to which graph. */
export interface GraphPorts {
  readonly reads: GraphReads
  readonly threads: GraphThreads
  /** The long-term store. */
  readonly items: GraphItems
  /** To the service's own API. */
  readonly door: Door
  readonly log: GraphLog
}

export interface GraphLog {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}
