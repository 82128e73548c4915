// Parses LangChain's messages and message pieces into ours.
import { isDeepStrictEqual } from 'node:util'
import {
  type AiMessage,
  type InvalidToolCall,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall,
  type UsageMetadata,
  isObject
} from '../../types.ts'
import { countOf, objectOr, objectsIn, textOr } from '../json.ts'
import type { AnswerPiece } from '../model.ts'

const TYPES: Readonly<Record<string, Message['type']>> = {
  human: 'human',
  user: 'human',
  HumanMessageChunk: 'human',
  ai: 'ai',
  assistant: 'ai',
  AIMessageChunk: 'ai',
  system: 'system',
  developer: 'system',
  tool: 'tool',
  function: 'tool',
  ToolMessageChunk: 'tool'
}

/** @param spareId makes an id for a message without one. @returns null: not a known type of message */
export function readMessage(given: Json, spareId: () => string): Message | null {
  if (!isObject(given)) return null
  const type = typeIn(given)
  if (!type) return null
  const fields = {
    content: contentIn(given.content),
    additional_kwargs: objectOr(given.additional_kwargs),
    response_metadata: objectOr(given.response_metadata),
    name: textOr(given.name),
    id: textOr(given.id) || spareId()
  }
  if (type === 'ai') return aiMessage(given, fields)
  if (type !== 'tool') return { type, ...fields }
  return {
    type,
    ...fields,
    tool_call_id: textOr(given.tool_call_id) ?? '',
    artifact: given.artifact ?? null,
    status: given.status === 'error' ? 'error' : 'success'
  }
}

type Fields = Pick<Message, 'content' | 'additional_kwargs' | 'response_metadata' | 'name' | 'id'>

function aiMessage(given: JsonObject, fields: Fields): AiMessage {
  const { text, reasoning } = saidIn(given)
  // Text-only blocks become a string, which events, titles and other models expect.
  const isText = typeof fields.content !== 'string' && fields.content.every(isPlain)
  return {
    type: 'ai',
    ...fields,
    ...(isText && { content: text }),
    additional_kwargs: {
      ...fields.additional_kwargs,
      ...(isText && reasoning !== '' && { reasoning_content: reasoning })
    },
    tool_calls: objectsIn(given.tool_calls).map(readCall),
    invalid_tool_calls: objectsIn(given.invalid_tool_calls).map(readInvalidCall),
    usage_metadata: usageIn(given)
  }
}

function typeIn({ type, role }: JsonObject): Message['type'] | undefined {
  const name = typeof type === 'string' ? type : role
  return typeof name === 'string' && Object.hasOwn(TYPES, name) ? TYPES[name] : undefined
}

export function isAi(given: Json | undefined): given is JsonObject {
  return isObject(given) && typeIn(given) === 'ai'
}

function contentIn(content: Json | undefined): string | Json[] {
  return typeof content === 'string' || Array.isArray(content) ? content : ''
}

/** Blocks that can become plain text; tool calls are in `tool_calls` as well. */
function isPlain(block: Json): boolean {
  if (typeof block === 'string') return true
  return (
    isObject(block) && ['text', 'reasoning', 'thinking', 'tool_use', 'input_json_delta'].includes(String(block.type))
  )
}

function readCall({ name, args, id }: JsonObject): ToolCall {
  return { name: textOr(name) ?? '', args: objectOr(args), id: textOr(id) ?? '', type: 'tool_call' }
}

function readInvalidCall({ name, args, id, error }: JsonObject): InvalidToolCall {
  return {
    name: textOr(name) ?? '',
    args: textOr(args) ?? '',
    id: textOr(id) ?? '',
    error: textOr(error),
    type: 'invalid_tool_call'
  }
}

// ------------------------------------------------------------------------------------------------------ pieces

/** False: a complete message, from a model that does not stream or from a node. */
export function isPiece(given: JsonObject): boolean {
  return given.type === 'AIMessageChunk' || Array.isArray(given.tool_call_chunks)
}

/** Content of a piece or complete message: one for text and reasoning, one per fragment of a tool call. */
export function piecesIn(given: JsonObject): AnswerPiece[] {
  const { text, reasoning } = saidIn(given)
  const said = { ...(text !== '' && { text }), ...(reasoning !== '' && { reasoning }) }
  const calls = isPiece(given)
    ? objectsIn(given.tool_call_chunks).map(fragment)
    : objectsIn(given.tool_calls).map(wholeCall)
  return [...(text !== '' || reasoning !== '' ? [said] : []), ...calls]
}

function fragment({ index, id, name, args }: JsonObject, place: number): AnswerPiece {
  return {
    toolCall: {
      index: typeof index === 'number' ? index : place,
      ...(typeof id === 'string' && { id }),
      ...(typeof name === 'string' && name !== '' && { name }),
      args: textOr(args) ?? ''
    }
  }
}

function wholeCall(given: JsonObject, index: number): AnswerPiece {
  const { id, name, args } = readCall(given)
  return { toolCall: { index, id, name, args: JSON.stringify(args) } }
}

/** Text and reasoning, wherever the provider's adapter puts them. */
function saidIn({ content, additional_kwargs }: JsonObject): { text: string; reasoning: string } {
  let [text, reasoning] = [typeof content === 'string' ? content : '', '']
  for (const block of Array.isArray(content) ? content : []) {
    if (typeof block === 'string') text += block
    else if (isObject(block) && block.type === 'text') text += textOr(block.text) ?? ''
    else if (isObject(block) && block.type === 'reasoning') reasoning += textOr(block.reasoning ?? block.text) ?? ''
    else if (isObject(block) && block.type === 'thinking') reasoning += textOr(block.thinking) ?? ''
  }
  return { text, reasoning: reasoning || (textOr(objectOr(additional_kwargs).reasoning_content) ?? '') }
}

export function usageIn({ usage_metadata: given }: JsonObject): UsageMetadata | null {
  if (!isObject(given)) return null
  const [input_tokens, output_tokens] = [countOf(given.input_tokens), countOf(given.output_tokens)]
  const cache_read = countOf(objectOr(given.input_token_details).cache_read)
  const reasoning = countOf(objectOr(given.output_token_details).reasoning)
  return {
    input_tokens,
    output_tokens,
    total_tokens: countOf(given.total_tokens) || input_tokens + output_tokens,
    ...(cache_read > 0 && { input_token_details: { cache_read } }),
    ...(reasoning > 0 && { output_token_details: { reasoning } })
  }
}

/** Pieces report the usage since the previous one. */
export function sumOf(one: UsageMetadata | null, other: UsageMetadata): UsageMetadata {
  if (!one) return other
  const cache_read = (one.input_token_details?.cache_read ?? 0) + (other.input_token_details?.cache_read ?? 0)
  const reasoning = (one.output_token_details?.reasoning ?? 0) + (other.output_token_details?.reasoning ?? 0)
  return {
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    ...(cache_read > 0 && { input_token_details: { cache_read } }),
    ...(reasoning > 0 && { output_token_details: { reasoning } })
  }
}

// --------------------------------------------------------------------------------------------------- comparing

/** Equal content; metadata that a runtime adds (usage, model names) is ignored. */
export function sayTheSame(one: Message, other: Message): boolean {
  return isDeepStrictEqual(essence(one), essence(other))
}

function essence(message: Message): unknown[] {
  const { type, content, name } = message
  if (type === 'tool') return [type, content, message.tool_call_id, message.status]
  return type === 'ai' ? [type, content, message.tool_calls] : [type, content, name]
}
