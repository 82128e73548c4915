// Custom stores, loaded from the module the configuration names. A wrong one is refused at start.
import { pathToFileURL } from 'node:url'
import type { JsonObject } from '../types.ts'
import type { EventStore, ModuleOptions, Store } from './store.ts'

/** A store in the configuration: `{ module: ./their-store.js, options: {...} }`. */
export interface ModuleRef {
  /** Absolute. */
  readonly module: string
  readonly options: JsonObject
}

type ModuleContext = Omit<ModuleOptions, 'options'>

/** @throws Error when the file cannot be loaded, exports no `openEventStore`, or what that answers has less than `like`. */
export async function openEventModule(ref: ModuleRef, context: ModuleContext, like: EventStore): Promise<EventStore> {
  const opened = await opens('run_events.backend', 'openEventStore', ref, context)
  refuse('run_events.backend', 'openEventStore', ref, missingIn(opened, like, ''))
  // Every method was looked for.
  return opened as EventStore
}

/** @throws Error when the file cannot be loaded, exports no `openStore`, or what that answers has less than `like`. */
export async function openDatabaseModule(ref: ModuleRef, context: ModuleContext, like: Store): Promise<Store> {
  const opened = await opens('database.backend', 'openStore', ref, context)
  const missing = Object.entries(like).flatMap(([noun, methods]) => {
    // null says that there is no feedback.
    if (typeof methods !== 'object' || (noun === 'feedback' && memberOf(opened, noun) === null)) return []
    return missingIn(memberOf(opened, noun), methods, `${noun}.`)
  })
  refuse('database.backend', 'openStore', ref, [...missingIn(opened, like, ''), ...missing])
  // Every method was looked for.
  return opened as Store
}

async function opens(option: string, name: string, ref: ModuleRef, context: ModuleContext): Promise<unknown> {
  const exported = await load(option, ref.module)
  const open = memberOf(exported, name)
  if (typeof open !== 'function') throw new Error(`${option}: ${ref.module} exports no function ${name}`)
  const options: ModuleOptions = { ...context, options: ref.options }
  return open(options)
}

async function load(option: string, path: string): Promise<unknown> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`${option}: ${path} cannot be loaded (${why})`, { cause: error })
  }
}

/** Names of the methods of `like` that it does not have. */
function missingIn(value: unknown, like: object, prefix: string): string[] {
  const methods = Object.entries(like).flatMap(([name, member]) => (typeof member === 'function' ? [name] : []))
  return methods.flatMap((name) => (typeof memberOf(value, name) === 'function' ? [] : [prefix + name]))
}

function refuse(option: string, name: string, { module }: ModuleRef, missing: readonly string[]): void {
  if (missing.length === 0) return
  throw new Error(`${option}: what ${name} of ${module} answers has no ${missing.join(', ')}`)
}

function memberOf(value: unknown, name: string): unknown {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return undefined
  // Reading a member is safe on any object.
  return (value as Record<string, unknown>)[name]
}
