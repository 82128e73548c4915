// A run as the AI SDK's UI message stream, v1: one message, which grows by chunks.
import { clientToolNames } from '../../agent/client-context.ts'
import { isObject, type Interrupt, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { fileOf } from '../../conversation/content.ts'
import type { Translation } from '../feed.ts'
import { JsonText } from '../json-text.ts'
import { type Call, type End, endingParts, NO_PARTS, type Part, partsIn, type PartState, tokensOf } from '../parts.ts'
import { approvalId, reviewsOf } from '../reviews.ts'
import { END_PART, type Place } from '../places.ts'
import { continuesMessage, messageIdOf } from './ids.ts'
import { outputOf } from './output.ts'

/** A chunk, where it stands in its thread, and how many of its run come before it. */
export interface Chunk {
  readonly json: JsonText
  readonly at: Place
  readonly number: number
}

/** Immutable: readers at the same place share it. */
export interface ChatState {
  readonly parts: PartState
  /** Chunks so far. */
  readonly count: number
}

export const TRANSLATION: Translation<ChatState, Chunk> = {
  initial: { parts: NO_PARTS, count: 0 },
  frame(run, before, frame, values) {
    const { state, parts } = partsIn(run, before.parts, frame, values)
    const { epoch, n } = frame
    const events = placed(chunksOf(run, parts), { ordinal: run.ordinal, epoch, n, part: 0 }, before.count)
    return { state: { parts: state, count: before.count + events.length }, events }
  },
  end: (run, state, at) => ending(run, state, at, (chunk) => chunk)
}

/**
 * Of a run whose message has gone on in another: what it asked is answered, and not asked again. Its chunks have the same places. What stands
 * for an answer of the client's own stays: the answer follows.
 */
export const ANSWERED: Translation<ChatState, Chunk> = {
  ...TRANSLATION,
  end: (run, state, at) => ending(run, state, at, (chunk) => (chunk.providerExecuted === false ? chunk : NOTHING))
}

const NOTHING: JsonObject = { type: 'message-metadata', messageMetadata: {} }

function ending(
  run: Run,
  { parts, count }: ChatState,
  { epoch, n }: Parameters<(typeof TRANSLATION)['end']>[2],
  asking: (chunk: JsonObject) => JsonObject
): Chunk[] {
  const all = endingParts(run, parts).flatMap((part) =>
    part.type === 'end' ? endChunks(part.end, asking) : chunks(run, part)
  )
  return placed(all, { ordinal: run.ordinal, epoch, n, part: END_PART }, count)
}

function placed(chunks: readonly JsonObject[], at: Place, count: number): Chunk[] {
  return chunks.map((chunk, i) => ({
    json: new JsonText(chunk),
    at: { ...at, part: at.part + i },
    number: count + i
  }))
}

function chunksOf(run: Run, parts: readonly Part[]): JsonObject[] {
  return parts.flatMap((part) => chunks(run, part))
}

/** The server runs them, and the client knows none of them before. */
const TOOL = { dynamic: true, providerExecuted: true } as const

function chunks(run: Run, part: Part): JsonObject[] {
  switch (part.type) {
    case 'begin':
      return part.isFirst ? [{ type: 'start', messageId: messageIdOf(run), messageMetadata: metadataOf(run) }] : []
    case 'message':
      return [{ type: 'start-step' }]
    case 'open':
      return [{ type: `${part.kind}-start`, id: part.block }]
    case 'delta':
      return [{ type: `${part.kind}-delta`, id: part.block, delta: part.text }]
    case 'close':
      return [{ type: `${part.kind}-end`, id: part.block }]
    case 'media':
      return fileChunk(part.content)
    case 'call':
      return [{ type: 'tool-input-start', toolCallId: part.id, toolName: part.name, ...TOOL }]
    case 'args':
      return [{ type: 'tool-input-delta', toolCallId: part.id, inputTextDelta: part.text }]
    case 'called':
      return [calledChunk(part)]
    case 'result':
      // Of an earlier message: the client has no part there to put it in.
      return part.isOfRun || continuesMessage(run) ? [resultChunk(part)] : []
    case 'asked':
      return []
    case 'done':
      return [{ type: 'finish-step' }]
    case 'data':
      return [dataChunk(part.name, part.data)]
    case 'end':
      return endChunks(part.end)
  }
}

function metadataOf({ thread_id, run_id }: Run): JsonObject {
  return { thread_id, run_id }
}

function calledChunk({ id, name, args, error }: Part & { readonly type: 'called' }): JsonObject {
  const about = { toolCallId: id, toolName: name, input: args, ...TOOL }
  return error === null
    ? { type: 'tool-input-available', ...about }
    : { type: 'tool-input-error', ...about, errorText: error }
}

function resultChunk(part: Part & { readonly type: 'result' }): JsonObject {
  const { id, text, isError, content, artifact } = part
  const about = { toolCallId: id, ...TOOL }
  return isError
    ? { type: 'tool-output-error', ...about, errorText: text }
    : { type: 'tool-output-available', ...about, output: outputOf({ content, artifact }) }
}

/** The client shows files by their address; data stand in one. */
function fileChunk(content: JsonObject): JsonObject[] {
  const file = fileOf(content)
  return file ? [{ type: 'file', url: file.url, mediaType: file.mediaType }] : []
}

const NAME = /^[\w-]{1,64}$/

/** What an agent sends beside its answer: a source, or data of its own. The client replaces data with the same id. */
function dataChunk(name: string, data: Json): JsonObject {
  const { id, url, title } = isObject(data) ? data : {}
  if (name === 'source' && typeof url === 'string') {
    const sourceId = typeof id === 'string' ? id : url
    return { type: 'source-url', sourceId, url, ...(typeof title === 'string' && { title }) }
  }
  return { type: `data-${NAME.test(name) ? name : 'custom'}`, ...(typeof id === 'string' && { id }), data }
}

// ------------------------------------------------------------------------------------------------ the end

function endChunks(end: End, asking = (chunk: JsonObject) => chunk): JsonObject[] {
  const { run, questions, calls, failure, usage } = end
  const open = run.status === 'success' ? leftOpen(run, calls) : []
  const asked = [...questions.flatMap((question) => askedChunks(question, calls)), ...open].map(asking)
  if (failure !== null) return [...asked, { type: 'error', errorText: failure }, finish(end, 'error')]
  if (run.status === 'interrupted' && run.stop_reason !== 'asked_user')
    return [
      ...asked,
      { type: 'message-metadata', messageMetadata: { usage: tokensOf(usage) } },
      { type: 'abort', reason: 'cancelled' }
    ]
  return [...asked, finish(end, asked.length > 0 ? 'tool-calls' : finishReason(end.reason))]
}

/** Calls of the client's tools with which a graph has ended. */
function leftOpen({ kwargs }: Run, calls: readonly Call[]): JsonObject[] {
  const names = clientToolNames(kwargs)
  return calls.filter(({ name }) => names.includes(name)).map(ownCall)
}

/** The client runs it. */
function ownCall(call: Call): JsonObject {
  return { type: 'tool-input-available', ...callOf(call), dynamic: true, providerExecuted: false }
}

function finish({ run, usage }: End, finishReason: string): JsonObject {
  return { type: 'finish', finishReason, messageMetadata: { ...metadataOf(run), usage: tokensOf(usage) } }
}

function finishReason(reason: string | null): string {
  if (reason === 'length' || reason === 'max_tokens') return 'length'
  return reason === 'content_filter' ? 'content-filter' : 'stop'
}

/** A review of calls is an approval of each; a call's own question is answered with its output; any other is data. */
function askedChunks(question: Interrupt, calls: readonly Call[]): JsonObject[] {
  const own = calls.find(({ id }) => id === question.id)
  if (own) return [ownCall(own)]
  const reviews = reviewsOf(question, calls)
  if (reviews.length === 0) return [{ type: 'data-interrupt', id: question.id, data: { ...question } }]
  return reviews.flatMap(({ call, name, args }, at): JsonObject[] => {
    const id = approvalId(question, at)
    const known = call ?? { id, name, args }
    const shown = call ? [] : [{ type: 'tool-input-available', ...callOf(known), ...TOOL }]
    return [...shown, { type: 'tool-approval-request', approvalId: id, toolCallId: known.id }]
  })
}

function callOf({ id, name, args }: Pick<Call, 'id' | 'name' | 'args'>): JsonObject {
  return { toolCallId: id, toolName: name, input: args }
}
