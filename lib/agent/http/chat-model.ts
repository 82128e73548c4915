// A model behind a chat-completions server: requests and retries.
//
// From the socket's bytes to `onDelta` everything is synchronous: each chunk is decoded, parsed and passed on in one tick.
import { type Completion, type Model, type ModelRequest, Models, type OnDelta, PeerError } from '../model.ts'
import type { IncomingMessage } from 'node:http'
import type { Json, JsonObject } from '../../base/types.ts'
import { wellFormedJson } from '../../base/json.ts'
import { toolToChat } from '../chat.ts'
import { type AnswerLimits, ChatCompletion } from './chat-completion.ts'
import { PeerFailures, RETRY, RetryableError, retrying, type RetryPolicy } from './failures.ts'
import { addressBelow, IdleTimeout, isOk, ResponseBody, secretsIn, send } from './post.ts'
import type { AgentLog } from '../observer.ts'
import type { ModelInfo } from '../runtime.ts'

/** A model as the configuration names it. */
export interface ModelConfig {
  /** Our name for it, unique: clients choose by it. */
  readonly name: string
  /** The provider's name for it. */
  readonly model: string
  /** Base URL, without `/chat/completions`, e.g. `https://api.example.com/v1`. */
  readonly base_url: string
  /** Empty: no Authorization header (a model on the same machine). */
  readonly api_key: string
  /** Merged into every request body, e.g. `{ temperature: 0.2 }`. */
  readonly request?: JsonObject
  /** Idle timeout in ms; 0: none, and a provider that forgot the request would hold the run for ever. */
  readonly idle_timeout_ms?: number
  /** Retries of a request that failed before its first byte. */
  readonly max_retries?: number
  readonly display_name?: string | null
  readonly description?: string | null
  readonly supports_thinking?: boolean
  readonly supports_reasoning_effort?: boolean
  /** How it goes on with a broken answer. */
  readonly continuation?: ModelInfo['continuation']
  /** It accepts images, and is offered the tools that need this. */
  readonly supports_vision?: boolean
}

const IDLE_TIMEOUT_MS = 120_000

interface ChatModelOptions {
  readonly log?: AgentLog | undefined
  /** Shorter delays, for tests. */
  readonly retry?: Partial<RetryPolicy>
  readonly limits?: AnswerLimits | undefined
}

/** Whatever is merged into requests may be a secret: headers of a gateway in front of the model, a key of its user. */
function stringsIn(value: Json): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(stringsIn) : []
}

export class ChatModel implements Model {
  readonly info: ModelInfo
  readonly takesImages: boolean
  readonly #config: ModelConfig
  readonly #idleMs: number
  readonly #retry: RetryPolicy
  readonly #failures: PeerFailures
  readonly #limits: AnswerLimits | undefined
  readonly #log: AgentLog | undefined

  constructor(config: ModelConfig, options: ChatModelOptions = {}) {
    this.info = infoOf(config)
    this.takesImages = config.supports_vision ?? false
    this.#config = config
    this.#idleMs = config.idle_timeout_ms ?? IDLE_TIMEOUT_MS
    this.#retry = { ...RETRY, retries: config.max_retries ?? RETRY.retries, ...options.retry }
    this.#failures = new PeerFailures({
      kind: 'Model',
      name: `The model "${config.name}"`,
      work: 'its answer',
      protocol: 'no chat completion',
      secrets: [config.api_key, ...secretsIn(config.base_url), ...stringsIn(config.request ?? {})]
    })
    this.#limits = options.limits
    this.#log = options.log
  }

  /**
   * One answer; retried only while nothing of it has arrived.
   * @throws PeerError ModelUnavailable, ModelRefused, ModelInterrupted, ModelTimeout, ModelTooLarge or ModelProtocolError
   */
  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    let failed = 0
    const onRetry = (error: Error, attempts: number, waitMs: number) => {
      failed = attempts
      const fields = { ...request.about, model: this.info.name, attempt: attempts, wait_ms: Math.round(waitMs) }
      this.#log?.warn({ ...fields, error: error.message }, 'a model call failed and is tried again')
    }
    try {
      return await retrying(() => this.#try(request, onDelta), this.#retry, request.signal, onRetry)
    } catch (error) {
      if (error instanceof PeerError) error.attempts = failed + 1
      throw error
    }
  }

  /** One request and its answer. */
  async #try(request: ModelRequest, onDelta: OnDelta): Promise<Completion | RetryableError> {
    const timeout = new IdleTimeout(request.signal, this.#idleMs)
    try {
      const response = await this.#send(request, timeout)
      if (response instanceof RetryableError) return response
      timeout.beat()
      const body = new ResponseBody(response, timeout)
      if (!isOk(response)) return this.#failures.refusal(response, await body.text())
      if (!mayBeEvents(response)) throw this.#failures.notAStream(await body.text())
      return await this.#read(body, request, onDelta, timeout)
    } catch (error) {
      // Also after invalid data: the provider must stop generating, and billing.
      timeout.abandon()
      throw error
    } finally {
      timeout.end()
    }
  }

  async #send(request: ModelRequest, timeout: IdleTimeout): Promise<IncomingMessage | RetryableError> {
    const { base_url, api_key } = this.#config
    const headers = {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...(api_key !== '' && { authorization: `Bearer ${api_key}` })
    }
    const url = addressBelow(base_url, '/chat/completions')
    try {
      return await send({ method: 'POST', url, headers, body: this.#question(request), signal: timeout.signal })
    } catch (error) {
      request.signal.throwIfAborted()
      if (timeout.isSilent) throw this.#failures.silent(this.#idleMs)
      return new RetryableError(this.#failures.unreachable(error))
    }
  }

  #question({ messages, tools = [], format = null, settings = {} }: ModelRequest): string {
    const { reasoning_effort, ...sampling } = settings
    const body = {
      stream_options: { include_usage: true },
      ...this.#config.request,
      ...sampling,
      ...(reasoning_effort !== undefined && this.info.supports_reasoning_effort && { reasoning_effort }),
      ...(tools.length > 0 && { tools: tools.map(toolToChat) }),
      ...(format && { response_format: format }),
      model: this.#config.model,
      messages,
      stream: true
    }
    return wellFormedJson(JSON.stringify(body))
  }

  async #read(
    body: ResponseBody,
    request: ModelRequest,
    onDelta: OnDelta,
    timeout: IdleTimeout
  ): Promise<Completion | RetryableError> {
    const { messageId, onFirst } = request
    const receiver = { messageId, model: this.info.name, onDelta, ...(onFirst && { onFirst }) }
    const answer = new ChatCompletion(receiver, this.#failures, this.#limits)
    const lost = await answer.listen(body, timeout, async () => request.space?.())
    if (answer.isOver) body.drain()
    if (answer.isWhole) return answer.completion()
    if (timeout.isSilent) throw this.#failures.silent(this.#idleMs)
    if (lost && !answer.hasBegun) return new RetryableError(this.#failures.unreachable(lost.cause))
    if (lost) throw this.#failures.brokeOff(lost.cause)
    if (!answer.hasEvents) throw this.#failures.notAStream()
    throw this.#failures.interrupted('ended its answer before it was complete')
  }
}

function infoOf(config: ModelConfig): ModelInfo {
  return {
    name: config.name,
    model: config.model,
    display_name: config.display_name ?? null,
    description: config.description ?? null,
    supports_thinking: config.supports_thinking ?? false,
    supports_reasoning_effort: config.supports_reasoning_effort ?? false,
    continuation: config.continuation ?? 'ask'
  }
}

/** Some servers send no content type or a wrong one such as text/plain; only these two rule out a stream. */
function mayBeEvents({ headers }: IncomingMessage): boolean {
  return !/^(application\/json|text\/html)\b/i.test(headers['content-type'] ?? '')
}

/** Models behind servers that speak chat-completions. */
export function chatModels(configs: readonly ModelConfig[], log?: AgentLog, limits?: AnswerLimits): Models {
  return new Models(configs.map((config) => new ChatModel(config, { log, limits })))
}
