// Mode `messages`: messages as they grow, built from the log's deltas at delivery. Nothing of it is stored. One per
// joiner, because the result depends on where the joiner came in.
import { finishCalls, growingCalls } from '../../conversation/calls.ts'
import {
  begun,
  callChunksOf,
  callTextsOf,
  contentOf,
  fold,
  type GrowingMessage,
  isChunk,
  isLastChunk,
  readChunk
} from '../../conversation/chunk.ts'
import { objectOr } from '../../base/json.ts'
import { type Json, type JsonObject, isObject } from '../../base/types.ts'
import type { RawFrame } from '../log/segment.ts'
import { cursorText, dataOf, frameText, Kind } from '../log/frame.ts'
import type { FrameSink } from '../log/stored-frames.ts'
import { isNamed } from '../log/values-frame.ts'

/** Prefix of a frame that holds a graph's own state. */
const VALUES = 'event: values\n'

type At = Pick<RawFrame, 'n' | 'epoch'>

interface Growing {
  readonly message: GrowingMessage
  /** Position of the frame that changed it last. */
  readonly at: At
  /** The reader has not seen the newest version yet. */
  readonly isNew: boolean
}

export class Accumulator implements FrameSink {
  readonly from: number
  readonly readsValues = true
  /** Incomplete messages, by id. An agent may write several at a time. */
  readonly #growing = new Map<string, Growing>()
  readonly #introduced = new Set<string>()
  /** Messages of a graph that its state already has. */
  readonly #completed = new Set<string>()
  #out: Buffer[] = []
  bytes = 0

  /** `chunks`: holding everything said of their messages before the first frame given. */
  constructor(from: number, chunks: readonly JsonObject[] = []) {
    this.from = from
    const at = { n: from - 1, epoch: 0 }
    for (const chunk of chunks) this.#grow(String(chunk.id), chunk, at, false)
  }

  /** Takes the next frame of the log; a delta is merged, not sent. */
  take(frame: RawFrame, text: Buffer | null, isShown: boolean): void {
    if (frame.kind === Kind.messages) this.#fold(frame)
    else if (text && isShown) {
      this.#showGrown()
      this.#push(text)
    }
    if (frame.kind === Kind.state) this.#complete(frame, frame.bytes)
    else if (frame.kind === Kind.values && text && isNamed(frame.bytes)) this.#complete(frame, text)
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
    const [given, metadata] = JSON.parse(dataOf(frame.bytes)) as [JsonObject, JsonObject]
    const id = String(given.id)
    if (isOfGraph(metadata)) return this.#foldOfGraph(frame, id, given, metadata)
    this.#introduce(frame, id, metadata)
    const piece = withMark(given, metadata)
    if (!isChunk(piece)) return this.#completeOne(frame, id, piece)
    const isLast = isLastChunk(piece)
    const message = this.#grow(id, piece, frame, !isLast && frame.n >= this.from)
    if (isLast) this.#completeOne(frame, id, completed(message))
  }

  #grow(id: string, piece: JsonObject, at: At, isNew: boolean): GrowingMessage {
    const message = fold(this.#growing.get(id)?.message ?? begun(id), readChunk(piece))
    this.#growing.set(id, { message, at, isNew })
    return message
  }

  #completeOne(frame: RawFrame, id: string, message: object): void {
    this.#growing.delete(id)
    // Growth of the other messages comes first.
    this.#showGrown()
    this.#show(frame, 'messages/complete', message)
  }

  /** As LangGraph's server: a partial for each piece; a message that a node wrote whole is shown once it is in the state. */
  #foldOfGraph(frame: RawFrame, id: string, piece: JsonObject, metadata: JsonObject): void {
    if (!isChunk(piece) || this.#completed.has(id)) return
    this.#introduce(frame, id, metadata)
    const isFirst = !this.#growing.has(id)
    this.#show(frame, 'messages/partial', partOfGraph(this.#grow(id, piece, frame, false), isFirst))
  }

  /** Messages of a graph's state that are new in it. */
  #complete(frame: RawFrame, text: Buffer): void {
    if (text.toString('latin1', 0, VALUES.length) !== VALUES) return
    // A state frame holds JSON: written by this process.
    const values = JSON.parse(dataOf(text)) as Json
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
      this.#show(at, 'messages/partial', partial(message))
    }
  }

  #show({ n, epoch }: At, event: string, message: object): void {
    if (n >= this.from) this.#push(Buffer.from(frameText(event, JSON.stringify([message]), cursorText(epoch, n))))
  }

  #push(bytes: Buffer): void {
    this.#out.push(bytes)
    this.bytes += bytes.length
  }
}

/** A graph's pieces name the node they come from; messages that a node of Python wrote whole by one name alone. */
function isOfGraph({ checkpoint_ns, langgraph_checkpoint_ns }: JsonObject): boolean {
  return checkpoint_ns !== undefined || langgraph_checkpoint_ns !== undefined
}

/** A message with a truncated giant piece stays marked as truncated. */
function withMark(piece: JsonObject, { content_truncated, original_byte_length, content_url }: JsonObject): JsonObject {
  if (content_truncated === undefined) return piece
  const mark = { content_truncated, original_byte_length: original_byte_length!, content_url: content_url! }
  return { ...piece, response_metadata: { ...objectOr(piece.response_metadata), ...mark } }
}

// ------------------------------------------------------------------------------------------------- showing

/** Clients of this mode know messages, not chunks. A complete one has the fields it has in the state, and no others. */
function asMessage(message: GrowingMessage): JsonObject {
  const { chunk_position: _, ...fields } = message.fields
  return {
    response_metadata: {},
    name: null,
    usage_metadata: null,
    ...fields,
    additional_kwargs: kwargsOf(message),
    content: contentOf(message),
    type: 'ai'
  }
}

function kwargsOf({ fields, reasoning }: GrowingMessage): JsonObject {
  const kwargs = objectOr(fields.additional_kwargs)
  return reasoning.isEmpty ? kwargs : { ...kwargs, reasoning_content: String(reasoning) }
}

function partial(message: GrowingMessage): object {
  const calls = message.calls.length > 0 && { tool_call_chunks: callChunksOf(message) }
  return { ...asMessage(message), tool_calls: growingCalls(message), invalid_tool_calls: [], ...calls }
}

/** Empty arguments are a call without any if the model says it has called; otherwise the call was broken off. */
function completed(message: GrowingMessage): object {
  const hasCalled = objectOr(message.fields.response_metadata).finish_reason === 'tool_calls'
  return { ...asMessage(message), ...finishCalls(callTextsOf(message), hasCalled) }
}

/** A graph's pieces keep all their fields, and count as LangChain adds them up. */
function partOfGraph(message: GrowingMessage, isFirst: boolean): object {
  const { fields } = message
  const usage = isFirst ? null : fields.usage_metadata
  return {
    ...fields,
    content: contentOf(message),
    ...(fields.additional_kwargs !== undefined && { additional_kwargs: kwargsOf(message) }),
    tool_call_chunks: callChunksOf(message),
    ...(message.calls.length > 0 && { tool_calls: growingCalls(message), invalid_tool_calls: [] }),
    ...(usage && { usage_metadata: { input_token_details: {}, output_token_details: {}, ...objectOr(usage) } })
  }
}
