// Requests to a LangGraph server, with retries and errors.
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from '../../base/errors.ts'
import type { Json } from '../../base/types.ts'
import { parseJson, wellFormedJson } from '../../base/json.ts'
import { EVENT_CHARACTERS } from '../../agent/http/event-stream.ts'
import { pauseMs, PeerFailures, RETRY, RetryableError, retrying, type RetryPolicy } from '../../agent/http/failures.ts'
import {
  addressBelow,
  type HttpRequest,
  IdleTimeout,
  isOk,
  ResponseBody,
  secretsIn,
  send
} from '../../agent/http/post.ts'

export interface ServerOptions {
  /** Base URL, without `/threads`. */
  readonly url: string
  /** Sent as `X-Api-Key`; null: none. */
  readonly apiKey: string | null
  readonly headers: Readonly<Record<string, string>>
  /** The graph or assistant; null: the run's choice. */
  readonly assistantId: string | null
  /** Milliseconds of silence in a run's stream before the server is asked for the run's status; 0: never. */
  readonly idleTimeoutMs: number
  /** How long a server that cannot be reached is tried again, in ms. */
  readonly reconnectMs: number
  /** Characters of one event of a run's stream, and bytes of another answer: either may be a whole state. Absent: 32 Mi. */
  readonly eventCharacters?: number
  /** Shorter delays, for tests. */
  readonly retry?: Partial<RetryPolicy>
}

type Method = HttpRequest['method']

interface RequestOptions {
  readonly body?: Json
  readonly headers?: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  /** Ends the wait between attempts, if that may end sooner than a request. */
  readonly waitSignal?: AbortSignal
}

/** Idle timeout of a response, in ms. */
const ANSWER_MS = 10_000

export class Requests {
  readonly failures: PeerFailures
  readonly retry: RetryPolicy
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>
  /** See ServerOptions. */
  readonly reconnectMs: number
  readonly #answerBytes: number

  constructor({ url, apiKey, headers, retry, reconnectMs, eventCharacters = EVENT_CHARACTERS }: ServerOptions) {
    this.reconnectMs = reconnectMs
    this.#url = url
    this.#headers = { ...headers, ...(apiKey !== null && { 'x-api-key': apiKey }) }
    this.failures = new PeerFailures({
      kind: 'Agent',
      name: "The agent's server",
      work: 'the run',
      protocol: "none of LangGraph's protocol",
      secrets: [...Object.values(this.#headers), ...secretsIn(url)]
    })
    this.retry = { ...RETRY, ...retry }
    this.#answerBytes = eventCharacters
  }

  /**
   * A response's JSON; null: 404. Retried while the server is unavailable, so only for idempotent requests.
   * @throws AgentError; the signal's reason
   */
  ask(method: Method, path: string, options: RequestOptions): Promise<Json> {
    return retrying(() => this.askOnce(method, path, options), this.retry, options.signal)
  }

  /** One attempt. @throws AgentError for permanent errors; the signal's reason */
  async askOnce(method: Method, path: string, options: RequestOptions): Promise<Json | RetryableError> {
    const timeout = new IdleTimeout(options.signal, ANSWER_MS)
    try {
      const response = await this.#head(method, path, { ...options, signal: timeout.signal })
      timeout.throwIfAborted()
      if (response instanceof RetryableError)
        return timeout.isSilent ? new RetryableError(this.failures.silent(ANSWER_MS)) : response
      const { text, isCut, lost } = await new ResponseBody(response, timeout).read(this.#answerBytes)
      if (isCut) throw this.failures.tooLarge(`an answer of more than ${this.#answerBytes} bytes`)
      if (timeout.isSilent) return new RetryableError(this.failures.silent(ANSWER_MS))
      if (lost) return new RetryableError(this.failures.unreachable(lost.cause))
      if (isOk(response)) return this.#parsed(text)
      return response.statusCode === 404 ? null : this.failures.refusal(response, text)
    } finally {
      timeout.end()
    }
  }

  /**
   * A request with a streamed response; the timeout applies to its head only. Repeated while the server refuses connections, as it does
   * during a restart: it has not seen the request.
   * @throws AgentError; the signal's reason
   */
  async open(method: Method, path: string, options: RequestOptions, headMs: number): Promise<IncomingMessage> {
    const retries = new RetryWindow(this)
    for (;;) {
      const response = await this.#open(method, path, options, headMs)
      if (!(response instanceof RetryableError)) return response
      await retries.wait(response, options.waitSignal ?? options.signal)
    }
  }

  /** @returns an error: no connection was made. @throws AgentError */
  async #open(
    method: Method,
    path: string,
    options: RequestOptions,
    headMs: number
  ): Promise<IncomingMessage | RetryableError> {
    const headTimeout = new AbortController()
    const timer = setTimeout(() => headTimeout.abort(), headMs)
    try {
      const signal = AbortSignal.any([options.signal, headTimeout.signal])
      const response = await this.#head(method, path, { ...options, signal })
      if (headTimeout.signal.aborted) throw this.failures.silent(headMs)
      if (!(response instanceof RetryableError)) return response
      if (response instanceof NotConnected && !options.signal.aborted) return response
      throw response.error
    } finally {
      clearTimeout(timer)
    }
  }

  /** The error of a refusing response. @throws AgentError if it is permanent */
  async refusal(response: IncomingMessage, signal: AbortSignal): Promise<RetryableError> {
    const timeout = new IdleTimeout(signal, ANSWER_MS)
    try {
      return this.failures.refusal(response, await new ResponseBody(response, timeout).text())
    } finally {
      timeout.end()
    }
  }

  async #head(method: Method, path: string, options: RequestOptions): Promise<IncomingMessage | RetryableError> {
    const { body, headers, signal } = options
    const json = body !== undefined && { body: wellFormedJson(JSON.stringify(body)) }
    const type = json && { 'content-type': 'application/json' }
    try {
      return await send({
        method,
        url: addressBelow(this.#url, path),
        headers: { ...this.#headers, ...type, ...headers },
        signal,
        ...json
      })
    } catch (error) {
      const failure = this.failures.unreachable(error)
      return isNotConnected(error) ? new NotConnected(failure) : new RetryableError(failure)
    }
  }

  #parsed(text: string): Json {
    const value = text === '' ? null : parseJson(text)
    if (value === undefined) throw this.failures.garbage('an answer that is no JSON')
    return value
  }
}

/** No connection was made: the server has not seen the request. */
class NotConnected extends RetryableError {}

const NOT_CONNECTED: readonly (string | null)[] = [
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN'
]

function isNotConnected(error: unknown): boolean {
  return NOT_CONNECTED.includes(codeOf(error))
}

/** Waits between attempts, longer each time, until `reconnectMs` have passed without progress. */
export class RetryWindow {
  readonly #requests: Requests
  #failed = 0
  #since = performance.now()

  constructor(requests: Requests) {
    this.#requests = requests
  }

  /** Something has arrived. */
  renew(): void {
    this.#failed = 0
    this.#since = performance.now()
  }

  /** @throws the failure's error when the time is over; the signal's reason */
  async wait(failure: RetryableError, signal: AbortSignal): Promise<void> {
    const { retry, reconnectMs } = this.#requests
    const leftMs = this.#since + reconnectMs - performance.now()
    const waitMs = pauseMs({ ...retry, retries: Number.POSITIVE_INFINITY }, this.#failed++, failure)
    if (leftMs <= 0 || waitMs === null) throw failure.error
    await sleep(Math.min(waitMs, leftMs), undefined, { signal })
  }
}
