// A store of somebody else's: what its file is given, and what it exports.
import type { JsonObject } from '../../types.ts'
import type { Store } from '../store.ts'
import type { EventStore } from './event-store.ts'

/** What the gateway tells a store of somebody else's when it opens it. */
export interface ModuleOptions {
  /** The data home, absolute: what a store writes lies below it. */
  readonly home: string
  /** `options` beside `module` in the configuration, as they stand there. */
  readonly options: JsonObject
  /** Writes a line to the log. */
  warn(fields: object, text: string): void
}
/** What a module exports that `run_events.backend: { module }` names: `export const openEventStore: OpenEventStore = ...`. */
export type OpenEventStore = (options: ModuleOptions) => Promise<EventStore>
/** What a module exports that `database.backend: { module }` names: `export const openStore: OpenStore = ...`. */
export type OpenStore = (options: ModuleOptions) => Promise<Store>
