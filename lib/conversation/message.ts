// The one reader of messages: those of clients, which have to be right, and those of graphs, of which is read what can be.
import { countOf, objectOr, objectsIn, textOr } from '../base/json.ts'
import {
  type InvalidToolCall,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall,
  type UsageMetadata,
  isObject
} from '../base/types.ts'

/** An input's changes to the conversation: messages to add or replace, and ids to remove. */
export type InputMessage = Message | { readonly type: 'remove'; readonly id: string }

/** Not a message; the text says why. */
export class MessageInvalid extends Error {
  index = 0
}

const TYPES: Readonly<Record<string, InputMessage['type']>> = {
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

/** @returns null: none that is known */
export function typeIn({ type, role }: JsonObject): InputMessage['type'] | null {
  return typeOf(type ?? role)
}

function typeOf(name: Json | undefined): InputMessage['type'] | null {
  const known = typeof name === 'string' ? name.replace(/Chunk$/, '') : ''
  return Object.hasOwn(TYPES, known) ? TYPES[known]! : null
}

/** The fields that are read in two ways. */
type Strictness = Readonly<{
  content(given: JsonObject): string | Json[]
  call(given: JsonObject): ToolCall
  callId(given: JsonObject): string
}>

const STRICT: Strictness = {
  content(given) {
    const { content } = given
    if (typeof content === 'string') return content
    if (Array.isArray(content) && content.every((block) => typeof block === 'string' || isObject(block))) return content
    // An assistant message that only calls tools has no content.
    if (content === null && given.tool_calls !== undefined) return ''
    throw new MessageInvalid('content must be a text or a list of blocks')
  },
  call(given) {
    if (typeof given.name !== 'string' || typeof given.id !== 'string' || !isObject(given.args))
      throw new MessageInvalid('each of tool_calls needs name, args and id')
    return readCall(given)
  },
  callId({ tool_call_id }) {
    if (typeof tool_call_id !== 'string') throw new MessageInvalid('a tool message needs tool_call_id')
    return tool_call_id
  }
}

const LENIENT: Strictness = {
  content: ({ content }) => (typeof content === 'string' || Array.isArray(content) ? content : ''),
  call: readCall,
  callId: ({ tool_call_id }) => textOr(tool_call_id) ?? ''
}

/**
 * A message of a client, in any form that LangChain's clients send. `spareId` makes an id for one without.
 * @throws MessageInvalid
 */
export function checkedMessage(message: Json, spareId: () => string): InputMessage {
  const given = fieldsOf(message)
  const name = given.type ?? given.role ?? 'human'
  const type = typeOf(name)
  if (type === null) throw new MessageInvalid(`unknown role or type ${JSON.stringify(name).slice(0, 50)}`)
  if (type !== 'remove') return messageOf(type, given, spareId, STRICT)
  const id = textOr(given.id) || null
  if (id === null) throw new MessageInvalid('remove needs an id')
  return { type, id }
}

/**
 * Reads the messages of an input or a state update: one or a list. Missing ids are created here, once, by `spareId`, so that frames, state,
 * history and events show the same.
 * @throws MessageInvalid for the first invalid one.
 */
export function readMessages(given: Json | undefined, spareId: () => string): InputMessage[] {
  if (given === undefined || given === null) return []
  const list = Array.isArray(given) ? given : [given]
  return list.map((one, index) => {
    try {
      return checkedMessage(one, spareId)
    } catch (error) {
      if (error instanceof MessageInvalid) error.index = index
      throw error
    }
  })
}

/** A message of a graph. @returns null: not a known type of message */
export function readMessage(given: Json, spareId: () => string): Message | null {
  const type = isObject(given) ? typeIn(given) : null
  return type === null || type === 'remove' || !isObject(given) ? null : messageOf(type, given, spareId, LENIENT)
}

function messageOf(type: Message['type'], given: JsonObject, spareId: () => string, read: Strictness): Message {
  const fields = {
    content: read.content(given),
    additional_kwargs: objectOr(given.additional_kwargs),
    response_metadata: objectOr(given.response_metadata),
    type,
    name: textOr(given.name),
    id: textOr(given.id) || spareId()
  }
  if (type === 'ai')
    return {
      ...fields,
      type,
      tool_calls: objectsIn(given.tool_calls).map(read.call),
      invalid_tool_calls: objectsIn(given.invalid_tool_calls).map(readInvalidCall),
      usage_metadata: usageIn(given)
    }
  if (type !== 'tool') return { ...fields, type }
  return {
    ...fields,
    type,
    tool_call_id: read.callId(given),
    artifact: given.artifact ?? null,
    status: given.status === 'error' ? 'error' : 'success'
  }
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

export function readCall({ name, args, id }: JsonObject): ToolCall {
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

/** The usage of a message, or of a chunk alone; null: it has none. */
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
