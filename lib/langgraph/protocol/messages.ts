// Messages in protocol v2: a message starts, its content blocks start, grow and finish one after the other, and it
// finishes. The log has LangGraph's older chunks, which need the ones before them: `OpenMessages` is that state. Values
// are immutable, because readers at the same position share them.
import { textOr } from '../../base/json.ts'
import { finishCall, isBrokenOff } from '../../conversation/calls.ts'
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
import { partsOf, type Part } from '../../conversation/content.ts'
import { isObject, type Json, type JsonObject, textOf } from '../../base/types.ts'
import type { Namespace, EventBody } from './event.ts'

/** The block in progress. */
interface Block {
  readonly index: number
  readonly type: 'text' | 'reasoning' | 'tool_call_chunk'
  /** Text so far; arguments of a tool call are in `OpenMessage.growing`. */
  readonly text: GrowingText
  /** Index of the tool call; -1: not a tool call. */
  readonly call: number
  /** Length of the arguments last sent, in characters. */
  readonly sentLength: number
}

interface OpenMessage {
  readonly id: string
  readonly namespace: Namespace
  /** Clients match a delta to its message by node and namespace. */
  readonly node: string
  readonly block: Block | null
  readonly blocks: number
  /** The message as folded so far: its calls, and the fields its finish event carries. */
  readonly growing: GrowingMessage
  /** An earlier attempt's, and not gone on with yet. */
  readonly isCut: boolean
  /** Finished: late chunks must not start it again. */
  readonly isDone: boolean
}

/** Open messages by id, and the last DONE_MAX that have finished. */
export type OpenMessages = ReadonlyMap<string, OpenMessage>

const DONE_MAX = 64

interface MessagesResult {
  readonly open: OpenMessages
  readonly emitted: readonly EventBody[]
}

/** Where a message comes from. */
interface Source {
  readonly namespace: Namespace
  readonly node: string
  /** Derive tool events from messages (graphs emit their own). */
  readonly derivesTools: boolean
}

/** Whether a message has events on the `messages` channel: tool results have theirs on `tools`. */
export function isMessageEvent(message: JsonObject): boolean {
  const { type } = message
  return isChunk(message) || type === 'ai' || type === 'human' || type === 'system'
}

/** Translates a chunk or a whole message of the log. */
export function translateMessage(open: OpenMessages, piece: JsonObject, source: Source): MessagesResult {
  const { type } = piece
  if (type === 'tool') return { open, emitted: source.derivesTools ? [toolResult(piece, source)] : [] }
  if (isChunk(piece)) return chunk(open, piece, source)
  const role = type === 'ai' || type === 'human' || type === 'system' ? type : null
  const isKnown = open.has(String(piece.id))
  if (role === null || isKnown) return { open, emitted: [] }
  const before = role === 'ai' ? finishDropped(open) : { open, emitted: [] }
  return { open: before.open, emitted: [...before.emitted, ...whole(piece, role, source)] }
}

function chunk(all: OpenMessages, piece: JsonObject, source: Source): MessagesResult {
  const id = String(piece.id)
  const known = all.get(id)
  if (known?.isDone) return { open: all, emitted: [] }
  const before = known ? { open: all, emitted: [] } : finishDropped(all)
  const { open } = before
  const emitted: EventBody[] = [...before.emitted]
  let message = known && { ...known, isCut: false }
  if (!message) {
    message = startMessage(open, id, source)
    emitted.push(messageEvent(message, `{"event":"message-start","id":${JSON.stringify(id)},"role":"ai"}`))
  }
  const { calls = [], fields = {} } = readChunk(piece)
  for (const part of partsOf(piece)) message = grow(message, part, emitted)
  for (const call of calls) message = growCall(message, call, emitted)
  message = { ...message, growing: fold(message.growing, { fields }) }
  if (!isLastChunk(piece)) return { open: new Map(open).set(id, message), emitted }
  finish(message, emitted)
  if (source.derivesTools) emitted.push(...toolStarts(message))
  return { open: closed(open, [message]), emitted }
}

/** Marks messages as finished and drops their content. */
function closed(open: OpenMessages, messages: readonly OpenMessage[]): OpenMessages {
  const rest = new Map(open)
  for (const message of messages) {
    rest.delete(message.id)
    rest.set(message.id, { ...message, block: null, growing: begun(message.id), isDone: true })
  }
  const done = [...rest.values()].filter(({ isDone }) => isDone)
  for (const { id } of done.slice(0, -DONE_MAX)) rest.delete(id)
  return rest
}

/** Clients tell messages of one node apart by order only: one that overlaps another gets a node name of its own. */
function startMessage(open: OpenMessages, id: string, { namespace, node }: Source): OpenMessage {
  const isBusy = [...open.values()].some((one) => !one.isDone && one.node === node && isSame(one.namespace, namespace))
  const source = isBusy ? `${node}:${id}` : node
  return { id, namespace, node: source, block: null, blocks: 0, growing: begun(id), isCut: false, isDone: false }
}

function isSame(one: Namespace, other: Namespace): boolean {
  return one.length === other.length && one.every((segment, i) => segment === other[i])
}

function grow(message: OpenMessage, part: Part, emitted: EventBody[]): OpenMessage {
  if (part.type === 'media') return addMedia(finishBlock(message, emitted), part.content, emitted)
  const { type, text } = part
  const at = message.block?.type === type ? message : beginBlock(finishBlock(message, emitted), type, -1, emitted)
  const block = at.block!
  emitted.push(
    messageEvent(at, `{"event":"content-block-delta","index":${block.index},"delta":${deltaJson(type, text)}}`)
  )
  return { ...at, block: { ...block, text: block.text.with(text) } }
}

/** Media blocks have no deltas. */
function addMedia(message: OpenMessage, content: JsonObject, emitted: EventBody[]): OpenMessage {
  const index = message.blocks
  for (const event of ['content-block-start', 'content-block-finish'])
    emitted.push(messageEvent(message, JSON.stringify({ event, index, content })))
  return { ...message, blocks: index + 1 }
}

function deltaJson(type: 'text' | 'reasoning', text: string): string {
  return `{"type":"${type}-delta","${type}":${JSON.stringify(text)}}`
}

function growCall(message: OpenMessage, call: CallChunk, emitted: EventBody[]): OpenMessage {
  const { calls } = message.growing
  const growing = fold(message.growing, { calls: [call] })
  const at = growing.calls.findIndex((one, i) => one !== calls[i])
  const grown = { ...message, growing }
  if (grown.block?.call === at) return showArgs(grown, emitted)
  // A finished block cannot continue: the whole call is in `tool-started`.
  if (at < calls.length) return grown
  return showArgs(beginBlock(finishBlock(grown, emitted), 'tool_call_chunk', at, emitted), emitted)
}

/** Arguments up to this length are sent with every fragment. */
const ARGS_SHORT = 1024

/** Each update repeats all arguments: long ones are sent again only after growing by an eighth, or a call costs n². */
function showArgs(message: OpenMessage, emitted: EventBody[]): OpenMessage {
  const block = message.block!
  const { id, name, args } = message.growing.calls[block.call]!
  const { length } = args
  if (length === block.sentLength || (length > ARGS_SHORT && length < block.sentLength * 1.125)) return message
  const fields = { type: 'tool_call_chunk', id, name, args: String(args) }
  const delta = JSON.stringify({ type: 'block-delta', fields })
  emitted.push(messageEvent(message, `{"event":"content-block-delta","index":${block.index},"delta":${delta}}`))
  return { ...message, block: { ...block, sentLength: length } }
}

function beginBlock(message: OpenMessage, type: Block['type'], call: number, emitted: EventBody[]): OpenMessage {
  const { id = null, name = null } = message.growing.calls[call] ?? {}
  const content =
    type === 'tool_call_chunk'
      ? { type, id, name, args: '' }
      : type === 'text'
        ? { type, text: '' }
        : { type, reasoning: '' }
  const index = message.blocks
  emitted.push(messageEvent(message, JSON.stringify({ event: 'content-block-start', index, content })))
  return { ...message, blocks: index + 1, block: { index, type, text: emptyText, call, sentLength: 0 } }
}

function finishBlock(message: OpenMessage, emitted: EventBody[], isWhole = true): OpenMessage {
  const { block } = message
  if (!block) return message
  const content = finishedBlock(block, message.growing, isWhole)
  emitted.push(messageEvent(message, JSON.stringify({ event: 'content-block-finish', index: block.index, content })))
  return { ...message, block: null }
}

function finishedBlock({ type, text, call }: Block, growing: GrowingMessage, isWhole: boolean): object {
  if (type !== 'tool_call_chunk') return { type, [type]: String(text) }
  const { id, name, args } = growing.calls[call]!
  const finished = finishCall({ id, name, args: String(args) }, isWhole)
  // Unlike in messages, a missing id or name is null here.
  return { ...finished, id, name }
}

/** @param reason unless the message has a finish_reason of its own; null: it was cut */
function finish(
  message: OpenMessage,
  emitted: EventBody[],
  reason: string | null = 'stop',
  isWhole = reason !== null && !isBrokenOff(message.growing.fields)
): void {
  const { usage_metadata: usage, response_metadata } = message.growing.fields
  const metadata = isObject(response_metadata) ? response_metadata : null
  const finishReason = typeof metadata?.finish_reason === 'string' ? metadata.finish_reason : reason
  const data = {
    event: 'message-finish',
    ...(isObject(usage) && { usage }),
    ...(finishReason !== null && { reason: finishReason }),
    ...(metadata && Object.keys(metadata).length > 0 && { responseMetadata: metadata })
  }
  emitted.push(messageEvent(finishBlock(message, emitted, isWhole), JSON.stringify(data)))
}

/** Finishes messages of tasks at the end of a step: graphs do not always mark a message's last chunk. */
export function finishTasks(open: OpenMessages): MessagesResult {
  return finishWhere(open, ({ namespace, isCut }) => namespace.length > 0 && !isCut)
}

/** Finishes messages of a task that has ended. */
export function finishTask(open: OpenMessages, task: Namespace): MessagesResult {
  return finishWhere(open, ({ namespace }) => task.every((segment, i) => namespace[i] === segment))
}

/** Finishes messages contained in a node's update; missing text is taken from it. */
export function finishContained(open: OpenMessages, update: JsonObject): MessagesResult {
  const lists = Object.values(update).filter(Array.isArray)
  const whole = new Map(lists.flat().flatMap((one) => (isObject(one) ? [[String(one.id), one] as const] : [])))
  const emitted: EventBody[] = []
  const full = new Map(open)
  for (const message of open.values()) {
    const text = message.isDone ? '' : missingText(message, whole.get(message.id)?.content)
    if (text !== '') full.set(message.id, grow(message, { type: 'text', text }, emitted))
  }
  const finished = finishWhere(full, ({ id }) => whole.has(id))
  return { open: finished.open, emitted: [...emitted, ...finished.emitted] }
}

function missingText({ block, blocks }: OpenMessage, content: Json | undefined): string {
  const isText = blocks === 1 && block?.type === 'text' && typeof content === 'string'
  return isText && content.startsWith(String(block.text)) ? content.slice(block.text.length) : ''
}

/** At the end of a run. */
export function finishAll(open: OpenMessages): MessagesResult {
  return finishWhere(open, () => true)
}

/** Finishes without a reason: the run was cut. */
export function finishCut(open: OpenMessages): MessagesResult {
  return finishWhere(open, () => true, null)
}

/** Another attempt: it goes on with what was open, or sends it under other ids. */
export function suspendAll(open: OpenMessages): OpenMessages {
  return new Map([...open].map(([id, message]) => [id, { ...message, isCut: true }]))
}

/** The first message of an attempt under another id: what was cut is not gone on with. */
function finishDropped(open: OpenMessages): MessagesResult {
  return finishWhere(open, ({ isCut }) => isCut, null)
}

function finishWhere(
  open: OpenMessages,
  isAffected: (message: OpenMessage) => boolean,
  reason: string | null = 'stop'
): MessagesResult {
  const affected = [...open.values()].filter((message) => !message.isDone && isAffected(message))
  if (affected.length === 0) return { open, emitted: [] }
  const emitted: EventBody[] = []
  for (const message of affected) finish(message, emitted, message.isCut ? null : reason)
  return { open: closed(open, affected), emitted }
}

function whole(piece: JsonObject, role: string, source: Source): EventBody[] {
  const id = String(piece.id)
  const emitted: EventBody[] = []
  let message = startMessage(new Map(), id, source)
  emitted.push(messageEvent(message, JSON.stringify({ event: 'message-start', id, role })))
  for (const part of partsOf(piece)) message = grow(message, part, emitted)
  const calls = Array.isArray(piece.tool_calls) ? piece.tool_calls.filter(isObject) : []
  for (const [index, { id: callId, name, args }] of calls.entries()) {
    const call = { index, id: textOr(callId) || null, name: textOr(name) || null, args: JSON.stringify(args ?? {}) }
    message = growCall(message, call, emitted)
  }
  const { fields = {} } = readChunk(piece)
  finish({ ...message, growing: fold(message.growing, { fields }) }, emitted, null, true)
  if (role === 'ai' && source.derivesTools) emitted.push(...toolStarts(message))
  return emitted
}

function messageEvent({ namespace, node }: OpenMessage, json: string): EventBody {
  return { method: 'messages', channel: 'messages', namespace, node, json }
}

// ------------------------------------------------------------------------------------------------------- tools

function toolStarts({ namespace, growing }: OpenMessage): EventBody[] {
  return callTextsOf(growing).flatMap((text) => {
    const call = finishCall(text, !isBrokenOff(growing.fields))
    if (call.type !== 'tool_call' || text.id === null) return []
    const data = { event: 'tool-started', tool_call_id: call.id, tool_name: call.name, input: call.args }
    return [{ method: 'tools', channel: 'tools', namespace, node: 'tools', json: JSON.stringify(data) }]
  })
}

function toolResult(message: JsonObject, { namespace }: Source): EventBody {
  const tool_call_id = String(message.tool_call_id)
  // Written by this service: content is a text or a list of blocks.
  const text = () => textOf(message.content as Parameters<typeof textOf>[0])
  const data =
    message.status === 'error'
      ? { event: 'tool-error', tool_call_id, message: text() }
      : { event: 'tool-finished', tool_call_id, output: message }
  return { method: 'tools', channel: 'tools', namespace, node: 'tools', json: JSON.stringify(data) }
}
