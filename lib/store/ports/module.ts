// A custom store: what its module is given, and what it exports.
import type { JsonObject } from '../../base/types.ts'
import type { Store } from '../store.ts'
import type { EventStore } from './event-store.ts'

export type Warn = (fields: object, text: string) => void

/** Passed to a custom store when it is opened. */
export interface ModuleOptions {
  /** The data home, absolute: a store writes below it. */
  readonly home: string
  /** `options` next to `module` in the configuration, unchanged. */
  readonly options: JsonObject
  readonly warn: Warn
}
/** Export of a module named by `run_events.backend: { module }`: `export const openEventStore: OpenEventStore = ...`. */
export type OpenEventStore = (options: ModuleOptions) => Promise<EventStore>
/** Export of a module named by `database.backend: { module }`: `export const openStore: OpenStore = ...`. */
export type OpenStore = (options: ModuleOptions) => Promise<Store>
