// Credentials: what a request presents to be let in, a session's token or an API token, and what becomes of it.
import type { Credential, Principal, Grant } from '../types.ts'
import type { ApiTokens } from './api-tokens.ts'
import type { Sessions } from './session.ts'

export class Credentials {
  readonly #sessions: Sessions
  readonly #apiTokens: ApiTokens

  constructor(sessions: Sessions, apiTokens: ApiTokens) {
    this.#sessions = sessions
    this.#apiTokens = apiTokens
  }

  /** @throws Failure 401, with the code that says why */
  authenticate({ kind, text }: Credential): Promise<Principal> {
    return kind === 'session' ? this.#sessions.authenticate(text) : this.#apiTokens.authenticate(text)
  }

  /** Whether a grant still stands. One look-up; none when it has ended by itself. */
  async isValid(grant: Grant): Promise<boolean> {
    if (grant.expires !== null && grant.expires * 1000 <= Date.now()) return false
    return grant.kind === 'session' ? this.#sessions.isValid(grant) : this.#apiTokens.isValid(grant)
  }
}
