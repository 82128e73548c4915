// Messages in progress: an agent's deltas, as frames clients read and as the message they become; and messages that
// come whole. The shape is LangGraph's, reduced to what its clients need.
import type { Delta } from '../../agent/runtime.ts'
import { GrowingText } from '../../growing-text.ts'
import type { AiMessage, InvalidToolCall, Json, JsonObject, Message, ToolCall, UsageMetadata } from '../../types.ts'
import { cutText, fits, type Marker, type Shorten, withShortTexts } from './oversized.ts'

/** Clients only read the node; repeating more would cost more than the text [needs N11]. */
const METADATA = '{"langgraph_node":"agent"}'
const TOOLS_METADATA = '{"langgraph_node":"tools"}'

/**
 * `[chunk, metadata]` as JSON, for one run's deltas. Concatenated by hand, with everything after the text prepared once
 * per message: this runs for every delta.
 */
export class DeltaEncoder {
  #messageId: string | null = null
  #end = ''

  json(delta: Delta): string {
    const { messageId } = delta
    if (messageId !== this.#messageId) {
      this.#messageId = messageId
      this.#end = endJson(messageId, METADATA)
    }
    return saidJson(delta) + this.#end
  }
}

/** The start of the chunk. A delta may hold several of text, reasoning and a call fragment: all of it is sent. */
function saidJson({ text, reasoning, toolCall }: Delta): string {
  const said = `[{"content":${JSON.stringify(text ?? '')}`
  if (!reasoning && !toolCall) return said
  const thought = reasoning ? `,"additional_kwargs":{"reasoning_content":${JSON.stringify(reasoning)}}` : ''
  const called = toolCall ? `,"tool_call_chunks":[${callChunkJson(toolCall)}]` : ''
  return said + thought + called
}

function endJson(messageId: string, metadata: string): string {
  return `,"type":"AIMessageChunk","id":${JSON.stringify(messageId)}},${metadata}]`
}

function callChunkJson({ index, id, name, args }: NonNullable<Delta['toolCall']>): string {
  return JSON.stringify({ name: name ?? null, args, id: id ?? null, index, type: 'tool_call_chunk' })
}

/** The chunk that ends a message: no text, but how it ended and what it cost. */
export function lastChunkJson(message: AiMessage): string {
  const chunk = {
    content: '',
    response_metadata: message.response_metadata,
    usage_metadata: message.usage_metadata ?? undefined,
    chunk_position: 'last',
    type: 'AIMessageChunk',
    id: message.id
  }
  return `[${JSON.stringify(chunk)},${METADATA}]`
}

/** What is sent of a chunk that is too large: enough to tell which message it belongs to. */
export function shortChunk(message: { readonly id: string }, position?: 'last'): Shorten {
  return (max, marker) => {
    const chunk = { content: '', type: 'AIMessageChunk', id: cutText(message.id, max >> 1), chunk_position: position }
    return `[${JSON.stringify(chunk)},${markedMetadata('agent', marker)}]`
  }
}

/** The data of an error frame: what failed, in words that may be shown. */
export function errorJson(kind: string, message: string): string {
  return JSON.stringify({ error: kind, name: kind, message })
}

/** A message that did not come in deltas, e.g. a tool's result; `json` is the message. */
export function wholeJson(message: Message, json = JSON.stringify(message)): string {
  return `[${json},${message.type === 'tool' ? TOOLS_METADATA : METADATA}]`
}

/** The same message when it is too large for the wire. */
export function shortWhole(message: Message): Shorten {
  return (max, marker) => {
    // Messages are JSON by construction.
    const fields = message as unknown as JsonObject
    const short = withShortTexts(fields, max) ?? bareMessage(message, max)
    return `[${JSON.stringify(short)},${markedMetadata(message.type === 'tool' ? 'tools' : 'agent', marker)}]`
  }
}

/** Its texts are not what makes it large: it keeps its identity and the beginning of its content. */
function bareMessage(message: Message, max: number): JsonObject {
  const said = typeof message.content === 'string' ? message.content : JSON.stringify(message.content)
  const bare: JsonObject = {
    content: cutText(said, Math.floor(max / 2)),
    additional_kwargs: {},
    response_metadata: {},
    type: message.type,
    name: message.name && cutText(message.name, 256),
    id: message.id
  }
  if (message.type === 'tool')
    Object.assign(bare, { tool_call_id: message.tool_call_id, artifact: null, status: message.status })
  return bare
}

function markedMetadata(node: string, marker: Marker): string {
  return JSON.stringify({ langgraph_node: node, ...marker } satisfies Record<string, Json>)
}

// ------------------------------------------------------------------------------------------------- while they grow

/** The messages one run has in progress: an agent may write several at a time. */
export class LiveMessages {
  readonly #encoder = new DeltaEncoder()
  readonly #eventBytes: number
  readonly #partials = new Map<string, PartialMessage>()

  /** @param eventBytes bytes of one frame on the wire; a larger delta becomes several frames; 0: no limit */
  constructor(eventBytes: number) {
    this.#eventBytes = eventBytes
  }

  /** Adds a delta to its message. Returns the data of the frames that show it: nearly always one. */
  say(given: Delta): readonly string[] {
    const { messageId, model } = given
    let partial = this.#partials.get(messageId)
    if (!partial) {
      partial = new PartialMessage(messageId, model)
      this.#partials.set(messageId, partial)
    }
    const delta = partial.mend(given)
    partial.fold(delta)
    if (!isShown(delta)) return []
    const json = this.#encoder.json(delta)
    return fits(json, this.#eventBytes) ? [json] : this.#split(delta)
  }

  /** Every such frame has about the same overhead: only the first has names and ids. */
  #split(delta: Delta): string[] {
    const { messageId, model, text, reasoning, toolCall } = delta
    const base = { type: 'delta', messageId, model } as const
    const around = this.#encoder.json({
      ...base,
      reasoning: ' ',
      ...(toolCall && { toolCall: { ...toolCall, args: '' } })
    })
    const max = this.#eventBytes - Buffer.byteLength(around) - AROUND_BYTES
    // Its names alone are too large: the log cuts it.
    if (max < TEXT_BYTES_MIN) return [this.#encoder.json(delta)]
    const said = [
      ...pieces(reasoning, max).map((piece): Delta => ({ ...base, reasoning: piece })),
      ...pieces(text, max).map((piece): Delta => ({ ...base, text: piece })),
      ...pieces(toolCall?.args, max).map((args, i): Delta => {
        const call = i === 0 ? { ...toolCall!, args } : { index: toolCall!.index, args }
        return { ...base, toolCall: call }
      })
    ]
    return said.map((piece) => this.#encoder.json(piece))
  }

  /** The message is complete. Returns the data of a frame with any text still held back. */
  complete(id: string): readonly string[] {
    const rest = this.#partials.get(id)?.heldBack()
    this.#partials.delete(id)
    return rest ? [this.#encoder.json(rest)] : []
  }

  /** Messages in progress, each as one chunk. */
  chunks(): JsonObject[] {
    return [...this.#partials.values()].map((partial) => partial.chunk())
  }

  /** Closes all: each message as far as it came, if it has any content, and its usage. */
  breakOff(finishReason: string): { readonly message: AiMessage | null; readonly usage: UsageMetadata | null }[] {
    const broken = [...this.#partials.values()].map((partial) => ({
      message: partial.broken(finishReason),
      usage: partial.usage
    }))
    this.#partials.clear()
    return broken
  }
}

/** Usage is reported when a message is complete. */
function isShown({ text, reasoning, toolCall }: Delta): boolean {
  return text !== undefined || reasoning !== undefined || toolCall !== undefined
}

/** Bytes around the data of a frame: its event, its position. */
const AROUND_BYTES = 256
/** Deltas smaller than this are not split. */
const TEXT_BYTES_MIN = 256

/** Splits a text into pieces of at most `max` bytes of JSON. */
function pieces(text: string | undefined, max: number): string[] {
  const found: string[] = []
  for (let rest = text ?? ''; rest !== ''; rest = rest.slice(found.at(-1)!.length)) found.push(cutText(rest, max))
  return found
}

/**
 * One text as it streams. A surrogate pair is never shown in halves: a trailing high surrogate waits for its low one; a
 * lone one becomes U+FFFD.
 */
class BitText {
  #half = ''

  take(bit: string): string {
    const text = this.#half + bit
    const isHalf = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800
    this.#half = isHalf ? text.slice(-1) : ''
    const whole = isHalf ? text.slice(0, -1) : text
    return whole.isWellFormed() ? whole : whole.toWellFormed()
  }

  /** The other half will not come. */
  end(): string | undefined {
    const { length } = this.#half
    this.#half = ''
    return length === 0 ? undefined : '\uFFFD'
  }
}

interface CallFragments {
  id: string
  name: string
  readonly args: GrowingText
  readonly bits: BitText
}

/** The arguments as an object; null: incomplete, or not a JSON object. */
export function parseArgs(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text)
    // JSON.parse returns JSON; only objects have to be distinguished.
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null
  } catch {
    return null
  }
}

export class PartialMessage {
  readonly id: string
  readonly model: string
  readonly #text = new GrowingText()
  readonly #reasoning = new GrowingText()
  readonly #textBits = new BitText()
  readonly #reasoningBits = new BitText()
  /** Its usage so far, as far as the provider reports it before the end. */
  usage: UsageMetadata | null = null
  readonly #calls = new Map<number, CallFragments>()

  constructor(id: string, model: string) {
    this.id = id
    this.model = model
  }

  /** The delta with whole characters only. */
  mend(delta: Delta): Delta {
    const { text, reasoning, toolCall } = delta
    const mended = text && this.#textBits.take(text)
    const thought = reasoning && this.#reasoningBits.take(reasoning)
    const args = toolCall?.args && this.#callOf(toolCall.index).bits.take(toolCall.args)
    // Nearly always unchanged.
    if (mended === text && thought === reasoning && args === toolCall?.args) return delta
    const { text: _, reasoning: __, ...rest } = delta
    return {
      ...rest,
      ...(mended && { text: mended }),
      ...(thought && { reasoning: thought }),
      ...(toolCall && { toolCall: { ...toolCall, args: args ?? '' } })
    }
  }

  /** Text still held back, as a delta; null: nothing is. */
  heldBack(): Delta | null {
    const text = this.#textBits.end()
    const reasoning = this.#reasoningBits.end()
    if (text === undefined && reasoning === undefined) return null
    const base = { type: 'delta', messageId: this.id, model: this.model } as const
    return { ...base, ...(text && { text }), ...(reasoning && { reasoning }) }
  }

  fold(delta: Delta): void {
    if (delta.text) this.#text.add(delta.text)
    if (delta.reasoning) this.#reasoning.add(delta.reasoning)
    if (delta.toolCall) this.#foldCall(delta.toolCall)
    if (delta.usage) this.usage = delta.usage
  }

  #foldCall({ index, id, name, args }: NonNullable<Delta['toolCall']>): void {
    const call = this.#callOf(index)
    if (id) call.id = id
    if (name && !call.name) call.name = name
    call.args.add(args)
  }

  #callOf(index: number): CallFragments {
    const known = this.#calls.get(index)
    if (known) return known
    const call = { id: '', name: '', args: new GrowingText(), bits: new BitText() }
    this.#calls.set(index, call)
    return call
  }

  /** Everything so far as one chunk: a reader that gets it and the chunks that follow has the message. */
  chunk(): JsonObject {
    const pieces = [...this.#calls].map(
      ([index, { id, name, args }]): JsonObject => ({ id, name, args: String(args), index, type: 'tool_call_chunk' })
    )
    return {
      content: String(this.#text),
      ...(!this.#reasoning.isEmpty && { additional_kwargs: { reasoning_content: String(this.#reasoning) } }),
      ...(pieces.length && { tool_call_chunks: pieces }),
      type: 'AIMessageChunk',
      id: this.id
    }
  }

  /**
   * The message as far as it came, valid for every model server: complete calls are calls, fragments are invalid calls.
   * Null when it has no content.
   */
  broken(finishReason: string): AiMessage | null {
    if (this.#text.isEmpty && this.#reasoning.isEmpty && this.#calls.size === 0) return null
    const { calls, invalid } = this.#sortCalls()
    return {
      content: String(this.#text),
      additional_kwargs: this.#reasoning.isEmpty ? {} : { reasoning_content: String(this.#reasoning) },
      response_metadata: { finish_reason: finishReason, model_name: this.model },
      type: 'ai',
      name: null,
      id: this.id,
      tool_calls: calls,
      invalid_tool_calls: invalid,
      usage_metadata: this.usage
    }
  }

  #sortCalls(): { calls: ToolCall[]; invalid: InvalidToolCall[] } {
    const calls: ToolCall[] = []
    const invalid: InvalidToolCall[] = []
    for (const { id, name, args: text } of this.#calls.values()) {
      const args = String(text)
      // Empty arguments are a fragment, not an empty object.
      const parsed = args === '' ? null : parseArgs(args)
      if (parsed && id && name) calls.push({ name, args: parsed, id, type: 'tool_call' })
      else invalid.push({ name, args, id, error: 'Interrupted', type: 'invalid_tool_call' })
    }
    return { calls, invalid }
  }
}
