// Sessions: resolves the token in a cookie to its user, revokes sessions, and handles API tokens as an alternative.
import { Failure } from '../base/errors.ts'
import type { UserReads, Writer } from '../store/store.ts'
import type { Credential, Grant, Principal } from '../base/types.ts'
import type { ApiTokens } from './api-tokens.ts'
import type { InnerCalls } from './inner-calls.ts'
import { digestOf, type Revocation, type TokenFailure, type Tokens } from './token.ts'

interface SessionParts {
  readonly users: UserReads
  readonly tokens: Tokens
  readonly writer: Writer
  /** Called when a revocation is stored: affected streams must be checked. Must not throw. */
  readonly onRevoked: (revocation: Revocation) => void
}

const CODES: Readonly<Record<TokenFailure, 'token_expired' | 'token_invalid'>> = {
  expired: 'token_expired',
  invalid_signature: 'token_invalid',
  malformed: 'token_invalid'
}

export class Sessions {
  readonly #parts: SessionParts

  constructor(parts: SessionParts) {
    this.#parts = parts
  }

  /**
   * Validates a token. Reads the user's row each time, so that a password change takes effect at once [Auth 3].
   * @throws Failure token_expired, token_invalid, token_revoked, user_not_found
   */
  async authenticate(token: string): Promise<Principal> {
    const found = await this.#parts.tokens.read(token)
    if ('failure' in found) throw new Failure(CODES[found.failure])
    const { sub, ver, exp } = found.claims
    const digest = digestOf(token)
    const user = await this.#parts.users.ofSession(sub, digest)
    if (user === null) throw new Failure('user_not_found')
    if (user === 'denied' || user.token_version !== ver) throw new Failure('token_revoked')
    return { user, grant: { kind: 'session', userId: sub, digest, version: ver, expires: exp, permissions: null } }
  }

  /** Whether a session is still valid, for open streams. One query. */
  async isValid({ userId, digest, version }: Grant): Promise<boolean> {
    const user = await this.#parts.users.ofSession(userId, digest)
    return user !== null && user !== 'denied' && user.token_version === version
  }

  /** Revokes a token until it would have expired, and closes its streams. Ignores anything else. Resolves when that is stored. */
  async logout(token: string): Promise<void> {
    const found = await this.#parts.tokens.read(token)
    if ('failure' in found) return
    const digest = digestOf(token)
    const now = Math.floor(Date.now() / 1000)
    await this.#parts.writer.write({ name: 'session.deny', digest, expires: Math.ceil(found.claims.exp), now })
    this.#parts.onRevoked({ digest })
  }

  /** Announces that all sessions of a user were revoked: call after the raised token_version is committed. */
  revokeUser(userId: string): void {
    this.#parts.onRevoked({ userId })
  }
}

/** Authenticates by either kind of credential. */
export class Credentials {
  readonly #sessions: Sessions
  readonly #apiTokens: ApiTokens
  readonly #innerCalls: InnerCalls | null

  constructor(sessions: Sessions, apiTokens: ApiTokens, innerCalls: InnerCalls | null = null) {
    this.#sessions = sessions
    this.#apiTokens = apiTokens
    this.#innerCalls = innerCalls
  }

  /** @throws Failure 401, with the code that says why */
  readonly authenticate = ({ kind, text }: Credential): Promise<Principal> =>
    kind === 'session'
      ? this.#sessions.authenticate(text)
      : (this.#innerCalls?.principalOf(text) ?? this.#apiTokens.authenticate(text))

  /** Whether a grant is still valid. One query; none when it has expired. */
  async isValid(grant: Grant): Promise<boolean> {
    if (grant.expires !== null && grant.expires * 1000 <= Date.now()) return false
    // A call of our own to ourselves has no request that could be asked about again.
    if (grant.kind === 'asserted') return grant.isAssertedStill?.() ?? true
    return grant.kind === 'session' ? this.#sessions.isValid(grant) : this.#apiTokens.isValid(grant)
  }
}
