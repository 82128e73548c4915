// Requests to a graph's server that are answered at once: what is asked again, what is given up, and what a refusal says.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Json } from '../../types.ts'
import { codeOf } from '../failures.ts'
import { parseJson } from '../json.ts'
import { pauseMs, RETRY, type RetryPolicy, readRetryAfter, Setback } from '../retry.ts'
import { ServerFailures } from './failures.ts'

export interface ServerOptions {
  /** Up to and without `/threads`. */
  readonly url: string
  /** Sent as `X-Api-Key`; null: none. */
  readonly apiKey: string | null
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>
  /** The graph or assistant; null: the one that the run names. */
  readonly assistantId: string | null
  /** Milliseconds without a byte of a run's stream after which the server is asked whether it is still there; 0 is never. */
  readonly idleTimeoutMs: number
  /** For tests, which do not wait as long. */
  readonly retry?: Partial<RetryPolicy>
}

export type Method = 'GET' | 'POST' | 'DELETE'

export interface Asking {
  readonly body?: Json
  readonly headers?: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** For an answer, in ms: these requests do no work. */
const ANSWER_MS = 10_000

export class Requests {
  readonly failures: ServerFailures
  readonly retry: RetryPolicy
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>

  constructor({ url, apiKey, headers, retry }: ServerOptions) {
    this.#url = url.replace(/\/+$/, '')
    this.#headers = { ...headers, ...(apiKey !== null && { 'x-api-key': apiKey }) }
    this.failures = new ServerFailures(Object.values(this.#headers))
    this.retry = { ...RETRY, ...retry }
  }

  /**
   * An answer's JSON; null: 404. Asked again while the server is not there for the moment: only for what may be done twice.
   * @throws AgentError; the signal's reason
   */
  async ask(method: Method, path: string, asking: Asking): Promise<Json> {
    for (let failed = 0; ; failed++) {
      asking.signal.throwIfAborted()
      const answer = await this.askOnce(method, path, asking)
      if (!(answer instanceof Setback)) return answer
      const waitMs = pauseMs(this.retry, failed, answer)
      if (waitMs === null) throw answer.error
      // An abort ends the wait early and is thrown at the top of the loop.
      await sleep(waitMs, undefined, { signal: asking.signal }).catch(ignore)
    }
  }

  /** The same, once. @throws AgentError for what will not be otherwise the next time; the signal's reason */
  async askOnce(method: Method, path: string, asking: Asking): Promise<Json | Setback> {
    const late = AbortSignal.timeout(ANSWER_MS)
    try {
      const response = await this.send(method, path, { ...asking, signal: AbortSignal.any([asking.signal, late]) })
      const text = await response.text()
      if (response.ok) return this.#read(text)
      return response.status === 404 ? null : this.refusal(response, text)
    } catch (error) {
      asking.signal.throwIfAborted()
      if (late.aborted) return new Setback(this.failures.silent())
      if (!isOfNetwork(error)) throw error
      return new Setback(this.failures.unreachable(error))
    }
  }

  /** A request whose answer is a stream: only for its head there is a limit, in ms. */
  async open(method: Method, path: string, asking: Asking, headMs: number): Promise<Response> {
    const patience = new AbortController()
    const timer = setTimeout(() => patience.abort(), headMs)
    try {
      return await this.send(method, path, { ...asking, signal: AbortSignal.any([asking.signal, patience.signal]) })
    } catch (error) {
      if (patience.signal.aborted) throw this.failures.silent()
      throw isOfNetwork(error) ? this.failures.unreachable(error) : error
    } finally {
      clearTimeout(timer)
    }
  }

  /** A request whose answer is the caller's to read. A redirect is none of the server's we were told of, and not followed. */
  send(method: Method, path: string, { body, headers, signal }: Asking): Promise<Response> {
    return fetch(this.#url + path, {
      method,
      headers: {
        ...this.#headers,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'manual',
      signal
    })
  }

  /** @throws AgentError when it says no for good */
  refusal({ status, headers }: Response, text: string): Setback {
    const isForNow = status === 408 || status === 429 || status >= 500
    if (!isForNow) throw this.failures.refused(status, text)
    return new Setback(this.failures.unavailable(status, text), readRetryAfter(headers.get('retry-after')))
  }

  #read(text: string): Json {
    const value = text === '' ? null : parseJson(text)
    if (value === undefined) throw this.failures.garbage('an answer that is no JSON')
    return value
  }
}

/** fetch says TypeError for all that a network does. */
function isOfNetwork(error: unknown): boolean {
  return error instanceof TypeError && (error.cause !== undefined || codeOf(error) !== '')
}

function ignore(): void {}
