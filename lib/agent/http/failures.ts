// Failures of model and graph servers as errors for the user. They quote the server's message, but no keys or addresses.
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf } from '../../base/errors.ts'
import { backoffMs } from '../../base/waiting.ts'
import { cutTo, isObject, type Json } from '../../base/types.ts'
import { parseJson } from '../../base/json.ts'
import { PeerError } from '../model.ts'
import type { AgentError } from '../runtime.ts'
import { isForNow } from './post.ts'

// ----------------------------------------------- Retry policy: which failures are retried, and after which delay

/** An attempt that failed before its first byte and may be repeated. Returned; thrown errors are not retried. */
export class RetryableError {
  readonly error: AgentError
  /** The server's Retry-After in ms; null: none. */
  readonly retryAfterMs: number | null
  constructor(error: AgentError, retryAfterMs: number | null = null) {
    this.error = error
    this.retryAfterMs = retryAfterMs
  }
}

export interface RetryPolicy {
  /** Retries after the first attempt. */
  readonly retries: number
  /** First delay in ms; doubles each time. */
  readonly backoffMs: number
  /** Maximum delay when backing off. */
  readonly backoffMaxMs: number
  /** Longest `Retry-After` to wait for; a longer one fails at once, because the user is waiting. */
  readonly retryAfterMaxMs: number
  /** Random in [0, 1), for jitter: clients that failed together should not retry together. */
  random(): number
}

export const RETRY: RetryPolicy = {
  retries: 3,
  backoffMs: 500,
  backoffMaxMs: 8000,
  retryAfterMaxMs: 30_000,
  random: Math.random
}

/**
 * Result of the first successful attempt.
 * @param onRetry called after every failed attempt but the last, with its number from 1
 * @throws AgentError of the last attempt; what an attempt throws; the signal's reason
 */
export async function retrying<T>(
  attempt: () => Promise<T | RetryableError>,
  policy: RetryPolicy,
  signal: AbortSignal,
  onRetry: (error: AgentError, attempts: number, waitMs: number) => void = () => {}
): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    signal.throwIfAborted()
    const result = await attempt()
    if (!(result instanceof RetryableError)) return result
    const waitMs = pauseMs(policy, attempts - 1, result)
    if (waitMs === null) throw result.error
    onRetry(result.error, attempts, waitMs)
    // An abort ends the wait; it is thrown at the top of the loop.
    await sleep(waitMs, undefined, { signal }).catch(() => {})
  }
}

/**
 * Delay before the next attempt in ms; null: there is none.
 * @param failed attempts failed so far
 */
export function pauseMs(policy: RetryPolicy, failed: number, { retryAfterMs }: RetryableError): number | null {
  const { retries, backoffMaxMs, retryAfterMaxMs, random } = policy
  const asked = retryAfterMs ?? 0
  if (failed >= retries || asked > retryAfterMaxMs) return null
  const backoff = backoffMs(failed, { first: policy.backoffMs, most: backoffMaxMs })
  return Math.max(backoff / 2 + (random() * backoff) / 2, asked)
}

/** Parses a header that is a number of seconds or a date, to ms; null: neither. */
function readRetryAfter(header: string | undefined): number | null {
  if (header === undefined) return null
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}

/** Characters of a server's message to quote. */
const QUOTE_MAX = 500
/** Shorter keys are not redacted: they would match everywhere. */
const SECRET_MIN = 6

interface Peer {
  /** Prefix of its error names: `ModelUnavailable`. */
  readonly kind: 'Model' | 'Agent'
  /** Subject of the sentence: `The model "main"`. */
  readonly name: string
  /** What it does for us: `its answer`, `the run`. */
  readonly work: string
  /** Names the expected protocol in errors: `no chat completion`. */
  readonly protocol: string
  /** Keys to redact: some servers repeat them in errors. */
  readonly secrets: readonly string[]
}

export class PeerFailures {
  readonly #peer: Peer
  readonly #secrets: readonly string[]

  constructor(peer: Peer) {
    this.#peer = peer
    this.#secrets = peer.secrets.filter(({ length }) => length >= SECRET_MIN)
  }

  unreachable(error: unknown): PeerError {
    return this.#fail('Unavailable', `cannot be reached${inBrackets(error)}`)
  }

  /**
   * A refusal, temporary or permanent.
   * @throws PeerError when it is permanent
   */
  refusal({ statusCode: status = 0, headers }: IncomingMessage, body: string): RetryableError {
    const said = this.#inBody(body)
    if (!isForNow(status)) throw this.#fail('Refused', `refused the request with status ${status}${said}`, status)
    const retryAfterMs = readRetryAfter(headers['retry-after'])
    const pause = retryAfterMs ? `, and asks to wait ${Math.ceil(retryAfterMs / 1000)} seconds` : ''
    const error = this.#fail('Unavailable', `is not available: status ${status}${said}${pause}`, status)
    return new RetryableError(error, retryAfterMs)
  }

  silent(idleMs: number): PeerError {
    return this.#fail('Timeout', `sent nothing for ${idleMs / 1000} seconds and was given up`)
  }

  brokeOff(error: unknown): PeerError {
    return this.#fail('Interrupted', `broke off in the middle of ${this.#peer.work}${inBrackets(error)}`)
  }

  /** It stopped before it was done; `how` completes the sentence. */
  interrupted(how: string): PeerError {
    return this.#fail('Interrupted', how)
  }

  /** A failure reported in the middle of an answer. */
  reported(error: Json): PeerError {
    return this.interrupted(
      `reported a failure in the middle of ${this.#peer.work}: ${this.#quote(explanation(error))}`
    )
  }

  notAStream(body = ''): PeerError {
    return this.#fail('ProtocolError', `answered with something other than an event stream${this.#inBody(body)}`)
  }

  garbage(what: string): PeerError {
    return this.#fail('ProtocolError', `sent something that is ${this.#peer.protocol}: ${what}`)
  }

  /** More than is taken; `what` completes the sentence. */
  tooLarge(what: string): PeerError {
    return this.#fail('TooLarge', `sent ${what}`)
  }

  #fail(kind: string, what: string, status: number | null = null): PeerError {
    return new PeerError(this.#peer.kind + kind, `${this.#peer.name} ${what}`, status)
  }

  /** The failure according to the response body, as the end of a sentence. */
  #inBody(body: string): string {
    const said = this.#quote(explanationIn(body))
    return said === '' ? '' : `: ${said}`
  }

  /** Shortened, with keys redacted, because some servers repeat them. */
  #quote(text: string): string {
    const said = this.#secrets.reduce((left, secret) => left.replaceAll(secret, '***'), text).trim()
    return said.length <= QUOTE_MAX ? said : `${cutTo(said, QUOTE_MAX)}...`
  }
}

/** The human-readable message in an error body: in one of a few common places, or plain text. */
function explanationIn(body: string): string {
  const parsed = parseJson(body)
  if (!isObject(parsed)) return body.trimStart().startsWith('<') ? '' : body
  return explanation(parsed.error ?? parsed.message ?? parsed.detail)
}

function explanation(error: Json | undefined): string {
  if (typeof error === 'string') return error
  if (!isObject(error)) return ''
  return typeof error.message === 'string' ? error.message : JSON.stringify(error)
}

/** The system's error code, e.g. ECONNREFUSED; its message would contain our addresses. */
function inBrackets(error: unknown): string {
  const code = codeOf(error)
  return code === null ? '' : ` (${code})`
}
