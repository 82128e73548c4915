// The ways in which a model fails: each as the error that its run ends with, in words for a person. What the provider said is
// quoted; nothing of ours is in it, no key and no address.
import { type Json, isObject, cutTo } from '../types.ts'
import { parseJson } from './json.ts'
import { AgentError } from './runtime.ts'

/** Characters of what a provider said that are shown. */
const QUOTE_MAX = 500

export class ModelFailures {
  readonly #model: string
  readonly #apiKey: string

  constructor(model: string, apiKey: string) {
    this.#model = model
    this.#apiKey = apiKey
  }

  unreachable(error: unknown): AgentError {
    return this.#fail('ModelUnavailable', `cannot be reached${codeOf(error)}`)
  }

  /** A status that says no for now. */
  unavailable(status: number, body: string, retryAfterMs: number | null): AgentError {
    const pause = retryAfterMs ? `, and asks to wait ${Math.ceil(retryAfterMs / 1000)} seconds` : ''
    return this.#fail('ModelUnavailable', `is not available: status ${status}${this.#inBody(body)}${pause}`)
  }

  /** A status that says no for good. */
  refused(status: number, body: string): AgentError {
    return this.#fail('ModelRefused', `refused the request with status ${status}${this.#inBody(body)}`)
  }

  silent(idleMs: number): AgentError {
    return this.#fail('ModelTimeout', `sent nothing for ${idleMs / 1000} seconds and was given up`)
  }

  brokeOff(error: unknown): AgentError {
    return this.#fail('ModelInterrupted', `broke off in the middle of its answer${codeOf(error)}`)
  }

  endedEarly(): AgentError {
    return this.#fail('ModelInterrupted', 'ended its answer before it was complete')
  }

  /** A failure that the provider reports inside its stream. */
  reported(error: Json): AgentError {
    const said = this.#quote(explanation(error))
    return this.#fail('ModelInterrupted', `reported a failure in the middle of its answer: ${said}`)
  }

  notAStream(body = ''): AgentError {
    const said = this.#inBody(body)
    return this.#fail('ModelProtocolError', `answered with something other than an event stream${said}`)
  }

  garbage(what: string): AgentError {
    return this.#fail('ModelProtocolError', `sent something that is no chat completion: ${what}`)
  }

  #fail(kind: string, what: string): AgentError {
    return new AgentError(kind, `The model "${this.#model}" ${what}`)
  }

  /** What the body of an answer says about its failure, as the end of a sentence. */
  #inBody(body: string): string {
    const said = this.#quote(explanationIn(body))
    return said === '' ? '' : `: ${said}`
  }

  /** Short, and without the key, which some providers repeat when they refuse it. */
  #quote(text: string): string {
    return cut((this.#apiKey === '' ? text : text.replaceAll(this.#apiKey, '***')).trim(), QUOTE_MAX)
  }
}

/** The sentence for people in the body of an error: providers put it into one of a few places, or send plain text. */
export function explanationIn(body: string): string {
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
export function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  const hasCode = cause instanceof Error && 'code' in cause && typeof cause.code === 'string'
  return hasCode ? ` (${cause.code})` : ''
}

/** At most `max` characters, never half a surrogate pair. */
export function cut(text: string, max: number): string {
  return text.length <= max ? text : `${cutTo(text, max)}...`
}
