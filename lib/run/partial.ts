// The assistant message that is being built from its deltas, and what of it can be kept when it is broken off.
import type { Delta } from '../agent/runtime.ts'
import type { AiMessage, InvalidToolCall, JsonObject, ToolCall, UsageMetadata } from '../types.ts'

interface CallFragments {
  id: string
  name: string
  args: string
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
  #text = ''
  #reasoning = ''
  /** What it has cost so far, as far as its provider tells before the end. */
  usage: UsageMetadata | null = null
  readonly #calls = new Map<number, CallFragments>()

  constructor(id: string, model: string) {
    this.id = id
    this.model = model
  }

  fold(delta: Delta): void {
    if (delta.text) this.#text += delta.text
    if (delta.reasoning) this.#reasoning += delta.reasoning
    if (delta.toolCall) this.#foldCall(delta.toolCall)
    if (delta.usage) this.usage = delta.usage
  }

  #foldCall({ index, id, name, args }: NonNullable<Delta['toolCall']>): void {
    const known = this.#calls.get(index)
    if (!known) {
      this.#calls.set(index, { id: id ?? '', name: name ?? '', args })
      return
    }
    if (id) known.id = id
    if (name && !known.name) known.name = name
    known.args += args
  }

  /** All that was said so far as one chunk: who gets it, and then the chunks that follow, has the message. */
  chunk(): JsonObject {
    const pieces = [...this.#calls].map(([index, call]): JsonObject => ({ ...call, index, type: 'tool_call_chunk' }))
    return {
      content: this.#text,
      ...(this.#reasoning && { additional_kwargs: { reasoning_content: this.#reasoning } }),
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
    if (!this.#text && !this.#reasoning && this.#calls.size === 0) return null
    const { calls, invalid } = this.#sortCalls()
    return {
      content: this.#text,
      additional_kwargs: this.#reasoning ? { reasoning_content: this.#reasoning } : {},
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
    for (const { id, name, args } of this.#calls.values()) {
      // Arguments that have not begun are a fragment, not an empty object.
      const parsed = args === '' ? null : parseArgs(args)
      if (parsed && id && name) calls.push({ name, args: parsed, id, type: 'tool_call' })
      else invalid.push({ name, args, id, error: 'Interrupted', type: 'invalid_tool_call' })
    }
    return { calls, invalid }
  }
}
