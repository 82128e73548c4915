// Parses one streaming response of a chat-completions server, and passes its deltas on in the same tick.
import { randomUUID } from 'node:crypto'
import { StringDecoder } from 'node:string_decoder'
import { createParser, type EventSourceParser } from 'eventsource-parser'
import { GrowingText } from '../growing-text.ts'
import { type Json, type JsonObject, type UsageMetadata, isObject } from '../types.ts'
import type { PeerFailures } from './http/failures.ts'
import type { IdleTimeout } from './http/idle-timeout.ts'
import type { ConnectionLost, ResponseBody } from './http/post.ts'
import { countOf, parseJson } from './json.ts'
import type { Completion, OnDelta, RawCall } from './model.ts'
import type { Delta } from './runtime.ts'

/** Maximum characters of one event: an answer without line ends must not fill the memory. */
const EVENT_MAX = 32 * 1024 * 1024
const NO_USAGE: UsageMetadata = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }

/** A tool call in progress. */
interface GrowingCall {
  /** The provider's index; undefined: it gives none. */
  readonly index: Json | undefined
  /** The provider's id; '': it gave none, ours is used. */
  readonly givenId: string
  readonly id: string
  name: string
  readonly args: GrowingText
}

export interface Receiver {
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
  /** Three times as fast as a streaming TextDecoder. */
  readonly #decoder = new StringDecoder('utf8')
  #hasText = false
  #hasTold = false
  readonly #parser: EventSourceParser
  readonly #calls: GrowingCall[] = []
  readonly #text = new GrowingText()
  readonly #reasoning = new GrowingText()
  #responseId = ''
  #finishReason: string | null = null
  #usage: UsageMetadata | null = null
  #hasSpace = true

  constructor(receiver: Receiver, failures: PeerFailures) {
    this.#receiver = receiver
    this.#failures = failures
    this.#parser = createParser({
      maxBufferSize: EVENT_MAX,
      onEvent: (event) => this.#hear(event.data),
      onError: (error) => {
        // Unknown fields are skipped, as the event-stream format requires.
        if (error.type === 'max-buffer-size-exceeded') throw failures.garbage('an event without an end')
      }
    })
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
    this.#parser.feed(this.#textOf(bytes))
    return this.#hasSpace
  }

  #textOf(bytes: Buffer): string {
    const text = this.#decoder.write(bytes)
    if (this.#hasText || text === '') return text
    this.#hasText = true
    // Skips a byte order mark.
    return text.startsWith('\ufeff') ? text.slice(1) : text
  }

  completion(): Completion {
    return {
      responseId: this.#responseId || randomUUID(),
      text: String(this.#text),
      reasoning: String(this.#reasoning),
      calls: this.#calls.map(({ id, name, args }): RawCall => ({ id, name, args: String(args) })),
      finishReason: this.#finishReason,
      usage: this.#usage
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
    const reasoning = stringOf(delta.reasoning_content ?? delta.reasoning)
    // A refusal replaces the content, and is meant for the user too.
    const text = stringOf(delta.content ?? delta.refusal)
    this.#reasoning.add(reasoning)
    this.#text.add(text)
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
    const known = this.#callFor(index, givenId)
    if (known) this.#grow(known, name, args)
    else this.#begin({ index, givenId, id: givenId || `call_${randomUUID()}`, name, args: new GrowingText() }, args)
  }

  /** The call a fragment continues; undefined: it starts one. */
  #callFor(index: Json | undefined, givenId: string): GrowingCall | undefined {
    // Most providers number their calls; some give all of them index 0 and distinct ids, some give no index.
    const isNumbered = index !== undefined && index !== null
    const same = isNumbered ? this.#calls.filter((call) => call.index === index) : this.#calls
    return givenId === '' ? same.at(-1) : same.find((call) => call.givenId === givenId)
  }

  #begin(call: GrowingCall, args: string): void {
    const { id, name } = call
    call.args.add(args)
    const index = this.#calls.push(call) - 1
    this.#tellCall({ index, id, name, args })
  }

  #grow(call: GrowingCall, name: string, args: string): void {
    call.args.add(args)
    // Some providers repeat the name in every fragment.
    const isNews = call.name === '' && name !== ''
    if (isNews) call.name = name
    if (isNews || args !== '') this.#tellCall({ index: this.#calls.indexOf(call), ...(isNews && { name }), args })
  }

  #tellCall(toolCall: NonNullable<Delta['toolCall']>): void {
    const { messageId, model } = this.#receiver
    this.#tell({ type: 'delta', messageId, model, toolCall })
  }

  #tell(delta: Delta): void {
    if (!this.#hasTold) this.#receiver.onFirst?.()
    this.#hasTold = true
    if (!this.#receiver.onDelta(delta)) this.#hasSpace = false
  }

  /** Providers repeat growing counts in one or all chunks: the largest is the total, never the sum. */
  #hearUsage(usage: JsonObject): void {
    const before = this.#usage ?? NO_USAGE
    const input_tokens = Math.max(before.input_tokens, countOf(usage.prompt_tokens))
    const output_tokens = Math.max(before.output_tokens, countOf(usage.completion_tokens))
    const total = countOf(usage.total_tokens) || input_tokens + output_tokens
    const cache_read = Math.max(before.input_token_details?.cache_read ?? 0, detail(usage, 'prompt', 'cached_tokens'))
    const reasoning = Math.max(
      before.output_token_details?.reasoning ?? 0,
      detail(usage, 'completion', 'reasoning_tokens')
    )
    this.#usage = {
      input_tokens,
      output_tokens,
      total_tokens: Math.max(before.total_tokens, total),
      ...(cache_read && { input_token_details: { cache_read } }),
      ...(reasoning && { output_token_details: { reasoning } })
    }
    const { messageId, model } = this.#receiver
    this.#tell({ type: 'delta', messageId, model, usage: this.#usage })
  }
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
