// Failures of model and graph servers as errors for the user. They quote the server's message, but no keys or addresses.
import type { IncomingMessage } from 'node:http'
import { type Json, cutTo, isObject } from '../../base/types.ts'
import { parseJson } from '../../base/json.ts'
import { AgentError } from '../runtime.ts'
import { isForNow } from './post.ts'
import { RetryableError, readRetryAfter } from './retry.ts'

/** Characters of a server's message to quote. */
const QUOTE_MAX = 500
/** Shorter keys are not redacted: they would match everywhere. */
const SECRET_MIN = 6

/** A failure of a remote server. */
export class PeerError extends AgentError {
  /** The HTTP status; null: none. */
  readonly status: number | null
  attempts = 1
  constructor(kind: string, message: string, status: number | null = null) {
    super(kind, message)
    this.status = status
  }
}

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
    return this.#fail('Unavailable', `cannot be reached${codeOf(error)}`)
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
    return this.#fail('Interrupted', `broke off in the middle of ${this.#peer.work}${codeOf(error)}`)
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
function codeOf(error: unknown): string {
  const hasCode = error instanceof Error && 'code' in error && typeof error.code === 'string'
  return hasCode ? ` (${error.code})` : ''
}
