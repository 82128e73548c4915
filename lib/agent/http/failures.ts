// The ways in which a model or a graph's server fails: each as the error that its run ends with, in words for a person. What the server
// said is quoted; nothing of ours is in it, no key and no address.
import type { IncomingMessage } from 'node:http'
import { type Json, cutTo, isObject } from '../../types.ts'
import { parseJson } from '../json.ts'
import { AgentError } from '../runtime.ts'
import { isForNow } from './post.ts'
import { RetryableError, readRetryAfter } from './retry.ts'

/** Characters of what a server said that are shown. */
const QUOTE_MAX = 500
/** A shorter one hides nothing, and would be found everywhere. */
const SECRET_MIN = 6

/** A failure of a server we depend on. */
export class PeerError extends AgentError {
  /** The HTTP status that said no; null: there was none. */
  readonly status: number | null
  /** How often it was asked. */
  attempts = 1
  constructor(kind: string, message: string, status: number | null = null) {
    super(kind, message)
    this.status = status
  }
}

export interface Peer {
  /** What its errors are called after: `ModelUnavailable`. */
  readonly kind: 'Model' | 'Agent'
  /** The beginning of a sentence: `The model "main"`. */
  readonly name: string
  /** What it is in the middle of. */
  readonly work: string
  /** What garbage is not. */
  readonly protocol: string
  /** What it may repeat when it refuses it. */
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

  /** An answer that says no: for now, or for good. @throws PeerError when it is for good */
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

  /** It stopped before it was done, in whatever way `how` says. */
  interrupted(how: string): PeerError {
    return this.#fail('Interrupted', how)
  }

  /** A failure that it reports in the middle of its work. */
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

  #fail(kind: string, what: string, status: number | null = null): PeerError {
    return new PeerError(this.#peer.kind + kind, `${this.#peer.name} ${what}`, status)
  }

  /** What the body of an answer says about its failure, as the end of a sentence. */
  #inBody(body: string): string {
    const said = this.#quote(explanationIn(body))
    return said === '' ? '' : `: ${said}`
  }

  /** Short, and without keys, which some servers repeat when they refuse them. */
  #quote(text: string): string {
    const said = this.#secrets.reduce((left, secret) => left.replaceAll(secret, '***'), text).trim()
    return said.length <= QUOTE_MAX ? said : `${cutTo(said, QUOTE_MAX)}...`
  }
}

/** The sentence for people in the body of an error: servers put it into one of a few places, or send plain text. */
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

/** The system's code of a failed connection, e.g. ECONNREFUSED; its message would name addresses of ours. */
function codeOf(error: unknown): string {
  const hasCode = error instanceof Error && 'code' in error && typeof error.code === 'string'
  return hasCode ? ` (${error.code})` : ''
}
