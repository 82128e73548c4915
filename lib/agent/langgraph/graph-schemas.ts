// JSON schemas of a graph: LangGraph's own for state with run-time types, else derived from its channels.
import { isObject, type Json, type JsonObject } from '../../types.ts'
import type { CompiledGraph, LangGraph } from './library.ts'
import { plain } from './plain.ts'

const DRAFT = 'http://json-schema.org/draft-07/schema#'

export function schemasOf(graph: CompiledGraph, { schemas, messagesStateReducer }: LangGraph): JsonObject {
  const named = namesOf(graph, messagesStateReducer)
  if (!schemas) return named
  const told = (ask: (graph: object) => unknown): JsonObject | null => {
    try {
      const schema = plain(ask(graph))
      return isObject(schema) ? schema : null
    } catch {
      // The type has no JSON schema.
      return null
    }
  }
  const config = told(schemas.getConfigTypeSchema)
  const typed = {
    state_schema: told(schemas.getStateTypeSchema),
    input_schema: told(schemas.getInputTypeSchema),
    output_schema: told(schemas.getOutputTypeSchema),
    config_schema: config,
    // In LangGraph.js they are the same.
    context_schema: config
  }
  return { ...named, ...Object.fromEntries(Object.entries(typed).filter(([, schema]) => schema !== null)) }
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
const MESSAGES: JsonObject = { type: 'array', items: { $ref: '#/definitions/BaseMessage' } }

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
