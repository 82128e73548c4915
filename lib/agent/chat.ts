// Converts conversations to chat-completions form, and answers back [contract 4.2].
import { finishCalls, INTERRUPTED } from '../conversation/calls.ts'
import { base64In, blockOf, fileOf, partsOf } from '../conversation/content.ts'
import {
  type AiMessage,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall,
  type ToolMessage,
  isObject
} from '../base/types.ts'
import { isByClient } from './client-context.ts'
import type { Completion, ToolSpec } from './model.ts'
import { CallRoom } from './pictures.ts'

// ------------------------------------------------------------------------------------------------------- there

/**
 * The conversation without anything servers refuse: every call is followed by its result; results without a call, empty
 * assistant messages and invalid calls are left out.
 * @param shown content blocks to add as a user message after the message with that id
 * @param takesImages false: the model is shown none that a tool of the server has made. true: the newest of them, within the limits of a call
 */
export function toChat(
  messages: readonly Message[],
  shown: ReadonlyMap<string, Json[]> = NOTHING_SHOWN,
  takesImages = true
): JsonObject[] {
  const images = takesImages ? newestImages(messages, [...shown.values()].flat()) : NO_IMAGES
  return messages.flatMap((message, at) => {
    const content = shown.get(message.id)
    const chat = messageToChat(message, messages, at, images)
    return content ? [...chat, { role: 'user', content }] : chat
  })
}

const NOTHING_SHOWN: ReadonlyMap<string, Json[]> = new Map()
const NO_IMAGES: ReadonlySet<Json> = new Set()

/** Blocks of images that tools of the server have made, as far as they go into a call beside others. */
function newestImages(messages: readonly Message[], others: readonly Json[]): ReadonlySet<Json> {
  const room = new CallRoom()
  for (const block of others) takesImage(room, block)
  const newest = new Set<Json>()
  for (const message of messages.toReversed()) {
    if (message.type !== 'tool' || typeof message.content === 'string' || isByClient(message)) continue
    for (const block of message.content) if (takesImage(room, block)) newest.add(block)
  }
  return newest
}

/** Whether a block is an image, and there was room for it. */
function takesImage(room: CallRoom, block: Json): boolean {
  const image = mediaToChat(block)?.image_url
  // Its data are base64.
  return isObject(image) && typeof image.url === 'string' && room.take((image.url.length * 3) / 4)
}

function messageToChat(
  message: Message,
  messages: readonly Message[],
  at: number,
  images: ReadonlySet<Json>
): JsonObject[] {
  if (message.type === 'human') return [{ role: 'user', content: contentToChat(message.content) }]
  if (message.type === 'system') return [{ role: 'system', content: message.content }]
  // Results follow their call, wherever they are in the state.
  return message.type === 'ai' ? assistantToChat(message, resultsAfter(messages, at), images) : []
}

function assistantToChat(
  message: AiMessage,
  results: ReadonlyMap<string, ToolMessage>,
  images: ReadonlySet<Json>
): JsonObject[] {
  const content = message.content.length === 0 ? null : message.content
  if (message.tool_calls.length === 0) return content === null ? [] : [{ role: 'assistant', content }]
  const answers = message.tool_calls.map((call) => resultToChat(call, results.get(call.id), images))
  const shown = answers.flatMap((answer) => answer.shown)
  return [
    { role: 'assistant', content, tool_calls: message.tool_calls.map(callToChat) },
    ...answers.map(({ message }) => message),
    ...(shown.length > 0 ? [{ role: 'user', content: shown }] : [])
  ]
}

interface ResultInChat {
  readonly message: JsonObject
  /** Content blocks for a message of the user behind all results of the answer. */
  readonly shown: Json[]
}

/**
 * Chat completions take texts alone as a result, and servers refuse a message between two results: what else it has is shown behind the last
 * one, as images are that a model has asked to view.
 */
function resultToChat(
  { id, name }: ToolCall,
  result: ToolMessage | undefined,
  images: ReadonlySet<Json>
): ResultInChat {
  const toolMessage = (content: string): JsonObject => ({ role: 'tool', tool_call_id: id, content })
  // Servers refuse a conversation with a call that has none.
  const content = result?.content ?? INTERRUPTED
  if (typeof content === 'string') return { message: toolMessage(content), shown: [] }
  const texts: string[] = []
  const shown: Json[] = []
  for (const block of content) {
    const media = mediaToChat(block)
    if (media === null) texts.push(wordsOf(block))
    // A client knows which model it has asked, and sends it images as its user does.
    else if (media.type === 'image_url' && !images.has(block) && !isByClient(result!)) texts.push(NOT_SHOWN)
    else shown.push(media)
  }
  if (shown.length === 0) return { message: toolMessage(texts.join('\n')), shown }
  const message = toolMessage([...texts, SHOWN_BELOW].join('\n'))
  return { message, shown: [{ type: 'text', text: `${name}:` }, ...shown] }
}

const NOT_SHOWN = '[an image, which is not shown to you]'
const SHOWN_BELOW = '[shown to you below]'

function wordsOf(block: Json): string {
  if (typeof block === 'string') return block
  return isObject(block) && typeof block.text === 'string' ? block.text : JSON.stringify(block)
}

/** Blocks in other forms than that of chat completions are brought into it; what is none of these is the server's to judge. */
function contentToChat(content: string | Json[]): string | Json[] {
  return typeof content === 'string' ? content : content.map((block) => mediaToChat(block) ?? block)
}

/** null: no image, audio or file, or in a form that has no counterpart. */
function mediaToChat(block: Json): JsonObject | null {
  if (!isObject(block)) return null
  const { type, image_url, file } = block
  if ((type === 'image_url' && isObject(image_url)) || type === 'input_audio' || (type === 'file' && isObject(file)))
    return block
  const [part] = partsOf({ content: [block] })
  const media = part?.type === 'media' ? fileOf(part.content) : null
  if (part?.type !== 'media' || !media) return null
  if (part.content.type === 'image' || part.content.type === 'file') return blockOf(media)
  const { url, mediaType } = media
  const data = mediaType.startsWith('audio/') ? base64In(url) : null
  return data === null ? null : { type: 'input_audio', input_audio: { data, format: audioFormat(mediaType) } }
}

/** As chat completions name it. */
function audioFormat(mediaType: string): string {
  const name = mediaType.slice('audio/'.length).replace(/^x-/, '')
  return name === 'mpeg' ? 'mp3' : name
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
