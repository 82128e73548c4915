// What events hold: messages as JSON, calls and replies as model servers know them, traces cut to their limit.
import { INTERRUPTED } from '../../conversation/calls.ts'
import {
  type AiMessage,
  type HumanMessage,
  isObject,
  type Json,
  type JsonObject,
  type ToolCall,
  type ToolMessage
} from '../../base/types.ts'

/** The model a request names. The content may be a truncated JSON text; the name comes first in it. */
export function modelIn(content: Json): string | null {
  if (typeof content === 'string') {
    const [, quoted] = /^\{"model":("(?:[^"\\]|\\.)*")/.exec(content) ?? []
    // What stands between two quotes of a JSON text is a JSON text.
    return quoted === undefined ? null : (JSON.parse(quoted) as string)
  }
  return isObject(content) ? String(content.model) : null
}

/** Messages are JSON by construction; only the missing index signature of their interfaces hides it. */
export function asJson(message: HumanMessage | AiMessage | ToolMessage): JsonObject {
  return message as unknown as JsonObject
}

export function interruptedResult(call: ToolCall, id: string): ToolMessage {
  return {
    content: INTERRUPTED,
    additional_kwargs: {},
    response_metadata: {},
    type: 'tool',
    name: call.name,
    id,
    tool_call_id: call.id,
    artifact: null,
    status: 'error'
  }
}

export function asChatCompletion(message: AiMessage): JsonObject {
  if (message.tool_calls.length === 0) return { role: 'assistant', content: message.content }
  const tool_calls = message.tool_calls.map(({ id, name, args }) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) }
  }))
  return { role: 'assistant', content: message.content === '' ? null : message.content, tool_calls }
}

/** Truncates a trace at `max` bytes, on a character boundary, and marks it [Events 4]. */
export function cutTrace(content: Json, metadata: JsonObject, max: number): { content: Json; metadata: JsonObject } {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  // A UTF-16 unit takes at most three bytes: short texts need no counting.
  if (max === 0 || text.length * 3 <= max) return { content, metadata }
  const length = Buffer.byteLength(text)
  if (length <= max) return { content, metadata }
  // At most this many units are kept: a giant text is not encoded just to be truncated.
  const bytes = Buffer.from(text.slice(0, max + 1))
  let end = max
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return {
    content: bytes.toString('utf8', 0, end),
    metadata: { ...metadata, content_truncated: true, original_byte_length: length }
  }
}

/** Bytes of a number or a boolean, and the overhead of each member of an object. */
const SMALL = 8

/** Estimated bytes of a value: the units of its texts, and a little for everything else. */
export function estimateBytes(value: Json): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return SMALL
  let bytes = SMALL
  if (Array.isArray(value)) for (const item of value) bytes += estimateBytes(item)
  else for (const key of Object.keys(value)) bytes += SMALL + key.length + estimateBytes(value[key]!)
  return bytes
}
