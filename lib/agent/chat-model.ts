// A model behind a server that speaks chat-completions: how it is asked, and asked again.
//
// From the socket's bytes to `onDelta` everything is synchronous: a chunk is decoded, parsed and told in the turn it came.
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '../types.ts'
import { Answer } from './answer.ts'
import { type Broken, ResponseBody } from './body.ts'
import { toolToChat } from './chat.ts'
import { ModelFailures } from './failures.ts'
import type { AnswerPiece, Completion, Model, ModelRequest, OnDelta } from './model.ts'
import { post } from './post.ts'
import { pauseMs, RETRY, type RetryPolicy, readRetryAfter, Setback } from './retry.ts'
import type { ModelInfo } from './runtime.ts'
import { Watch } from './watch.ts'

/** A model as the configuration names it. */
export interface ModelConfig {
  /** Ours, unique: what clients choose by. */
  readonly name: string
  /** The provider's. */
  readonly model: string
  /** Up to and without `/chat/completions`, e.g. `https://api.example.com/v1`. */
  readonly base_url: string
  /** Empty: no Authorization header (a model on the same machine). */
  readonly api_key: string
  /** Goes into the body of every request as it is, e.g. `{ temperature: 0.2 }`. */
  readonly request?: JsonObject
  /**
   * Milliseconds without a byte after which the model is given up; 0 is never. Without it a provider that has forgotten us
   * holds the run for ever.
   */
  readonly idle_timeout_ms?: number
  /** How often a request that failed before its first byte is tried again. */
  readonly max_retries?: number
  readonly display_name?: string | null
  readonly description?: string | null
  readonly supports_thinking?: boolean
  readonly supports_reasoning_effort?: boolean
  /** It takes images: tools that need this are offered to it. */
  readonly supports_vision?: boolean
}

/** What a log must be able to do; pino's is one. */
export interface AgentLog {
  warn(fields: object, text: string): void
}

const IDLE_TIMEOUT_MS = 120_000

export class ChatModel implements Model {
  readonly info: ModelInfo
  readonly takesImages: boolean
  readonly #config: ModelConfig
  readonly #idleMs: number
  readonly #retry: RetryPolicy
  readonly #failures: ModelFailures
  readonly #log: AgentLog | undefined

  /** @param options.retry for tests, which do not wait as long */
  constructor(config: ModelConfig, options: { readonly log?: AgentLog; readonly retry?: Partial<RetryPolicy> } = {}) {
    this.info = infoOf(config)
    this.takesImages = config.supports_vision ?? false
    this.#config = config
    this.#idleMs = config.idle_timeout_ms ?? IDLE_TIMEOUT_MS
    this.#retry = { ...RETRY, retries: config.max_retries ?? RETRY.retries, ...options.retry }
    this.#failures = new ModelFailures(config.name, config.api_key)
    this.#log = options.log
  }

  /**
   * One answer, asked for again as long as nothing of it has come.
   * @throws AgentError ModelUnavailable, ModelRefused, ModelInterrupted, ModelTimeout or ModelProtocolError
   */
  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    for (let failed = 0; ; failed++) {
      request.signal.throwIfAborted()
      const result = await this.#try(request, onDelta)
      if (!(result instanceof Setback)) return result
      const waitMs = pauseMs(this.#retry, failed, result)
      if (waitMs === null) throw result.error
      const fields = { model: this.info.name, error: result.error.message, waitMs }
      this.#log?.warn(fields, 'model call failed and is tried again')
      // An abort ends the wait early and is thrown at the top of the loop.
      await sleep(waitMs, undefined, { signal: request.signal }).catch(ignore)
    }
  }

  /** One request and its answer. Setbacks are answered, not thrown: only they may be repeated. */
  async #try(request: ModelRequest, onDelta: OnDelta): Promise<Completion | Setback> {
    const watch = new Watch(request.signal, this.#idleMs)
    try {
      const response = await this.#send(request, watch)
      if (response instanceof Setback) return response
      watch.beat()
      const body = new ResponseBody(response, watch)
      if (!isOk(response)) return await this.#refusal(response, body)
      if (!mayBeEvents(response)) throw this.#failures.notAStream(await body.text())
      return await this.#read(body, request, onDelta, watch)
    } catch (error) {
      // Also after garbage: a provider that is not read any more must not go on writing, and counting.
      watch.abandon()
      throw error
    } finally {
      watch.end()
    }
  }

  async #send(request: ModelRequest, watch: Watch): Promise<IncomingMessage | Setback> {
    const { base_url, api_key } = this.#config
    const headers = {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...(api_key !== '' && { authorization: `Bearer ${api_key}` })
    }
    const url = `${base_url.replace(/\/+$/, '')}/chat/completions`
    try {
      return await post(url, headers, this.#question(request), watch.signal)
    } catch (error) {
      request.signal.throwIfAborted()
      if (watch.isSilent) throw this.#failures.silent(this.#idleMs)
      return new Setback(this.#failures.unreachable(error))
    }
  }

  #question({ messages, tools = [] }: ModelRequest): string {
    const body = {
      stream_options: { include_usage: true },
      ...this.#config.request,
      ...(tools.length > 0 && { tools: tools.map(toolToChat) }),
      model: this.#config.model,
      messages,
      stream: true
    }
    const json = JSON.stringify(body)
    // Half a surrogate pair comes out of JSON.stringify as an escape, and real servers refuse the whole request for it.
    return json.includes('\\ud') ? JSON.stringify(body, wellFormed) : json
  }

  /** A status that says no: for now, or for good. */
  async #refusal({ statusCode: status = 0, headers }: IncomingMessage, body: ResponseBody): Promise<Setback> {
    const text = await body.text()
    const isForNow = status === 408 || status === 429 || status >= 500
    if (!isForNow) throw this.#failures.refused(status, text)
    const retryAfterMs = readRetryAfter(headers['retry-after'] ?? null)
    return new Setback(this.#failures.unavailable(status, text, retryAfterMs), retryAfterMs)
  }

  async #read(
    body: ResponseBody,
    request: ModelRequest,
    onDelta: OnDelta,
    watch: Watch
  ): Promise<Completion | Setback> {
    const { messageId } = request
    const model = this.info.name
    // One spread into a literal: with two, making the delta costs ten times as much.
    const tell = (piece: AnswerPiece) => onDelta({ type: 'delta', messageId, model, ...piece })
    const answer = new Answer(tell, this.#failures)
    const broken = await listen(answer, body, watch, request)
    if (answer.isOver) body.drain()
    if (answer.isWhole) return answer.completion()
    if (watch.isSilent) throw this.#failures.silent(this.#idleMs)
    if (broken && !answer.hasBegun) return new Setback(this.#failures.unreachable(broken.cause))
    if (broken) throw this.#failures.brokeOff(broken.cause)
    throw answer.hasEvents ? this.#failures.endedEarly() : this.#failures.notAStream()
  }
}

/** Feeds an answer until it is over or its bytes end. @returns What broke them off; null: nothing did. */
function listen(answer: Answer, body: ResponseBody, watch: Watch, request: ModelRequest): Promise<Broken | null> {
  return body.each((chunk) => {
    const hasSpace = answer.feed(chunk)
    if (answer.isOver) return 'enough'
    // The log has no space: the provider is made to wait by not being read.
    return hasSpace ? 'more' : watch.pausedWhile(async () => request.space?.())
  })
}

function infoOf(config: ModelConfig): ModelInfo {
  return {
    name: config.name,
    model: config.model,
    display_name: config.display_name ?? null,
    description: config.description ?? null,
    supports_thinking: config.supports_thinking ?? false,
    supports_reasoning_effort: config.supports_reasoning_effort ?? false
  }
}

function isOk({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300
}

/** Some servers give no type, or a wrong one like text/plain; these two are certain. */
function mayBeEvents({ headers }: IncomingMessage): boolean {
  return !/^(application\/json|text\/html)\b/i.test(headers['content-type'] ?? '')
}

function wellFormed(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? value.toWellFormed() : value
}

function ignore(): void {}
