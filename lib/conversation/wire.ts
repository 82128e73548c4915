// Turns messages into the JSON of a run's frames, in LangGraph's shape as far as its clients need it: a delta, a last chunk, a whole message,
// each cut when it is too large.
import { type AiMessage, cutTo, type Json, type JsonObject, type Message } from '../base/types.ts'
import type { CallChunk } from './chunk.ts'

/** Clients only read the node; repeating more would cost more than the text [needs N11]. */
const METADATA = '{"langgraph_node":"agent"}'
const TOOLS_METADATA = '{"langgraph_node":"tools"}'

/** What a delta shows: whole characters. */
export interface Shown {
  readonly text?: string | undefined
  readonly reasoning?: string | undefined
  readonly toolCall?: CallChunk | undefined
  /** What its graph says of it; of most agents nothing but the node, which is always the same. */
  readonly metadata?: JsonObject | undefined
}

/**
 * `[chunk, metadata]` as JSON, for one run's deltas. Concatenated by hand, with everything after the text prepared once
 * per message: this runs for every delta.
 */
export class DeltaEncoder {
  #messageId: string | null = null
  #metadata: JsonObject | undefined
  #end = ''

  json(messageId: string, delta: Shown): string {
    if (messageId !== this.#messageId || delta.metadata !== this.#metadata) {
      this.#messageId = messageId
      this.#metadata = delta.metadata
      this.#end = endJson(messageId, metadataJson(METADATA, delta.metadata))
    }
    return startJson(delta) + this.#end
  }
}

/** The start of the chunk. A delta may hold several of text, reasoning and a call fragment: all of it is sent. */
function startJson({ text, reasoning, toolCall }: Shown): string {
  const said = `[{"content":${JSON.stringify(text ?? '')}`
  if (!reasoning && !toolCall) return said
  const thought = reasoning ? `,"additional_kwargs":{"reasoning_content":${JSON.stringify(reasoning)}}` : ''
  const called = toolCall ? `,"tool_call_chunks":[${callChunkJson(toolCall)}]` : ''
  return said + thought + called
}

function endJson(messageId: string, metadata: string): string {
  return `,"type":"AIMessageChunk","id":${JSON.stringify(messageId)}},${metadata}]`
}

function callChunkJson({ index, id, name, args }: CallChunk): string {
  return JSON.stringify({ name: name ?? null, args, id: id ?? null, index, type: 'tool_call_chunk' })
}

/** @param usual of agents that say nothing of their messages */
function metadataJson(usual: string, metadata: JsonObject | undefined): string {
  return metadata === undefined ? usual : JSON.stringify(metadata)
}

/** The chunk that ends a message: no text, but how it ended and what it cost. */
export function lastChunkJson(message: AiMessage, metadata?: JsonObject): string {
  const chunk = {
    content: '',
    response_metadata: message.response_metadata,
    usage_metadata: message.usage_metadata ?? undefined,
    chunk_position: 'last',
    type: 'AIMessageChunk',
    id: message.id
  }
  return `[${JSON.stringify(chunk)},${metadataJson(METADATA, metadata)}]`
}

/** What is sent of a chunk that is too large: enough to tell which message it belongs to. */
export function shortChunk(message: { readonly id: string }, position?: 'last'): Shorten {
  return (max, marker) => {
    const chunk = { content: '', type: 'AIMessageChunk', id: cutText(message.id, max >> 1), chunk_position: position }
    return `[${JSON.stringify(chunk)},${markedMetadata('agent', marker)}]`
  }
}

/** A message that did not come in deltas, e.g. a tool's result; `json` is the message. */
export function wholeJson(message: Message, json = JSON.stringify(message), metadata?: JsonObject): string {
  return `[${json},${metadataJson(message.type === 'tool' ? TOOLS_METADATA : METADATA, metadata)}]`
}

/** The same message when it is too large for the wire. */
export function shortWhole(message: Message): Shorten {
  return (max, marker) => {
    // Messages are JSON by construction.
    const fields = message as unknown as JsonObject
    return `[${shortMessage(fields, max)},${markedMetadata(message.type === 'tool' ? 'tools' : 'agent', marker)}]`
  }
}

/** The data of a message as its graph shows it, when it is too large for the wire: still a message and where it comes from. */
export function shortTuple(json: string): Shorten {
  return (max, marker) => {
    const [message, metadata] = readTuple(json) ?? [{}, {}]
    const place = Object.fromEntries(
      PLACES.flatMap((name) => {
        const value = metadata[name]
        return typeof value === 'string' && value.length <= PLACE_LENGTH_MAX ? [[name, value]] : []
      })
    )
    const left = Math.max(0, max - JSON.stringify(place).length)
    return `[${shortMessage(message, left)},${JSON.stringify({ ...place, ...marker })}]`
  }
}

/** What readers need to know of where a message is said. */
const PLACES = ['langgraph_node', 'langgraph_checkpoint_ns', 'checkpoint_ns']
const PLACE_LENGTH_MAX = 1024

/** A message or a chunk, and its metadata, of a frame's data; null: an earlier version has cut those of a graph to a text. */
export function readTuple(json: string): readonly [JsonObject, JsonObject] | null {
  const given: unknown = JSON.parse(json)
  // Written by this service.
  return Array.isArray(given) ? (given as [JsonObject, JsonObject]) : null
}

function shortMessage(message: JsonObject, max: number): string {
  return JSON.stringify(withShortTexts(message, max) ?? bareMessage(message, max))
}

/** Its texts are not what makes it large: it keeps its identity and the beginning of its content. */
function bareMessage({ content = '', type = null, name, id = null, ...message }: JsonObject, max: number): JsonObject {
  const said = typeof content === 'string' ? content : JSON.stringify(content)
  const bare: JsonObject = {
    content: cutText(said, Math.floor(max / 2)),
    additional_kwargs: {},
    response_metadata: {},
    type,
    name: typeof name === 'string' ? cutText(name, 256) : null,
    id
  }
  const { tool_call_id = null, status = null } = message
  return type === 'tool' ? { ...bare, tool_call_id, artifact: null, status } : bare
}

function markedMetadata(node: string, marker: Marker): string {
  return JSON.stringify({ langgraph_node: node, ...marker } satisfies Record<string, Json>)
}

// --------------------------------------------------------------------------------------------------- cutting

/** The marker beside cut data. The first two fields are those that mark truncated traces [contract 4.2]. */
export type Marker = {
  readonly content_truncated: true
  /** Bytes of the frame's full data, which is JSON. */
  readonly original_byte_length: number
  /** Where to fetch it; supports Range. */
  readonly content_url: string
}

/** Makes the data of the cut frame: JSON of at most `max` bytes that contains the marker. */
export type Shorten = (max: number, marker: Marker) => string

/** The longest beginning of a text whose JSON takes at most `max` bytes, on a character boundary. */
export function cutText(text: string, max: number): string {
  let short = cutTo(text, max)
  for (let bytes = jsonBytes(short); bytes > max && short !== ''; bytes = jsonBytes(short))
    short = cutTo(text, Math.floor((short.length * max) / (bytes + 1)))
  return short
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

/** The value with its long texts cut to `max` bytes of JSON; null: its texts are not what makes it large. */
function withShortTexts(value: JsonObject, max: number): Json | null {
  for (const each of [max >> 1, max >> 4, 64]) {
    const short = mapTexts(value, (text) => cutText(text, each))
    if (Buffer.byteLength(JSON.stringify(short)) <= max) return short
  }
  return null
}

function mapTexts(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value)
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map((inner) => mapTexts(inner, change))
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapTexts(inner, change)]))
}
