// JSON schemas of a graph: LangGraph's own for state with run-time types, else read from its types, else derived from its channels.
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import type { LoadedGraph } from './graph-set.ts'
import type { CompiledGraph, GraphSchemas as RunTimeSchemas } from './library.ts'
import { plain } from './plain.ts'
import type { TypeSchemas, SchemasByPath, TypeSchemaRequest } from './type-schemas-worker.ts'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { isTypeScript } from '../../agent/agent-file.ts'
import { warnUnexpected } from '../../base/errors.ts'
import { withTimeout } from '../../base/waiting.ts'

const DRAFT = 'http://json-schema.org/draft-07/schema#'
const MESSAGE_REF = '#/definitions/BaseMessage'

type Schemas = Readonly<Record<`${'state' | 'input' | 'output' | 'config' | 'context'}_schema`, JsonObject | null>>

export class GraphSchemas {
  readonly #types = new TypeSchemaReader()

  /** @param path of a graph within `loaded`: `outer|inner`; '': itself */
  async of(graph: CompiledGraph, { library, file, exportName }: LoadedGraph, path: string): Promise<JsonObject> {
    if (graph.schemas) return graph.schemas()
    const { schemas, messagesStateReducer } = library
    const named = namesOf(graph, messagesStateReducer)
    const typed = schemas && known(runTimeSchemas(graph, schemas))
    if (typed && Object.keys(typed).length > 0) return { ...named, ...typed }
    const declared = (await this.#types.of(file, exportName))[path]
    return declared ? { ...named, ...known(declaredSchemas(declared)) } : named
  }
}

/** Null for what has no run-time type, or one without a JSON schema. */
function runTimeSchemas(graph: CompiledGraph, schemas: RunTimeSchemas): Schemas {
  const read = (ask: (graph: object) => unknown): JsonObject | null => {
    try {
      const schema = plain(ask(graph))
      return isObject(schema) ? schema : null
    } catch {
      return null
    }
  }
  const config = read(schemas.getConfigTypeSchema)
  return {
    state_schema: read(schemas.getStateTypeSchema),
    input_schema: read(schemas.getInputTypeSchema),
    output_schema: read(schemas.getOutputTypeSchema),
    config_schema: config,
    // In LangGraph.js they are the same.
    context_schema: config
  }
}

function declaredSchemas({ state, input, output, config }: TypeSchemas): Schemas {
  return {
    state_schema: withMessages(state),
    input_schema: withMessages(input),
    output_schema: withMessages(output),
    config_schema: config,
    context_schema: config
  }
}

const known = (schemas: Schemas): JsonObject =>
  Object.fromEntries(Object.entries(schemas).filter((entry): entry is [string, JsonObject] => entry[1] !== null))

/** Those of LangGraph's server for a subgraph, whose SDK declares the long ones. */
export function inServersWords(schemas: JsonObject): JsonObject {
  const words = ['state', 'input', 'output', 'config']
  return Object.fromEntries(words.map((word) => [word, schemas[`${word}_schema`] ?? null]))
}

function withMessages(schema: JsonObject | null): JsonObject | null {
  const hasMessages = schema !== null && JSON.stringify(schema).includes(MESSAGE_REF)
  return hasMessages ? { ...schema, definitions: DEFINITIONS } : schema
}

/** Schemas with the names of the channels, and which of them hold messages. */
function namesOf({ channels = {}, builder }: CompiledGraph, reducer: unknown): JsonObject {
  const names = Object.keys(channels).filter((name) => !/^(__|branch:|start:)/.test(name))
  const isMessages = (name: string) => {
    const channel = channels[name]
    const operator = typeof channel === 'object' && channel !== null && 'operator' in channel ? channel.operator : null
    return name === 'messages' || (operator !== null && operator === reducer)
  }
  const schemaOf = (declared: object | undefined): JsonObject => {
    const own = declared ? names.filter((name) => name in declared) : names
    const properties = Object.fromEntries(own.map((name): [string, Json] => [name, isMessages(name) ? MESSAGES : {}]))
    const definitions = own.some(isMessages) && { definitions: DEFINITIONS }
    return { type: 'object', properties, ...definitions, $schema: DRAFT }
  }
  return {
    state_schema: schemaOf(undefined),
    input_schema: schemaOf(builder?._inputDefinition),
    output_schema: schemaOf(builder?._outputDefinition),
    config_schema: OPEN,
    context_schema: OPEN
  }
}

const OPEN: JsonObject = { type: 'object', properties: {} }
const MESSAGES: JsonObject = { type: 'array', items: { $ref: MESSAGE_REF } }

const text: JsonObject = { type: 'string' }
const anything: JsonObject = { type: 'object', additionalProperties: true }
const CONTENT: JsonObject = { anyOf: [text, { type: 'array', items: anything }] }
const CALLS: JsonObject = { type: 'array', items: anything }

function messageSchema(type: string, more: JsonObject = {}, required: readonly string[] = []): JsonObject {
  const common = { id: text, name: text, content: CONTENT, additional_kwargs: anything, response_metadata: anything }
  return {
    type: 'object',
    properties: { type: { type: 'string', const: type }, ...common, ...more },
    required: ['type', 'content', ...required]
  }
}

/** LangChain's messages, under the schema names of LangGraph's server. */
const KINDS: Readonly<Record<string, JsonObject>> = {
  BaseMessageChunk: messageSchema('AIMessageChunk', { tool_calls: CALLS, tool_call_chunks: CALLS }),
  ToolMessage: messageSchema('tool', { tool_call_id: text, artifact: {}, status: text }, ['tool_call_id']),
  AIMessage: messageSchema('ai', { tool_calls: CALLS, invalid_tool_calls: CALLS, usage_metadata: anything }),
  ChatMessage: messageSchema('generic', { role: text }),
  FunctionMessage: messageSchema('function', {}, ['name']),
  HumanMessage: messageSchema('human'),
  SystemMessage: messageSchema('system'),
  RemoveMessage: {
    type: 'object',
    properties: { type: { type: 'string', const: 'remove' }, id: text },
    required: ['id']
  }
}
const DEFINITIONS: JsonObject = {
  BaseMessage: { oneOf: Object.keys(KINDS).map((name) => ({ $ref: `#/definitions/${name}` })) },
  ...KINDS
}

// ----------------------------------------------------------------------------------------------------------- of types

/** As LangGraph's server waits; on a busy machine the reading goes on for whoever asks next. */
const WAIT_MS = 30_000
/** What takes longer will not end. */
const READ_MS = 300_000
/** A project of many types takes a few hundred megabytes. */
const HEAP_MB = 1024
const NOTHING: SchemasByPath = {}

/** Read once for each graph; empty where there is nothing to read it with, or from, and for who does not wait so long. */
export class TypeSchemaReader {
  readonly #read = new Map<string, Promise<SchemasByPath>>()
  readonly #waitMs: number

  constructor(waitMs = WAIT_MS) {
    this.#waitMs = waitMs
  }

  async of(file: string, name: string): Promise<SchemasByPath> {
    const key = `${file}:${name}`
    const known = this.#read.get(key) ?? read(file, name)
    this.#read.set(key, known)
    return (await withTimeout(known, this.#waitMs)) ?? NOTHING
  }
}

async function read(file: string, name: string): Promise<SchemasByPath> {
  const compiler = compilerBeside(file)
  if (!isTypeScript(file) || compiler === null) return NOTHING
  const script = import.meta.url.endsWith('.ts') ? './type-schemas-worker.ts' : './type-schemas-worker.js'
  const workerData: TypeSchemaRequest = { compiler, file, name }
  const worker = new Worker(new URL(script, import.meta.url), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB }
  })
  // Nobody's end waits for it.
  worker.unref()
  const timer = setTimeout(() => worker.terminate().catch(warnUnexpected), READ_MS)
  timer.unref()
  try {
    return await new Promise<SchemasByPath>((resolve) => {
      worker.once('message', resolve)
      // A project that does not compile has graphs without schemas, as before.
      worker.once('error', () => resolve(NOTHING))
      worker.once('exit', () => resolve(NOTHING))
    })
  } finally {
    clearTimeout(timer)
  }
}

/** The project's own TypeScript, that of LangGraph's server, or one beside us. */
function compilerBeside(file: string): string | null {
  const beside = createRequire(file)
  const requires = [beside, through(beside, '@langchain/langgraph-api'), createRequire(import.meta.url)]
  for (const require of requires) {
    const path = require && resolved(require, 'typescript')
    if (path && existsSync(path)) return path
  }
  return null
}

function through(require: NodeJS.Require, name: string): NodeJS.Require | null {
  const path = resolved(require, name)
  return path === null ? null : createRequire(path)
}

function resolved(require: NodeJS.Require, name: string): string | null {
  try {
    return require.resolve(name)
  } catch {
    return null
  }
}
