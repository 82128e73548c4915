// Messages in protocol v2: a message starts, its content blocks start, grow and finish one after the other, and it
// finishes. The log has LangGraph's older chunks, whose meaning depends on earlier ones: `Open` is that state. Values
// are immutable, because readers at the same position share them.
import { finishCall } from '../../conversation/calls.ts'
import {
  begun,
  type CallChunk,
  callTextsOf,
  emptyText,
  fold,
  type GrowingText,
  type GrowingMessage,
  isChunk,
  isLastChunk,
  readChunk
} from '../../conversation/chunk.ts'
import { isObject, type Json, type JsonObject, textOf } from '../../base/types.ts'
import type { Namespace, Told } from './event.ts'

/** The block in progress. */
interface Block {
  readonly index: number
  readonly type: 'text' | 'reasoning' | 'tool_call_chunk'
  /** Its text so far; a call's arguments are with the call. */
  readonly text: GrowingText
  /** Which call; -1: it is none. */
  readonly call: number
  /** Characters of the arguments last sent. */
  readonly told: number
}

interface OpenMessage {
  readonly id: string
  readonly namespace: Namespace
  /** The speaker: with the namespace it tells clients which message continues. */
  readonly node: string
  readonly block: Block | null
  readonly blocks: number
  /** Its calls, and what its pieces have said of themselves, which its end says. */
  readonly growing: GrowingMessage
  /** It has finished: a piece that comes late begins no other one. */
  readonly isDone: boolean
}

/** Open messages by id, and those that have finished last. */
export type Open = ReadonlyMap<string, OpenMessage>

const DONE_MAX = 64

export interface Said {
  readonly open: Open
  readonly told: readonly Told[]
}

/** Where the piece of a message comes from. */
interface Speaker {
  readonly namespace: Namespace
  readonly node: string
  /** The run's tools are told of by what messages say of them. */
  readonly tellsTools: boolean
}

/** Whether a message is told where it is said: what tools answer is told as theirs. */
export function isSpoken(message: JsonObject): boolean {
  const { type } = message
  return isChunk(message) || type === 'ai' || type === 'human' || type === 'system'
}

/** A piece of a message, or a whole one, as the log has it. */
export function hear(open: Open, piece: JsonObject, speaker: Speaker): Said {
  const { type } = piece
  if (type === 'tool') return { open, told: speaker.tellsTools ? [toolResult(piece, speaker)] : [] }
  if (isChunk(piece)) return chunk(open, piece, speaker)
  const role = type === 'ai' || type === 'human' || type === 'system' ? type : null
  const isKnown = open.has(String(piece.id))
  return role === null || isKnown ? { open, told: [] } : { open, told: whole(piece, role, speaker) }
}

function chunk(open: Open, piece: JsonObject, speaker: Speaker): Said {
  const id = String(piece.id)
  const told: Told[] = []
  let message = open.get(id)
  if (message?.isDone) return { open, told }
  if (!message) {
    message = begin(open, id, speaker)
    told.push(tell(message, `{"event":"message-start","id":${JSON.stringify(id)},"role":"ai"}`))
  }
  const { calls = [], fields = {} } = readChunk(piece)
  for (const part of partsOf(piece)) message = grow(message, part, told)
  for (const call of calls) message = growCall(message, call, told)
  message = { ...message, growing: fold(message.growing, { fields }) }
  if (!isLastChunk(piece)) return { open: new Map(open).set(id, message), told }
  finish(message, told)
  if (speaker.tellsTools) told.push(...toolStarts(message))
  return { open: closed(open, [message]), told }
}

/** Without what these messages have said. */
function closed(open: Open, messages: readonly OpenMessage[]): Open {
  const rest = new Map(open)
  for (const message of messages) {
    rest.delete(message.id)
    rest.set(message.id, { ...message, block: null, growing: begun(message.id), isDone: true })
  }
  const done = [...rest.values()].filter(({ isDone }) => isDone)
  for (const { id } of done.slice(0, -DONE_MAX)) rest.delete(id)
  return rest
}

/** Clients tell messages of one speaker apart by order: overlapping ones need different speakers. */
function begin(open: Open, id: string, { namespace, node }: Speaker): OpenMessage {
  const isTaken = [...open.values()].some((one) => !one.isDone && one.node === node && isSame(one.namespace, namespace))
  const speaker = isTaken ? `${node}:${id}` : node
  return { id, namespace, node: speaker, block: null, blocks: 0, growing: begun(id), isDone: false }
}

function isSame(one: Namespace, other: Namespace): boolean {
  return one.length === other.length && one.every((segment, i) => segment === other[i])
}

type Part =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  | { readonly type: 'media'; readonly content: JsonObject }

function partsOf({ content, additional_kwargs }: JsonObject): Part[] {
  const parts: Part[] = []
  const reasoning = isObject(additional_kwargs) ? additional_kwargs.reasoning_content : undefined
  if (typeof reasoning === 'string' && reasoning !== '') parts.push({ type: 'reasoning', text: reasoning })
  for (const block of Array.isArray(content) ? content : [content]) {
    if (typeof block === 'string' && block !== '') parts.push({ type: 'text', text: block })
    else if (isObject(block)) parts.push(...partOf(block))
  }
  return parts
}

const MEDIA = ['image', 'audio', 'video', 'file']

/** A picture, sound or file in the words of the protocol, besides its own; null: it is none. Clients look for no other words. */
function mediaIn(block: JsonObject): JsonObject | null {
  const { type, mimeType, image_url: image, input_audio: audio } = block
  if (MEDIA.includes(String(type))) return typeof mimeType === 'string' ? { mime_type: mimeType, ...block } : block
  // As OpenAI says it.
  const url = isObject(image) ? image.url : image
  if (type === 'image_url' && typeof url === 'string') return { type: 'image', url }
  if (type !== 'input_audio' || !isObject(audio)) return null
  return { type: 'audio', data: audio.data ?? null, mime_type: `audio/${audio.format ?? 'wav'}` }
}

/** Blocks of providers' own kinds stand in the state. */
function partOf(block: JsonObject): Part[] {
  const { type, text, reasoning, thinking } = block
  const content = mediaIn(block)
  if (content) return [{ type: 'media', content }]
  if (type === 'text' && typeof text === 'string' && text !== '') return [{ type, text }]
  const thought = reasoning ?? thinking
  return typeof thought === 'string' && thought !== '' ? [{ type: 'reasoning', text: thought }] : []
}

function grow(message: OpenMessage, part: Part, told: Told[]): OpenMessage {
  if (part.type === 'media') return addMedia(finishBlock(message, told), part.content, told)
  const { type, text } = part
  const at = message.block?.type === type ? message : beginBlock(finishBlock(message, told), type, -1, told)
  const block = at.block!
  told.push(tell(at, `{"event":"content-block-delta","index":${block.index},"delta":${deltaJson(type, text)}}`))
  return { ...at, block: { ...block, text: block.text.with(text) } }
}

/** A block that comes in one piece. */
function addMedia(message: OpenMessage, content: JsonObject, told: Told[]): OpenMessage {
  const index = message.blocks
  for (const event of ['content-block-start', 'content-block-finish'])
    told.push(tell(message, JSON.stringify({ event, index, content })))
  return { ...message, blocks: index + 1 }
}

function deltaJson(type: 'text' | 'reasoning', text: string): string {
  return `{"type":"${type}-delta","${type}":${JSON.stringify(text)}}`
}

function growCall(message: OpenMessage, call: CallChunk, told: Told[]): OpenMessage {
  const { calls } = message.growing
  const growing = fold(message.growing, { calls: [call] })
  const at = growing.calls.findIndex((one, i) => one !== calls[i])
  const grown = { ...message, growing }
  if (grown.block?.call === at) return showArgs(grown, told)
  // A block that has finished does not go on: the call is told whole when its tool begins.
  if (at < calls.length) return grown
  return showArgs(beginBlock(finishBlock(grown, told), 'tool_call_chunk', at, told), told)
}

function textOr(value: Json | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** Up to this size every fragment is sent. */
const ARGS_SHORT = 1024

/** Each update of the arguments replaces the last: long ones are sent again only after growing by an eighth. */
function showArgs(message: OpenMessage, told: Told[]): OpenMessage {
  const block = message.block!
  const { id, name, args } = message.growing.calls[block.call]!
  const { length } = args
  if (length === block.told || (length > ARGS_SHORT && length < block.told * 1.125)) return message
  const fields = { type: 'tool_call_chunk', id, name, args: String(args) }
  const delta = JSON.stringify({ type: 'block-delta', fields })
  told.push(tell(message, `{"event":"content-block-delta","index":${block.index},"delta":${delta}}`))
  return { ...message, block: { ...block, told: length } }
}

function beginBlock(message: OpenMessage, type: Block['type'], call: number, told: Told[]): OpenMessage {
  const { id = null, name = null } = message.growing.calls[call] ?? {}
  const content =
    type === 'tool_call_chunk'
      ? { type, id, name, args: '' }
      : type === 'text'
        ? { type, text: '' }
        : { type, reasoning: '' }
  const index = message.blocks
  told.push(tell(message, JSON.stringify({ event: 'content-block-start', index, content })))
  return { ...message, blocks: index + 1, block: { index, type, text: emptyText, call, told: 0 } }
}

function finishBlock(message: OpenMessage, told: Told[]): OpenMessage {
  const { block } = message
  if (!block) return message
  const content = finishedBlock(block, message.growing)
  told.push(tell(message, JSON.stringify({ event: 'content-block-finish', index: block.index, content })))
  return { ...message, block: null }
}

function finishedBlock({ type, text, call }: Block, growing: GrowingMessage): object {
  if (type !== 'tool_call_chunk') return { type, [type]: String(text) }
  const { id, name, args } = growing.calls[call]!
  const finished = finishCall({ id, name, args: String(args) }, true)
  // What is missing is null here.
  return { ...finished, id, name }
}

/** @param reason why it has ended, unless it says so itself; null: it was cut */
function finish(message: OpenMessage, told: Told[], reason: string | null = 'stop'): void {
  const { usage_metadata: usage, response_metadata } = message.growing.fields
  const metadata = isObject(response_metadata) ? response_metadata : null
  const said = typeof metadata?.finish_reason === 'string' ? metadata.finish_reason : reason
  const data = {
    event: 'message-finish',
    ...(isObject(usage) && { usage }),
    ...(said !== null && { reason: said }),
    ...(metadata && Object.keys(metadata).length > 0 && { responseMetadata: metadata })
  }
  told.push(tell(finishBlock(message, told), JSON.stringify(data)))
}

/** Messages that were said in tasks, whose step is over now: a graph does not always say which chunk is a message's last. */
export function finishTasks(open: Open): Said {
  return finishWhere(open, ({ namespace }) => namespace.length > 0)
}

/** The same of one task that is over. */
export function finishTask(open: Open, task: Namespace): Said {
  return finishWhere(open, ({ namespace }) => task.every((segment, i) => namespace[i] === segment))
}

/** The same of messages that are part of what a node has given: pieces that have not come by then are told as it has them. */
export function finishGiven(open: Open, given: JsonObject): Said {
  const lists = Object.values(given).filter(Array.isArray)
  const whole = new Map(lists.flat().flatMap((one) => (isObject(one) ? [[String(one.id), one] as const] : [])))
  const told: Told[] = []
  const full = new Map(open)
  for (const message of open.values()) {
    const text = message.isDone ? '' : lacking(message, whole.get(message.id)?.content)
    if (text !== '') full.set(message.id, grow(message, { type: 'text', text }, told))
  }
  const finished = finishWhere(full, ({ id }) => whole.has(id))
  return { open: finished.open, told: [...told, ...finished.told] }
}

function lacking({ block, blocks }: OpenMessage, content: Json | undefined): string {
  const isText = blocks === 1 && block?.type === 'text' && typeof content === 'string'
  return isText && content.startsWith(String(block.text)) ? content.slice(block.text.length) : ''
}

/** The run is over. */
export function finishAll(open: Open): Said {
  return finishWhere(open, () => true)
}

/** It was cut. */
export function finishCut(open: Open): Said {
  return finishWhere(open, () => true, null)
}

function finishWhere(open: Open, isMeant: (message: OpenMessage) => boolean, reason: string | null = 'stop'): Said {
  const meant = [...open.values()].filter((message) => !message.isDone && isMeant(message))
  if (meant.length === 0) return { open, told: [] }
  const told: Told[] = []
  for (const message of meant) finish(message, told, reason)
  return { open: closed(open, meant), told }
}

function whole(piece: JsonObject, role: string, speaker: Speaker): Told[] {
  const id = String(piece.id)
  const told: Told[] = []
  let message = begin(new Map(), id, speaker)
  told.push(tell(message, JSON.stringify({ event: 'message-start', id, role })))
  for (const part of partsOf(piece)) message = grow(message, part, told)
  const calls = Array.isArray(piece.tool_calls) ? piece.tool_calls.filter(isObject) : []
  for (const [index, { id: callId, name, args }] of calls.entries()) {
    const call = { index, id: textOr(callId), name: textOr(name), args: JSON.stringify(args ?? {}) }
    message = growCall(message, call, told)
  }
  const { fields = {} } = readChunk(piece)
  finish({ ...message, growing: fold(message.growing, { fields }) }, told, null)
  if (role === 'ai' && speaker.tellsTools) told.push(...toolStarts(message))
  return told
}

function tell({ namespace, node }: OpenMessage, json: string): Told {
  return { method: 'messages', channel: 'messages', namespace, node, json }
}

// ------------------------------------------------------------------------------------------------------- tools

function toolStarts({ namespace, growing }: OpenMessage): Told[] {
  return callTextsOf(growing).flatMap((text) => {
    const call = finishCall(text, true)
    if (call.type !== 'tool_call' || text.id === null) return []
    const data = { event: 'tool-started', tool_call_id: call.id, tool_name: call.name, input: call.args }
    return [{ method: 'tools', channel: 'tools', namespace, node: 'tools', json: JSON.stringify(data) }]
  })
}

function toolResult(message: JsonObject, { namespace }: Speaker): Told {
  const tool_call_id = String(message.tool_call_id)
  // Messages in a log are the run's own: their contents are texts, or lists of blocks.
  const text = () => textOf(message.content as Parameters<typeof textOf>[0])
  const data =
    message.status === 'error'
      ? { event: 'tool-error', tool_call_id, message: text() }
      : { event: 'tool-finished', tool_call_id, output: message }
  return { method: 'tools', channel: 'tools', namespace, node: 'tools', json: JSON.stringify(data) }
}
