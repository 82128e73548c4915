// Parses one streaming response of a chat-completions server, and passes its deltas on in the same tick.
import { randomUUID } from 'node:crypto'
import {
  begun,
  callTextsOf,
  ended,
  excessOf,
  fold,
  GROWN,
  type GrowingMessage,
  MESSAGE_LIMITS,
  type MessageLimits
} from '../../conversation/chunk.ts'
import { type Json, type JsonObject, type UsageMetadata, isObject } from '../../base/types.ts'
import { EventStream } from './event-stream.ts'
import type { PeerFailures } from './failures.ts'
import type { ConnectionLost, IdleTimeout, ResponseBody } from './post.ts'
import { countOf, parseJson } from '../../base/json.ts'
import type { Completion, OnDelta } from '../model.ts'
import type { Delta } from '../runtime.ts'

const NO_USAGE: UsageMetadata = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }

/** The most that a server may send of one answer. */
export interface AnswerLimits extends MessageLimits {
  /** Of one event of its stream. */
  readonly eventCharacters?: number
}

interface Receiver {
  /** Goes into every delta. */
  readonly messageId: string
  readonly model: string
  /** Receives every delta; returns false when there is no more space for now. */
  readonly onDelta: OnDelta
  /** Called before the first delta. */
  onFirst?(): void
}

export class ChatCompletion {
  /** Bytes have arrived. */
  hasBegun = false
  /** Some of them were events. */
  hasEvents = false
  /** `[DONE]` came: nothing follows. */
  isOver = false

  readonly #receiver: Receiver
  readonly #failures: PeerFailures
  readonly #limits: AnswerLimits
  readonly #stream: EventStream
  readonly #places = new CallPlaces()
  #hasTold = false
  #message: GrowingMessage
  #responseId = ''
  #finishReason: string | null = null
  #hasSpace = true

  constructor(receiver: Receiver, failures: PeerFailures, limits: AnswerLimits = MESSAGE_LIMITS) {
    this.#receiver = receiver
    this.#failures = failures
    this.#limits = limits
    this.#message = begun(receiver.messageId)
    this.#stream = new EventStream((event) => this.#hear(event.data), failures, limits.eventCharacters)
  }

  /**
   * Reads the body until the answer is complete or the body ends; without space it stops reading, which makes the provider wait.
   * @returns the cause if the connection broke, else null
   */
  listen(body: ResponseBody, timeout: IdleTimeout, space: () => Promise<void>): Promise<ConnectionLost | null> {
    return body.each((chunk) => {
      const hasSpace = this.feed(chunk)
      if (this.isOver) return 'enough'
      return hasSpace ? 'more' : timeout.pausedWhile(space)
    })
  }

  /** Complete: only usage may follow a finish reason. */
  get isWhole(): boolean {
    return this.isOver || this.#finishReason !== null
  }

  /**
   * Passes on everything in these bytes. Incomplete characters wait for the next chunk.
   * @returns whether there is space for more
   * @throws AgentError for an invalid completion, and for a failure the provider reports
   */
  feed(bytes: Buffer): boolean {
    this.hasBegun = true
    this.#hasSpace = true
    this.#stream.feed(bytes)
    return this.#hasSpace
  }

  completion(): Completion {
    // As readers were shown it: half a character that has stayed alone is one of them.
    const { text, reasoning, usage } = ended(this.#message)
    return {
      responseId: this.#responseId || randomUUID(),
      text: String(text),
      reasoning: String(reasoning),
      calls: callTextsOf(this.#message).map(({ id, name, args }) => ({ id: id ?? '', name: name ?? '', args })),
      finishReason: this.#finishReason,
      usage
    }
  }

  #hear(data: string): void {
    this.hasEvents = true
    const text = data.trim()
    // Some proxies send empty events as keep-alive.
    if (this.isOver || text === '') return
    if (text === '[DONE]') {
      this.isOver = true
      return
    }
    const chunk = parseJson(data)
    if (!isObject(chunk)) throw this.#failures.garbage('an event that is not a JSON object')
    if (chunk.error !== undefined && chunk.error !== null) throw this.#failures.reported(chunk.error)
    this.#responseId ||= stringOf(chunk.id)
    if (isObject(chunk.usage)) this.#hearUsage(chunk.usage)
    this.#hearChoices(chunk.choices)
  }

  #hearChoices(choices: Json | undefined): void {
    // The chunk with usage, and the first chunk of some providers, have no choices.
    if (choices === undefined || choices === null) return
    if (!Array.isArray(choices)) throw this.#failures.garbage('choices that are not a list')
    const choice = choices[0]
    if (!isObject(choice)) return
    if (isObject(choice.delta)) this.#hearDelta(choice.delta)
    this.#finishReason = stringOf(choice.finish_reason) || this.#finishReason
  }

  #hearDelta(delta: JsonObject): void {
    const thought = delta.reasoning_content ?? delta.reasoning
    // A refusal replaces the content, and is meant for the user too.
    const content = delta.content ?? delta.refusal
    const reasoning = stringOf(thought) + (Array.isArray(content) ? textsIn(content, 'thinking') : '')
    const text = Array.isArray(content) ? textsIn(content, 'text') : stringOf(content)
    const { messageId, model } = this.#receiver
    // Literals without a spread, which costs ten times as much.
    if (reasoning !== '') this.#tell({ type: 'delta', messageId, model, reasoning })
    if (text !== '') this.#tell({ type: 'delta', messageId, model, text })
    if (!Array.isArray(delta.tool_calls)) return
    for (const fragment of delta.tool_calls) if (isObject(fragment)) this.#hearCall(fragment)
  }

  #hearCall({ index, id, function: part }: JsonObject): void {
    const name = isObject(part) ? stringOf(part.name) : ''
    const args = isObject(part) ? argumentsText(part.arguments) : ''
    const givenId = stringOf(id)
    const place = this.#places.find(index, givenId)
    if (place === undefined) this.#begin(index, givenId, name, args)
    else this.#grow(place, name, args)
  }

  #begin(given: Json | undefined, givenId: string, name: string, args: string): void {
    const index = this.#places.add(given, givenId)
    this.#tellCall({ index, id: givenId || `call_${randomUUID()}`, name, args })
  }

  #grow(index: number, name: string, args: string): void {
    // Some providers repeat the name in every fragment.
    const isNews = name !== '' && this.#message.calls[index]?.name === null
    if (isNews || args !== '') this.#tellCall({ index, ...(isNews && { name }), args })
  }

  #tellCall(toolCall: NonNullable<Delta['toolCall']>): void {
    const { messageId, model } = this.#receiver
    this.#tell({ type: 'delta', messageId, model, toolCall })
  }

  #tell(delta: Delta): void {
    this.#message = fold(this.#message, delta.toolCall ? { calls: [delta.toolCall] } : delta)
    delta[GROWN] = this.#message
    const excess = excessOf(this.#message, this.#limits)
    if (excess !== null) throw this.#failures.tooLarge(excess)
    if (!this.#hasTold) this.#receiver.onFirst?.()
    this.#hasTold = true
    if (!this.#receiver.onDelta(delta)) this.#hasSpace = false
  }

  /** Providers repeat growing counts in one or all chunks: the largest is the total, never the sum. */
  #hearUsage(usage: JsonObject): void {
    const before = this.#message.usage ?? NO_USAGE
    const input_tokens = Math.max(before.input_tokens, countOf(usage.prompt_tokens))
    const output_tokens = Math.max(before.output_tokens, countOf(usage.completion_tokens))
    const total = countOf(usage.total_tokens) || input_tokens + output_tokens
    const cache_read = Math.max(before.input_token_details?.cache_read ?? 0, detail(usage, 'prompt', 'cached_tokens'))
    const reasoning = Math.max(
      before.output_token_details?.reasoning ?? 0,
      detail(usage, 'completion', 'reasoning_tokens')
    )
    const told = {
      input_tokens,
      output_tokens,
      total_tokens: Math.max(before.total_tokens, total),
      ...(cache_read && { input_token_details: { cache_read } }),
      ...(reasoning && { output_token_details: { reasoning } })
    }
    const { messageId, model } = this.#receiver
    this.#tell({ type: 'delta', messageId, model, usage: told })
  }
}

/** Some servers send a content of blocks: texts, and thoughts, which may be blocks of texts themselves. */
function textsIn(blocks: readonly Json[], type: 'text' | 'thinking'): string {
  return blocks
    .map((block) => {
      if (typeof block === 'string') return type === 'text' ? block : ''
      if (!isObject(block) || block.type !== type) return ''
      const said = block[type]
      return Array.isArray(said) ? textsIn(said, 'text') : stringOf(said)
    })
    .join('')
}

function stringOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}

/** Arguments stream as text; some servers send a complete object instead. */
function argumentsText(given: Json | undefined): string {
  return isObject(given) ? JSON.stringify(given) : stringOf(given)
}

function detail(usage: JsonObject, of: 'prompt' | 'completion', name: string): number {
  const details = usage[`${of}_tokens_details`]
  return isObject(details) ? countOf(details[name]) : 0
}

/**
 * Which call a fragment continues. Most providers number their calls; some give all of them index 0 and distinct ids, some give no
 * index.
 */
class CallPlaces {
  #count = 0
  /** By index, the last one; by id, the first; by both. */
  readonly #places = new Map<string, number>()

  /** undefined: it begins one. */
  find(index: Json | undefined, id: string): number | undefined {
    const isNumbered = index !== undefined && index !== null
    if (!isNumbered && id === '') return this.#count === 0 ? undefined : this.#count - 1
    return this.#places.get(keyOf(isNumbered ? index : null, id))
  }

  /** Adds a call. Returns its place. */
  add(index: Json | undefined, id: string): number {
    const place = this.#count++
    const byId = keyOf(null, id)
    this.#places.set(keyOf(index ?? null, ''), place)
    if (!this.#places.has(byId)) this.#places.set(byId, place)
    this.#places.set(keyOf(index ?? null, id), this.#places.get(keyOf(index ?? null, id)) ?? place)
    return place
  }
}

function keyOf(index: Json, id: string): string {
  return `${JSON.stringify(index)} ${id}`
}
