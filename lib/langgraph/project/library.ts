// Loads the LangGraph library of the user's project, which is not our dependency, and types the part we use.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { JsonObject } from '../../base/types.ts'

const PACKAGE = '@langchain/langgraph'

export interface Serde {
  dumpsTyped(value: unknown): Promise<[string, Uint8Array]> | [string, Uint8Array]
  loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> | unknown
}

export interface RunnableConfig {
  readonly configurable?: Record<string, unknown>
  readonly metadata?: Record<string, unknown>
}

export interface StateSnapshot {
  readonly values: unknown
  readonly next: readonly string[]
  readonly config: RunnableConfig
  readonly metadata?: JsonObject
  readonly createdAt?: string
  readonly parentConfig?: RunnableConfig
  readonly tasks: readonly SnapshotTask[]
  /** Of LangGraph for Python alone. */
  readonly interrupts?: readonly unknown[]
}

interface SnapshotTask {
  readonly id: string
  readonly name: string
  readonly error?: unknown
  readonly interrupts?: readonly unknown[]
  readonly path?: unknown
  readonly state?: StateSnapshot | RunnableConfig
  readonly result?: unknown
}

/** The part of LangGraph's Pregel we use. */
export interface CompiledGraph {
  checkpointer?: unknown
  store?: unknown
  readonly channels?: Record<string, unknown>
  /** Names of channels that make the answer of a call. */
  readonly outputChannels?: unknown
  /** Of `compile({ transformers })`. */
  readonly streamTransformers?: readonly unknown[]
  /** The builder it was compiled from, with its input and output channels. */
  readonly builder?: { readonly _inputDefinition?: object; readonly _outputDefinition?: object }
  stream(input: unknown, options: object): Promise<AsyncIterable<unknown>>
  streamEvents?(input: unknown, options: object): AsyncIterable<unknown>
  getState(config: object, options?: object): Promise<StateSnapshot>
  getStateHistory(config: object, options?: object): AsyncIterable<StateSnapshot>
  updateState(config: object, values: unknown, asNode?: string): Promise<RunnableConfig>
  bulkUpdateState?(config: object, supersteps: object[]): Promise<RunnableConfig>
  getGraphAsync?(config: object): Promise<{ toJSON(): unknown }>
  getSubgraphsAsync?(namespace?: string, recurse?: boolean): AsyncIterable<[string, CompiledGraph]>
  /** Its JSON schemas, of a graph that tells them itself. */
  schemas?(): Promise<JsonObject>
  /** The call it was made for is over. */
  release?(): void
}

/** What LangGraph's stream transformers make of a run. */
export interface GraphRunStream extends AsyncIterable<ProtocolEvent> {
  /** What each transformer has returned: channels, and promises of final values. */
  readonly extensions: Readonly<Record<string, unknown>>
}

interface ProtocolEvent {
  readonly method: string
  readonly params: { readonly namespace: readonly string[]; readonly data: unknown }
}

/** JSON schemas of graphs whose state is declared with run-time types (zod); undefined for others. */
export interface GraphSchemas {
  getStateTypeSchema(graph: object): unknown
  getInputTypeSchema(graph: object): unknown
  getOutputTypeSchema(graph: object): unknown
  getConfigTypeSchema(graph: object): unknown
}

export interface LangGraph {
  readonly version: string
  /** Of another process, and another language: what it gives is JSON already, and its modes are those of LangGraph for Python. */
  readonly isRemote?: true
  /** null: this version has none. */
  readonly schemas: GraphSchemas | null
  /** The reducer of message channels. */
  readonly messagesStateReducer?: unknown
  /** Since 1.3; and the modes of the chunks that it reads. */
  readonly createGraphRunStream?: (chunks: AsyncIterable<unknown>, transformers: readonly unknown[]) => GraphRunStream
  readonly STREAM_EVENTS_V3_MODES?: readonly string[]
  readonly BaseCheckpointSaver: new () => { serde: Serde }
  readonly BaseStore: new () => object
  readonly Command: new (fields: object) => object
  readonly Send: new (node: string, args: unknown) => object
}

/**
 * The LangGraph beside a file: the same instance as the file's own, so that its classes are the graph's.
 * @param path of the graph's file, absolute
 * @throws Error when there is none
 */
export async function langGraphOf(path: string): Promise<LangGraph> {
  const require = createRequire(path)
  const root = rootOf(require.resolve(PACKAGE))
  // LangGraph's own package.json.
  const { version, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  const load = async (name: string): Promise<unknown> => {
    if (path.endsWith('.cjs') || path.endsWith('.cts')) return require(posix.join(PACKAGE, name))
    const entry = exports[name]?.import ?? ''
    return import(pathToFileURL(join(root, typeof entry === 'string' ? entry : entry.default)).href)
  }
  // These exports are documented by LangGraph.
  const library = (await load('.')) as Omit<LangGraph, 'version' | 'schemas'>
  const schemas = SCHEMAS in exports ? ((await load(SCHEMAS)) as GraphSchemas) : null
  return { ...library, schemas, version }
}

const SCHEMAS = './zod/schema'

interface Manifest {
  readonly version: string
  readonly exports: Readonly<Record<string, { readonly import: { readonly default: string } | string }>>
}

function rootOf(file: string): string {
  let folder = dirname(file)
  while (!isRoot(folder)) folder = dirname(folder)
  return folder
}

function isRoot(folder: string): boolean {
  const file = join(folder, 'package.json')
  if (folder === dirname(folder)) throw new Error(`${PACKAGE} has no package.json`)
  return existsSync(file) && readFileSync(file, 'utf8').includes(`"name": "${PACKAGE}"`)
}
