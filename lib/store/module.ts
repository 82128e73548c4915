// Stores of somebody else's, loaded from the file that the configuration names. What is wrong with one is said at start.
import { pathToFileURL } from 'node:url'
import type { JsonObject } from '../types.ts'
import type {
  ApiTokenReads,
  AssistantReads,
  CheckpointReads,
  EventReads,
  EventStore,
  FeedbackReads,
  FrameReads,
  GraphStateReads,
  CronReads,
  ItemReads,
  WebhookReads,
  ModuleOptions,
  RunReads,
  Store,
  ThreadReads,
  TtlReads,
  UserReads
} from './store.ts'

/** A store in the configuration: `{ module: ./their-store.js, options: {...} }`. */
export interface ModuleRef {
  /** Absolute. */
  readonly module: string
  readonly options: JsonObject
}

export interface ModuleContext {
  readonly home: string
  readonly warn: ModuleOptions['warn']
}

type Methods<T> = Record<keyof T, true>

const EVENT_STORE: Methods<Omit<EventStore, 'setTombstones' | 'tombstones'>> = {
  select: true,
  append: true,
  truncate: true,
  remove: true,
  close: true
}

const USERS: Methods<UserReads> = { byId: true, ofSession: true, byEmail: true, admin: true }
const API_TOKENS: Methods<ApiTokenReads> = { byDigest: true, list: true }
const ASSISTANTS: Methods<AssistantReads> = { get: true, list: true, versions: true }
const THREADS: Methods<ThreadReads> = { get: true, ownerOf: true, search: true }
const RUNS: Methods<RunReads> = {
  get: true,
  byKey: true,
  list: true,
  after: true,
  inFlight: true,
  unfinished: true,
  tokens: true
}
const EVENTS: Methods<EventReads> = {
  listMessages: true,
  listMessagesByRun: true,
  listEvents: true,
  nextSeq: true,
  lastK: true,
  runsOfMessages: true
}
const FRAMES: Methods<FrameReads> = { read: true, bounds: true }
const CHECKPOINTS: Methods<CheckpointReads> = { load: true, history: true }
const TTLS: Methods<TtlReads> = { get: true, due: true }
const GRAPH_STATES: Methods<GraphStateReads> = { load: true, list: true }
const ITEMS: Methods<ItemReads> = { get: true, search: true, namespaces: true }
const CRONS: Methods<CronReads> = { get: true, list: true, areDue: true }
const WEBHOOKS: Methods<WebhookReads> = { areDue: true }
const FEEDBACK: Methods<FeedbackReads> = { list: true, stats: true, byRuns: true }

/** @throws Error when the file cannot be loaded, exports no `openEventStore`, or what that answers is no EventStore. */
export async function openEventModule(ref: ModuleRef, context: ModuleContext): Promise<EventStore> {
  const opened = await opens('run_events.backend', 'openEventStore', ref, context)
  refuse('run_events.backend', 'openEventStore', ref, missingIn(opened, EVENT_STORE, ''))
  // Every method was looked for.
  return opened as EventStore
}

/** @throws Error when the file cannot be loaded, exports no `openStore`, or what that answers is no Store. */
export async function openDatabaseModule(ref: ModuleRef, context: ModuleContext): Promise<Store> {
  const opened = await opens('database.backend', 'openStore', ref, context)
  const nouns = Object.entries({
    users: USERS,
    apiTokens: API_TOKENS,
    assistants: ASSISTANTS,
    threads: THREADS,
    runs: RUNS,
    events: EVENTS,
    frames: FRAMES,
    checkpoints: CHECKPOINTS,
    ttls: TTLS,
    graphStates: GRAPH_STATES,
    items: ITEMS,
    crons: CRONS,
    webhooks: WEBHOOKS
  })
  const missing = [
    ...missingIn(opened, { apply: true, close: true }, ''),
    ...nouns.flatMap(([noun, methods]) => missingIn(memberOf(opened, noun), methods, `${noun}.`)),
    // null says that there is no feedback.
    ...(memberOf(opened, 'feedback') === null ? [] : missingIn(memberOf(opened, 'feedback'), FEEDBACK, 'feedback.'))
  ]
  refuse('database.backend', 'openStore', ref, missing)
  // Every method was looked for.
  return opened as Store
}

/** Calls the function that the module exports for this. */
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

function missingIn(value: unknown, methods: Readonly<Record<string, true>>, prefix: string): string[] {
  const isThere = (name: string) => typeof memberOf(value, name) === 'function'
  return Object.keys(methods).flatMap((name) => (isThere(name) ? [] : [prefix + name]))
}

function refuse(option: string, name: string, { module }: ModuleRef, missing: readonly string[]): void {
  if (missing.length === 0) return
  throw new Error(`${option}: what ${name} of ${module} answers has no ${missing.join(', ')}`)
}

function memberOf(value: unknown, name: string): unknown {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return undefined
  // Whatever object it is, reading a member of it is harmless.
  return (value as Record<string, unknown>)[name]
}
