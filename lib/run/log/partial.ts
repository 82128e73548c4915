// The assistant message that is being built from its deltas, and what of it can be kept when it is broken off.
import type { Delta } from '../../agent/runtime.ts'
import { GrowingText } from '../../growing-text.ts'
import type { AiMessage, InvalidToolCall, JsonObject, ToolCall, UsageMetadata } from '../../types.ts'

interface CallFragments {
  id: string
  name: string
  readonly args: GrowingText
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
  /** What it has cost so far, as far as its provider tells before the end. */
  usage: UsageMetadata | null = null
  readonly #calls = new Map<number, CallFragments>()

  constructor(id: string, model: string) {
    this.id = id
    this.model = model
  }

  fold(delta: Delta): void {
    if (delta.text) this.#text.add(delta.text)
    if (delta.reasoning) this.#reasoning.add(delta.reasoning)
    if (delta.toolCall) this.#foldCall(delta.toolCall)
    if (delta.usage) this.usage = delta.usage
  }

  #foldCall({ index, id, name, args }: NonNullable<Delta['toolCall']>): void {
    const call = this.#calls.get(index) ?? { id: '', name: '', args: new GrowingText() }
    this.#calls.set(index, call)
    if (id) call.id = id
    if (name && !call.name) call.name = name
    call.args.add(args)
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
