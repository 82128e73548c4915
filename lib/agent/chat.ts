// Converts conversations to chat-completions form, and answers back [contract 4.2].
import { finishCalls } from '../conversation/calls.ts'
import {
  type AiMessage,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall,
  type ToolMessage,
  isObject
} from '../base/types.ts'
import type { Completion, ToolSpec } from './model.ts'

/** Placeholder for a missing result: servers refuse a conversation with a call that has none. */
export const INTERRUPTED = 'Interrupted'

// ------------------------------------------------------------------------------------------------------- there

/**
 * The conversation without anything servers refuse: every call is followed by its result; results without a call, empty
 * assistant messages and invalid calls are left out.
 * @param shown content blocks to add as a user message after the message with that id
 */
export function toChat(messages: readonly Message[], shown: ReadonlyMap<string, Json[]> = NOTHING_SHOWN): JsonObject[] {
  return messages.flatMap((message, at) => {
    const content = shown.get(message.id)
    const said = messageToChat(message, messages, at)
    return content ? [...said, { role: 'user', content }] : said
  })
}

const NOTHING_SHOWN: ReadonlyMap<string, Json[]> = new Map()

function messageToChat(message: Message, messages: readonly Message[], at: number): JsonObject[] {
  if (message.type === 'human') return [{ role: 'user', content: message.content }]
  if (message.type === 'system') return [{ role: 'system', content: message.content }]
  // Results follow their call, wherever they are in the state.
  return message.type === 'ai' ? assistantToChat(message, resultsAfter(messages, at)) : []
}

function assistantToChat(message: AiMessage, results: ReadonlyMap<string, ToolMessage>): JsonObject[] {
  const content = message.content.length === 0 ? null : message.content
  if (message.tool_calls.length === 0) return content === null ? [] : [{ role: 'assistant', content }]
  const answers = message.tool_calls.map(({ id }) => ({
    role: 'tool',
    tool_call_id: id,
    content: results.get(id)?.content ?? INTERRUPTED
  }))
  return [{ role: 'assistant', content, tool_calls: message.tool_calls.map(callToChat) }, ...answers]
}

function callToChat({ id, name, args }: ToolCall): JsonObject {
  return { id, type: 'function', function: { name, arguments: JSON.stringify(args) } }
}

/** Results between an assistant message and the next one, by call id. */
function resultsAfter(messages: readonly Message[], at: number): Map<string, ToolMessage> {
  const results = new Map<string, ToolMessage>()
  for (let i = at + 1; i < messages.length; i++) {
    const message = messages[i]!
    if (message.type === 'ai') break
    if (message.type === 'tool' && !results.has(message.tool_call_id)) results.set(message.tool_call_id, message)
  }
  return results
}

/** The conversation as a trace keeps it: images and files as type and size, without their data. */
export function toTrace(messages: readonly JsonObject[]): JsonObject[] {
  return messages.map((message) => {
    const { content } = message
    return Array.isArray(content) ? { ...message, content: content.map((block) => withoutData(block, 2)) } : message
  })
}

/** Replaces data URLs by a marker, in a content block and its direct members. */
function withoutData(value: Json, depth: number): Json {
  if (typeof value === 'string') return DATA_URL.test(value) ? dataMark(value) : value
  if (!isObject(value) || depth === 0) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutData(one, depth - 1)]))
}

const DATA_URL = /^data:[^,]{0,200};base64,/

function dataMark(url: string): string {
  const head = url.indexOf(',') + 1
  return `${url.slice(0, head)}[${url.length - head} characters]`
}

export function toolToChat({ name, description, parameters }: ToolSpec): JsonObject {
  return { type: 'function', function: { name, description, parameters } }
}

// ------------------------------------------------------------------------------------------------------- back

/** The completion as a message. Calls without a name, or whose arguments are not a JSON object or more than JSON can hold, are invalid calls. */
export function toMessage(completion: Completion, id: string, modelName: string): AiMessage {
  const calls = finishCalls(completion.calls, true)
  return {
    type: 'ai',
    id,
    content: completion.text,
    additional_kwargs: completion.reasoning === '' ? {} : { reasoning_content: completion.reasoning },
    response_metadata: { finish_reason: finishReason(completion, calls.tool_calls.length > 0), model_name: modelName },
    name: null,
    ...calls,
    usage_metadata: completion.usage
  }
}

/** `tool_calls` if there are any [contract 4.2]; else the provider's reason, else `stop`. */
export function finishReason({ finishReason: said }: Completion, hasCalls: boolean): string {
  if (hasCalls) return 'tool_calls'
  return said === null || said === 'tool_calls' ? 'stop' : said
}
