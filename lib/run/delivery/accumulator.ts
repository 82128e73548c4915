// Mode `messages`: messages as they grow, built from the log's deltas at delivery. Nothing of it is stored. One per
// joiner, because the result depends on where the joiner came in.
import { type Json, type JsonObject, isObject } from '../../types.ts'
import { Kind } from '../log/filter.ts'
import { parseArgs } from '../log/message.ts'
import type { RawFrame } from '../log/segment.ts'
import { cursorText, dataOf, frameText } from '../log/sse.ts'
import type { FrameSink } from '../log/stored-frames.ts'

/** A message in progress: the merged fields of its chunks so far. */
type Accumulated = JsonObject

/** Prefix of a frame that holds a graph's own state. */
const VALUES = 'event: values\n'

type At = Pick<RawFrame, 'n' | 'epoch'>

interface Growing {
  readonly message: Accumulated
  /** Position of the frame that changed it last. */
  readonly at: At
  /** The reader has not seen the newest version yet. */
  readonly isNew: boolean
}

export class Accumulator implements FrameSink {
  readonly from: number
  /** Incomplete messages, by id. An agent may write several at a time. */
  readonly #growing = new Map<string, Growing>()
  readonly #introduced = new Set<string>()
  /** Messages of a graph that its state already has. */
  readonly #completed = new Set<string>()
  #out: Buffer[] = []
  bytes = 0

  /** `begun`: chunks holding everything said of their messages before the first frame given. */
  constructor(from: number, begun: readonly Accumulated[] = []) {
    this.from = from
    const at = { n: from - 1, epoch: 0 }
    for (const message of begun) this.#growing.set(String(message.id), { message, at, isNew: false })
  }

  /** Takes the next frame of the log; a delta is merged, not sent. */
  take(frame: RawFrame, shown: Buffer | null): void {
    if (frame.kind === Kind.messages) this.#fold(frame)
    else if (shown) {
      this.#showGrown()
      this.#push(shown)
    }
    if (frame.kind === Kind.state) this.#complete(frame)
  }

  /** What to send for the frames taken since the last flush. */
  flush(): Buffer {
    this.#showGrown()
    const bytes = Buffer.concat(this.#out)
    this.#out = []
    this.bytes = 0
    return bytes
  }

  #fold(frame: RawFrame): void {
    // A messages frame holds [message or chunk, metadata]: written by this process.
    const [piece, metadata] = JSON.parse(dataOf(frame.bytes)) as [Accumulated, JsonObject]
    const id = String(piece.id)
    if (isOfGraph(metadata)) return this.#foldOfGraph(frame, id, piece, metadata)
    this.#introduce(frame, id, metadata)
    const message = withMark(add(this.#growing.get(id)?.message, piece), metadata)
    if (piece.type === 'AIMessageChunk' && piece.chunk_position !== 'last') {
      this.#growing.set(id, { message, at: frame, isNew: frame.n >= this.from })
      return
    }
    this.#growing.delete(id)
    // Growth of the other messages comes first.
    this.#showGrown()
    this.#show(frame, 'messages/complete', asMessage(message, true))
  }

  /** As LangGraph's server: a partial for each piece; a message that a node wrote whole is shown once it is in the state. */
  #foldOfGraph(frame: RawFrame, id: string, piece: Accumulated, metadata: JsonObject): void {
    if (!Array.isArray(piece.tool_call_chunks) || this.#completed.has(id)) return
    this.#introduce(frame, id, metadata)
    const before = this.#growing.get(id)?.message
    const message = { ...add(before, piece), ...(before && usageOf(before, piece)) }
    this.#growing.set(id, { message, at: frame, isNew: false })
    const calls = callChunksIn(message.tool_call_chunks).length > 0 ? callsOf(message, false) : {}
    this.#show(frame, 'messages/partial', { ...message, ...calls })
  }

  /** Messages of a graph's state that are new in it. */
  #complete(frame: RawFrame): void {
    if (frame.bytes.toString('latin1', 0, VALUES.length) !== VALUES) return
    // A state frame holds JSON: written by this process.
    const values = JSON.parse(dataOf(frame.bytes)) as Json
    const messages = isObject(values) && Array.isArray(values.messages) ? values.messages.filter(isObject) : []
    const fresh = messages.filter(({ id }) => typeof id === 'string' && !this.#completed.has(id))
    for (const { id } of fresh) {
      this.#completed.add(String(id))
      this.#growing.delete(String(id))
    }
    if (fresh.length > 0 && frame.n >= this.from)
      this.#push(Buffer.from(frameText('messages/complete', JSON.stringify(fresh), cursorText(frame.epoch, frame.n))))
  }

  #introduce(frame: RawFrame, id: string, metadata: JsonObject): void {
    if (this.#introduced.has(id)) return
    this.#introduced.add(id)
    // Without an id: a client cut off here resumes from the frame before, and misses nothing of this one.
    if (frame.n >= this.from)
      this.#push(Buffer.from(`event: messages/metadata\ndata: ${JSON.stringify({ [id]: { metadata } })}\n\n`))
  }

  /** Shows every message that has grown, ordered by newest frame, so that positions never go back. */
  #showGrown(): void {
    const grown = [...this.#growing].filter(([, { isNew }]) => isNew)
    for (const [id, { message, at }] of grown.sort(([, one], [, other]) => one.at.n - other.at.n)) {
      this.#growing.set(id, { message, at, isNew: false })
      this.#show(at, 'messages/partial', asMessage(message, false))
    }
  }

  #show({ n, epoch }: At, event: string, message: JsonObject): void {
    if (n >= this.from) this.#push(Buffer.from(frameText(event, JSON.stringify([message]), cursorText(epoch, n))))
  }

  #push(bytes: Buffer): void {
    this.#out.push(bytes)
    this.bytes += bytes.length
  }
}

/** A graph's pieces name the node they come from. */
function isOfGraph({ checkpoint_ns }: JsonObject): boolean {
  return checkpoint_ns !== undefined
}

// ------------------------------------------------------------------------------------------------- growing

function add(before: Accumulated | undefined, piece: Accumulated): Accumulated {
  if (!before) return piece
  return {
    ...before,
    ...piece,
    content: addContent(before.content, piece.content),
    ...(piece.additional_kwargs !== undefined && {
      additional_kwargs: addKwargs(before.additional_kwargs, piece.additional_kwargs)
    }),
    ...(piece.response_metadata !== undefined && {
      response_metadata: { ...objectOr(before.response_metadata), ...objectOr(piece.response_metadata) }
    }),
    tool_call_chunks: addToolCallChunks(before.tool_call_chunks, piece.tool_call_chunks)
  }
}

/** As LangChain adds chunks up: what each of them counts. */
function usageOf({ usage_metadata: before }: Accumulated, { usage_metadata: piece }: Accumulated): JsonObject {
  if (!before && !piece) return {}
  return { usage_metadata: { input_token_details: {}, output_token_details: {}, ...sumOf(before, piece) } }
}

function sumOf(one: Json | undefined, other: Json | undefined): JsonObject {
  const [first, second] = [objectOr(one), objectOr(other)]
  const sum = (a: Json | undefined, b: Json | undefined): Json =>
    isObject(a) || isObject(b) ? sumOf(a, b) : Number(a ?? 0) + Number(b ?? 0)
  return Object.fromEntries(Object.keys({ ...first, ...second }).map((name) => [name, sum(first[name], second[name])]))
}

/** Text grows by what is added; lists of blocks grow by blocks. */
function addContent(before: Json | undefined, piece: Json | undefined): Json {
  if (piece === undefined) return before ?? ''
  if (typeof before === 'string' && typeof piece === 'string') return before + piece
  if (Array.isArray(before) && Array.isArray(piece)) return [...before, ...piece]
  return before === undefined || before === '' ? piece : before
}

function addToolCallChunks(before: Json | undefined, pieces: Json | undefined): Json {
  const chunks = callChunksIn(before)
  for (const piece of callChunksIn(pieces)) {
    const at = chunks.findIndex((chunk) => chunk.index === piece.index)
    const known = chunks[at]
    if (known) chunks[at] = grownCall(known, piece)
    else chunks.push(piece)
  }
  return chunks
}

/** Merged as PartialMessage does: the first name and the last id win. */
function grownCall(known: JsonObject, piece: JsonObject): JsonObject {
  return {
    ...known,
    name: known.name || (piece.name ?? null),
    id: piece.id || (known.id ?? null),
    args: `${known.args ?? ''}${piece.args ?? ''}`
  }
}

/** Reasoning streams in pieces like the text. */
function addKwargs(before: Json | undefined, piece: Json): Json {
  if (!isObject(before) || !isObject(piece)) return piece
  const [was, more] = [before.reasoning_content, piece.reasoning_content]
  return {
    ...before,
    ...piece,
    ...(typeof was === 'string' && typeof more === 'string' && { reasoning_content: was + more })
  }
}

/** A message with a truncated giant piece stays marked as truncated. */
function withMark(
  message: Accumulated,
  { content_truncated, original_byte_length, content_url }: JsonObject
): Accumulated {
  if (content_truncated === undefined) return message
  const mark = { content_truncated, original_byte_length: original_byte_length!, content_url: content_url! }
  return { ...message, response_metadata: { ...objectOr(message.response_metadata), ...mark } }
}

function objectOr(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {}
}

/** Chunks in the log are objects: written by this process. */
function callChunksIn(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? [...(value as JsonObject[])] : []
}

// ------------------------------------------------------------------------------------------------- showing

/** Clients of this mode know messages, not chunks. A complete one has the fields it has in the state, and no others. */
function asMessage(given: Accumulated, isComplete: boolean): JsonObject {
  if (given.type !== 'AIMessageChunk') return given
  const { chunk_position: _, tool_call_chunks, ...message } = given
  return {
    additional_kwargs: {},
    response_metadata: {},
    name: null,
    usage_metadata: null,
    ...message,
    type: 'ai',
    ...callsOf(given, isComplete),
    ...(!isComplete && tool_call_chunks !== undefined && { tool_call_chunks })
  }
}

/**
 * Calls with their arguments so far and, once the message is complete, the fragments that never became a call. Empty arguments are
 * a call without any if the model says it has called; otherwise the call was broken off.
 */
function callsOf({ tool_call_chunks, response_metadata }: Accumulated, isComplete: boolean): JsonObject {
  const hasCalled = isComplete && objectOr(response_metadata).finish_reason === 'tool_calls'
  const calls: JsonObject[] = []
  const invalid: JsonObject[] = []
  for (const { name, args: given, id } of callChunksIn(tool_call_chunks)) {
    const text = String(given ?? '')
    const args = isComplete ? (text === '' && !hasCalled ? null : parseArgs(text)) : parsePartialArgs(text)
    if (args && name) calls.push({ name, args, id: id ?? '', type: 'tool_call' })
    else invalid.push({ name: name ?? '', args: text, id: id ?? '', error: null, type: 'invalid_tool_call' })
  }
  return { tool_calls: calls, invalid_tool_calls: isComplete ? invalid : [] }
}

/** Incomplete JSON as far as it came, like LangChain's chunks. */
function parsePartialArgs(text: string): JsonObject | null {
  const { head, closing } = closeJson(text)
  return parseArgs(text) ?? parseArgs(head + closing) ?? parseArgs(head.replace(DANGLING, '') + closing)
}

/** At the end of incomplete JSON: a comma, a key, or a value that may continue. */
const DANGLING = /(,\s*)?("(?:[^"\\]|\\.)*"\s*(:\s*)?)?[-+.\w]*\s*$/
const UNFINISHED_ESCAPE = /(?<!\\)((?:\\\\)*)\\(?:u[\da-f]{0,3})?$/i

/** Incomplete JSON, with an open string ended, and the brackets that close it. */
function closeJson(text: string): { readonly head: string; readonly closing: string } {
  let closing = ''
  let isString = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (isString && char === '\\') at++
    else if (char === '"') isString = !isString
    else if (!isString && char === '{') closing = `}${closing}`
    else if (!isString && char === '[') closing = `]${closing}`
    else if (!isString && (char === '}' || char === ']')) closing = closing.slice(1)
  }
  return { head: isString ? `${text.replace(UNFINISHED_ESCAPE, '$1')}"` : text, closing }
}
