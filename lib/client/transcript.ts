// A thread's messages for display, built from the frames of its runs.
import {
  begun,
  callTextsOf,
  contentOf,
  fold,
  type GrowingMessage,
  isChunk,
  isLastChunk,
  readChunk
} from '../conversation/chunk.ts'
import type { JsonObject } from '../base/types.ts'
import type { Frame } from './frames.ts'

export interface ToolCallPart {
  readonly id: string | null
  readonly name: string
  /** JSON text, possibly incomplete. */
  readonly args: string
}

/** A message for display: complete, or as far as it has arrived. */
export interface TranscriptMessage {
  readonly id: string
  readonly type: string
  // A text or a list of content blocks.
  readonly content: string | readonly unknown[]
  /** It is still in progress. */
  readonly isPartial: boolean
  readonly calls: readonly ToolCallPart[]
  readonly reasoning: string
  /** The original message, with all its fields. */
  readonly raw: Readonly<Record<string, unknown>>
}

/** Builds a thread's messages from frames. Unchanged messages stay the same objects. */
export class Transcript {
  #messages: TranscriptMessage[] = []
  #byId = new Map<string, number>()
  /** Messages in progress. */
  readonly #growing = new Map<string, GrowingMessage>()
  /** Other channels of the state: title, todos, artifacts... */
  values: Readonly<Record<string, unknown>> = {}

  get messages(): readonly TranscriptMessage[] {
    return this.#messages
  }

  /** Applies `values`, `snapshot` and `messages` frames; ignores others. True when something has changed. */
  apply({ event, data }: Frame): boolean {
    if (event === 'messages' && Array.isArray(data)) return this.#add(data[0])
    if (event === 'values') return this.replace(data)
    if (event !== 'snapshot') return false
    this.replace(data.values ?? {})
    for (const chunk of data.partial ?? []) this.#add(chunk)
    return true
  }

  /** Replaces the whole state. */
  replace(values: Readonly<Record<string, unknown>>): boolean {
    const { messages, ...rest } = values
    const list = Array.isArray(messages) ? messages : []
    const before = new Map(this.#messages.map((message) => [message.id, message]))
    this.#messages = list.map((raw) => settled(raw, before.get(raw.id)))
    this.#growing.clear()
    this.#byId = new Map(this.#messages.map(({ id }, at) => [id, at]))
    this.values = rest
    return true
  }

  #add(piece: JsonObject): boolean {
    const id = String(piece.id)
    const at = this.#byId.get(id)
    const before = at === undefined ? undefined : this.#messages[at]
    const isPart = isChunk(piece)
    if (before && isPart && !before.isPartial && !goesOnFrom(before, piece)) return false
    const next = isPart ? this.#grow(id, piece) : settled(piece, before)
    if (!next.isPartial) this.#growing.delete(id)
    this.#byId.set(id, at ?? this.#messages.length)
    this.#messages = at === undefined ? [...this.#messages, next] : this.#messages.with(at, next)
    return true
  }

  #grow(id: string, piece: JsonObject): TranscriptMessage {
    const message = fold(this.#growing.get(id) ?? begun(id), readChunk(piece))
    this.#growing.set(id, message)
    return {
      id,
      type: 'ai',
      content: contentOf(message),
      isPartial: !isLastChunk(piece),
      calls: callTextsOf(message).map(({ id: callId, name, args }) => ({ id: callId, name: name ?? '', args })),
      reasoning: String(message.reasoning),
      raw: { ...message.fields, content: '' }
    }
  }
}

/** A run that continues an answer begins with all that was said before, under the same id. */
function goesOnFrom({ content }: TranscriptMessage, piece: JsonObject): boolean {
  const { content: said } = piece
  return typeof content === 'string' && content !== '' && typeof said === 'string' && said.startsWith(content)
}

function settled(raw: Record<string, unknown>, before?: TranscriptMessage): TranscriptMessage {
  const calls = [...listOf(raw.tool_calls), ...listOf(raw.invalid_tool_calls)]
  const message: TranscriptMessage = {
    id: String(raw.id),
    type: String(raw.type),
    content: (raw.content ?? '') as TranscriptMessage['content'],
    isPartial: false,
    calls: calls.map(({ id, name, args }) => ({
      id: id == null ? null : String(id),
      name: String(name),
      args: typeof args === 'string' ? args : JSON.stringify(args, null, 2)
    })),
    reasoning: reasoningIn(raw),
    raw
  }
  return before && isSame(before, message) ? before : message
}

function isSame(a: TranscriptMessage, b: TranscriptMessage): boolean {
  return !a.isPartial && JSON.stringify(a.raw) === JSON.stringify(b.raw)
}

function reasoningIn({ additional_kwargs: more }: Record<string, unknown>): string {
  // Any JSON: what is no object has no such member.
  const { reasoning_content: text } = (more ?? {}) as { readonly reasoning_content?: unknown }
  return typeof text === 'string' ? text : ''
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value : []
}
