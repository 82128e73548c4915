// Parses messages from clients: known type, text or block content, an id.
import { randomUUID } from 'node:crypto'
import { type InvalidToolCall, type Json, type JsonObject, type Message, type ToolCall, isObject } from '../types.ts'

/** An input's changes to the conversation: messages to add or replace, and ids to remove. */
export type InputMessage = Message | { readonly type: 'remove'; readonly id: string }

/** Removing this id clears the conversation. */
export const REMOVE_ALL = '__remove_all__'

/** Not a message; the text says why. */
export class MessageInvalid extends Error {
  index = 0
}

const TYPES: Readonly<Record<string, Message['type'] | 'remove'>> = {
  human: 'human',
  user: 'human',
  HumanMessage: 'human',
  ai: 'ai',
  assistant: 'ai',
  AIMessage: 'ai',
  system: 'system',
  developer: 'system',
  SystemMessage: 'system',
  tool: 'tool',
  function: 'tool',
  ToolMessage: 'tool',
  remove: 'remove',
  RemoveMessage: 'remove'
}

function typeOf(given: JsonObject): Message['type'] | 'remove' {
  const name = given.type ?? given.role ?? 'human'
  const known = typeof name === 'string' ? name.replace(/Chunk$/, '') : ''
  const type = Object.hasOwn(TYPES, known) ? TYPES[known] : undefined
  if (!type) throw new MessageInvalid(`unknown role or type ${JSON.stringify(name).slice(0, 50)}`)
  return type
}

function contentOf(given: JsonObject): string | Json[] {
  const { content } = given
  if (typeof content === 'string') return content
  if (Array.isArray(content) && content.every((block) => typeof block === 'string' || isObject(block))) return content
  // An assistant message that only calls tools has no content.
  if (content === null && given.tool_calls !== undefined) return ''
  throw new MessageInvalid('content must be a text or a list of blocks')
}

const objectOr = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})
const textOr = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null)

function toolCallsOf(value: Json | undefined): ToolCall[] {
  if (!Array.isArray(value)) return []
  return value.filter(isObject).map((call) => {
    if (typeof call.name !== 'string' || typeof call.id !== 'string' || !isObject(call.args)) {
      throw new MessageInvalid('each of tool_calls needs name, args and id')
    }
    return { name: call.name, args: call.args, id: call.id, type: 'tool_call' }
  })
}

function invalidToolCallsOf(value: Json | undefined): InvalidToolCall[] {
  if (!Array.isArray(value)) return []
  return value.filter(isObject).map((call) => ({
    name: textOr(call.name) ?? '',
    args: textOr(call.args) ?? '',
    id: textOr(call.id) ?? '',
    error: textOr(call.error),
    type: 'invalid_tool_call'
  }))
}

/** Other forms of LangChain messages: a string, a pair of role and content, its own objects as JSON. */
function fieldsOf(given: Json): JsonObject {
  if (typeof given === 'string') return { type: 'human', content: given }
  if (Array.isArray(given) && given.length === 2 && typeof given[0] === 'string')
    return { role: given[0], content: given[1]! }
  if (!isObject(given)) throw new MessageInvalid('a message is an object or a text')
  const { type, id, kwargs, data } = given
  if (type === 'constructor' && Array.isArray(id) && isObject(kwargs)) return { ...kwargs, type: id.at(-1) ?? null }
  if (typeof type === 'string' && isObject(data) && given.content === undefined) return { ...data, type }
  return given
}

function readMessage(message: Json): InputMessage {
  const given = fieldsOf(message)
  const type = typeOf(given)
  const id = typeof given.id === 'string' && given.id !== '' ? given.id : null
  if (type === 'remove') {
    if (id === null) throw new MessageInvalid('remove needs an id')
    return { type, id }
  }
  const fields = {
    content: contentOf(given),
    additional_kwargs: objectOr(given.additional_kwargs),
    response_metadata: objectOr(given.response_metadata),
    type,
    name: textOr(given.name),
    id: id ?? randomUUID()
  }
  if (type === 'ai') {
    const usage = isObject(given.usage_metadata) ? given.usage_metadata : null
    return {
      ...fields,
      type,
      tool_calls: toolCallsOf(given.tool_calls),
      invalid_tool_calls: invalidToolCallsOf(given.invalid_tool_calls),
      usage_metadata: usage && {
        input_tokens: Number(usage.input_tokens ?? 0),
        output_tokens: Number(usage.output_tokens ?? 0),
        total_tokens: Number(usage.total_tokens ?? 0)
      }
    }
  }
  if (type === 'tool') {
    if (typeof given.tool_call_id !== 'string') throw new MessageInvalid('a tool message needs tool_call_id')
    return {
      ...fields,
      type,
      tool_call_id: given.tool_call_id,
      artifact: given.artifact ?? null,
      status: given.status === 'error' ? 'error' : 'success'
    }
  }
  return { ...fields, type }
}

/**
 * Reads the messages of an input or a state update: one or a list. Missing ids are created here, once, so that frames, state,
 * history and events show the same.
 * @throws MessageInvalid for the first invalid one.
 */
export function readMessages(given: Json | undefined): InputMessage[] {
  if (given === undefined || given === null) return []
  const list = Array.isArray(given) ? given : [given]
  return list.map((one, index) => {
    try {
      return readMessage(one)
    } catch (error) {
      if (error instanceof MessageInvalid) error.index = index
      throw error
    }
  })
}

const ID_KEY = '"id":'

/**
 * The id of a stored message. Avoids parsing, because a conversation has thousands: if the text contains only one member
 * `id`, that is it.
 */
export function idOfText(json: string): string {
  const at = json.indexOf(ID_KEY)
  const from = at + ID_KEY.length + 1
  if (at >= 0 && json[from - 1] === '"' && json.indexOf(ID_KEY, from) < 0) {
    const id = json.slice(from, json.indexOf('"', from))
    if (!id.includes('\\')) return id
  }
  // Serialised from a message.
  return (JSON.parse(json) as Message).id
}
