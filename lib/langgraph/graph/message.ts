// Parses the messages of graphs and their pieces into ours.
import { isDeepStrictEqual } from 'node:util'
import { type CallChunk, isChunk, readChunk } from '../../conversation/chunk.ts'
import { readCall, readMessage as readFields, typeIn } from '../../conversation/message.ts'
import { objectOr, objectsIn, textOr } from '../../base/json.ts'
import {
  type AiMessage,
  type Json,
  type JsonObject,
  type Message,
  type UsageMetadata,
  isObject
} from '../../base/types.ts'
import type { AnswerPiece } from '../../agent/model.ts'

/** @param spareId makes an id for a message without one. @returns null: not a known type of message */
export function readMessage(given: Json, spareId: () => string): Message | null {
  const message = readFields(given, spareId)
  return message?.type === 'ai' && isObject(given) ? asText(message, given) : message
}

/** Text-only blocks become a string, which events, titles and other models expect. */
function asText(message: AiMessage, given: JsonObject): AiMessage {
  if (typeof message.content === 'string' || !message.content.every(isPlain)) return message
  const { text, reasoning } = textAndReasoning(given)
  const { additional_kwargs } = message
  return {
    ...message,
    content: text,
    additional_kwargs: { ...additional_kwargs, ...(reasoning !== '' && { reasoning_content: reasoning }) }
  }
}

export function isAi(given: Json | undefined): given is JsonObject {
  return isObject(given) && typeIn(given) === 'ai'
}

/** Blocks that can become plain text; tool calls are in `tool_calls` as well. */
function isPlain(block: Json): boolean {
  if (typeof block === 'string') return true
  return (
    isObject(block) && ['text', 'reasoning', 'thinking', 'tool_use', 'input_json_delta'].includes(String(block.type))
  )
}

// ------------------------------------------------------------------------------------------------------ pieces

/** Content of a piece or complete message: one for text and reasoning, one per fragment of a tool call. */
export function piecesIn(given: JsonObject): AnswerPiece[] {
  const { text, reasoning } = textAndReasoning(given)
  const said = { ...(text !== '' && { text }), ...(reasoning !== '' && { reasoning }) }
  const calls = isChunk(given)
    ? (readChunk(given).calls ?? []).map(fragment)
    : objectsIn(given.tool_calls).map(wholeCall)
  return [...(text !== '' || reasoning !== '' ? [said] : []), ...calls]
}

function fragment({ index, id, name, args }: CallChunk, place: number): AnswerPiece {
  return {
    toolCall: {
      index: typeof index === 'number' ? index : place,
      ...(typeof id === 'string' && { id }),
      ...(name && { name }),
      args
    }
  }
}

function wholeCall(given: JsonObject, index: number): AnswerPiece {
  const { id, name, args } = readCall(given)
  return { toolCall: { index, id, name, args: JSON.stringify(args) } }
}

/** Text and reasoning, wherever the provider's adapter puts them. */
function textAndReasoning({ content, additional_kwargs }: JsonObject): { text: string; reasoning: string } {
  let [text, reasoning] = [typeof content === 'string' ? content : '', '']
  for (const block of Array.isArray(content) ? content : []) {
    if (typeof block === 'string') text += block
    else if (isObject(block) && block.type === 'text') text += textOr(block.text) ?? ''
    else if (isObject(block) && block.type === 'reasoning') reasoning += textOr(block.reasoning ?? block.text) ?? ''
    else if (isObject(block) && block.type === 'thinking') reasoning += textOr(block.thinking) ?? ''
  }
  return { text, reasoning: reasoning || (textOr(objectOr(additional_kwargs).reasoning_content) ?? '') }
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

// ---------------------------------------------------------------------------------------------------- metadata

/** Metadata sent with every chunk; the rest only with the first chunk of a message. */
const SHORT = ['tags', 'langgraph_node', 'langgraph_step', 'langgraph_checkpoint_ns', 'checkpoint_ns']

/** All metadata with a message's first chunk, the short form with the others. */
export function shownMetadata(metadata: unknown, isFirst: boolean): JsonObject {
  const entries = Object.entries(typeof metadata === 'object' && metadata !== null ? metadata : {})
  const kept = entries.filter(([key]) => (isFirst ? !/^(__|langgraph_auth_)/.test(key) : SHORT.includes(key)))
  // LangGraph's metadata of a chunk is JSON.
  return Object.fromEntries(kept) as JsonObject
}

/** The same of a message that its run shows: where a checkpoint is named, readers wait for the states that the graph shows itself. */
export function metadataBeside(metadata: unknown, isFirst: boolean): JsonObject {
  const { langgraph_checkpoint_ns: _, checkpoint_ns: __, ...shown } = shownMetadata(metadata, isFirst)
  return shown
}

// --------------------------------------------------------------------------------------------------- comparing

/** Equal content; metadata that a runtime adds (usage, model names) is ignored. */
export function isSameMessage(one: Message, other: Message): boolean {
  return isDeepStrictEqual(essence(one), essence(other))
}

function essence(message: Message): unknown[] {
  const { type, content, name } = message
  if (type === 'tool') return [type, content, message.tool_call_id, message.status]
  return type === 'ai' ? [type, content, message.tool_calls] : [type, content, name]
}
