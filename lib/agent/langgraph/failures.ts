// The ways in which a graph's server fails: each as the error that its run ends with, in words for a person. What the server said is
// quoted; nothing of ours is in it, no key and no address.
import { codeOf, cut, explanationIn } from '../failures.ts'
import { AgentError } from '../runtime.ts'

/** Characters of what a server said that are shown. */
const QUOTE_MAX = 500
/** A shorter one hides nothing, and would be found everywhere. */
const SECRET_MIN = 6

export class ServerFailures {
  readonly #secrets: readonly string[]

  /** @param secrets what servers may repeat when they refuse it */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets.filter(({ length }) => length >= SECRET_MIN)
  }

  unreachable(error: unknown): AgentError {
    return fail('AgentUnavailable', `cannot be reached${codeOf(error)}`)
  }

  /** A status that says no for now. */
  unavailable(status: number, body: string): AgentError {
    return fail('AgentUnavailable', `is not available: status ${status}${this.#inBody(body)}`)
  }

  /** A status that says no for good. */
  refused(status: number, body: string): AgentError {
    return fail('AgentRefused', `refused the request with status ${status}${this.#inBody(body)}`)
  }

  silent(): AgentError {
    return fail('AgentTimeout', 'does not answer any more')
  }

  brokeOff(error: unknown): AgentError {
    return fail('AgentInterrupted', `broke off in the middle of the run${codeOf(error)}`)
  }

  lost(): AgentError {
    return fail('AgentInterrupted', 'knows nothing of the run any more')
  }

  ended(status: string): AgentError {
    return fail('AgentInterrupted', `has ended the run with status ${cut(status, 32)}`)
  }

  garbage(what: string): AgentError {
    return fail('AgentProtocolError', `sent something that is none of LangGraph's protocol: ${what}`)
  }

  #inBody(body: string): string {
    const said = this.#secrets.reduce((text, secret) => text.replaceAll(secret, '***'), explanationIn(body)).trim()
    return said === '' ? '' : `: ${cut(said, QUOTE_MAX)}`
  }
}

function fail(kind: string, what: string): AgentError {
  return new AgentError(kind, `The agent's server ${what}`)
}
