// Messages on their way: what an agent says bit by bit, as frames that clients read and as the message that it becomes; and messages
// that come whole. The shape is LangGraph's, with the least its clients need around the text.
import type { Delta } from '../../agent/runtime.ts'
import { GrowingText } from '../../growing-text.ts'
import type { AiMessage, InvalidToolCall, Json, JsonObject, Message, ToolCall, UsageMetadata } from '../../types.ts'
import { cutText, fits, type Marker, type Shorten, withShortTexts } from './oversized.ts'

/** Clients read the node and nothing else of it; repeating more would cost more than the text [needs N11]. */
const METADATA = '{"langgraph_node":"agent"}'
const TOOLS_METADATA = '{"langgraph_node":"tools"}'

/**
 * `[chunk, metadata]` as JSON, for the deltas of one run. Concatenated by hand, and what stands behind the text is made once a
 * message: this is done for every delta of every run.
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

/** The beginning. A delta may hold more than one of text, reasoning and a fragment of a call: nothing of it is left out. */
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

/** The chunk that says that a message is complete: no text, but how it ended and what it cost. */
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

/** A chunk for the wire that is too large for it: what tells of which message it is. */
export function shortChunk(message: { readonly id: string }, position?: 'last'): Shorten {
  return (max, marker) => {
    const chunk = { content: '', type: 'AIMessageChunk', id: cutText(message.id, max >> 1), chunk_position: position }
    return `[${JSON.stringify(chunk)},${markedMetadata('agent', marker)}]`
  }
}

/** The data of an error frame: what has failed, and what may be said of it. */
export function errorJson(kind: string, message: string): string {
  return JSON.stringify({ error: kind, name: kind, message })
}

/** A whole message that did not come in deltas, e.g. a tool's result; `json` is the message. */
export function wholeJson(message: Message, json = JSON.stringify(message)): string {
  return `[${json},${message.type === 'tool' ? TOOLS_METADATA : METADATA}]`
}

/** The same message for the wire when it is too large for it. */
export function shortWhole(message: Message): Shorten {
  return (max, marker) => {
    // Messages are JSON by construction.
    const fields = message as unknown as JsonObject
    const short = withShortTexts(fields, max) ?? bareMessage(message, max)
    return `[${JSON.stringify(short)},${markedMetadata(message.type === 'tool' ? 'tools' : 'agent', marker)}]`
  }
}

/** What makes it large is not its texts: it keeps what tells which message it is, and the beginning of what it says. */
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

/** The messages that one run is saying: an agent may write more than one at a time. */
export class LiveMessages {
  readonly #encoder = new DeltaEncoder()
  readonly #eventBytes: number
  readonly #partials = new Map<string, PartialMessage>()

  /** @param eventBytes of one frame on the wire; a larger delta is said in several; 0: no limit */
  constructor(eventBytes: number) {
    this.#eventBytes = eventBytes
  }

  /** Adds a delta to its message. Answers the data of the frames that show it: nearly always one. */
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

  /** What each of these frames holds besides its text is about the same: names and ids stand in the first alone. */
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

  /** The message came to its end. Answers the data of a frame with what was still held back of it, if something was. */
  complete(id: string): readonly string[] {
    const rest = this.#partials.get(id)?.heldBack()
    this.#partials.delete(id)
    return rest ? [this.#encoder.json(rest)] : []
  }

  /** As far as they have come, each as one chunk. */
  chunks(): JsonObject[] {
    return [...this.#partials.values()].map((partial) => partial.chunk())
  }

  /** No more will come: each as far as it came, if anything was said, and what it has cost. */
  breakOff(finishReason: string): { readonly message: AiMessage | null; readonly usage: UsageMetadata | null }[] {
    const broken = [...this.#partials.values()].map((partial) => ({
      message: partial.broken(finishReason),
      usage: partial.usage
    }))
    this.#partials.clear()
    return broken
  }
}

/** What a message costs is told when it is whole. */
function isShown({ text, reasoning, toolCall }: Delta): boolean {
  return text !== undefined || reasoning !== undefined || toolCall !== undefined
}

/** Bytes around the data of a frame: its event, its position. */
const AROUND_BYTES = 256
/** Below it a delta is not split. */
const TEXT_BYTES_MIN = 256

/** A text in pieces that take `max` bytes of JSON at most. */
function pieces(text: string | undefined, max: number): string[] {
  const found: string[] = []
  for (let rest = text ?? ''; rest !== ''; rest = rest.slice(found.at(-1)!.length)) found.push(cutText(rest, max))
  return found
}

/**
 * One text as it comes in bits: a character is not shown by halves. A high half at the end of a bit waits for its other one; a half
 * that stays alone is no text, and becomes U+FFFD.
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

  /** No other half will come. */
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

/** The arguments as an object, or null: not complete, or no JSON object at all. */
export function parseArgs(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text)
    // JSON.parse gives JSON; what is left to tell apart is objects from the rest.
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
  /** What it has cost so far, as far as its provider tells before the end. */
  usage: UsageMetadata | null = null
  readonly #calls = new Map<number, CallFragments>()

  constructor(id: string, model: string) {
    this.id = id
    this.model = model
  }

  /** The delta with whole characters alone. */
  mend(delta: Delta): Delta {
    const { text, reasoning, toolCall } = delta
    const mended = text && this.#textBits.take(text)
    const thought = reasoning && this.#reasoningBits.take(reasoning)
    const args = toolCall?.args && this.#callOf(toolCall.index).bits.take(toolCall.args)
    // Nearly always nothing was to mend.
    if (mended === text && thought === reasoning && args === toolCall?.args) return delta
    const { text: _, reasoning: __, ...rest } = delta
    return {
      ...rest,
      ...(mended && { text: mended }),
      ...(thought && { reasoning: thought }),
      ...(toolCall && { toolCall: { ...toolCall, args: args ?? '' } })
    }
  }

  /** What is still held back, as a delta; null: nothing is. */
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

  /** All that was said so far as one chunk: who gets it, and then the chunks that follow, has the message. */
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
   * The message as far as it came, valid for every model server: calls whose arguments are complete are calls, fragments are
   * invalid ones. Null when nothing was said.
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
      // Arguments that have not begun are a fragment, not an empty object.
      const parsed = args === '' ? null : parseArgs(args)
      if (parsed && id && name) calls.push({ name, args: parsed, id, type: 'tool_call' })
      else invalid.push({ name, args, id, error: 'Interrupted', type: 'invalid_tool_call' })
    }
    return { calls, invalid }
  }
}
