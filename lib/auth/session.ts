// Sessions: from a token to its user, and the end of a session before its time.
import { Failure } from '../errors.ts'
import type { UserReads } from '../store/store.ts'
import type { User } from '../types.ts'
import { digestOf, type TokenFailure, type Tokens } from './token.ts'

/** What has lost its right: one credential, or all of a user. */
export interface Revocation {
  readonly credential?: string
  readonly userId?: string
}

/** Logged-out credentials that are remembered; the oldest are dropped above it. */
const DENIED_MAX = 100_000

const CODES: Readonly<Record<TokenFailure, 'token_expired' | 'token_invalid'>> = {
  expired: 'token_expired',
  invalid_signature: 'token_invalid',
  malformed: 'token_invalid'
}

export class Sessions {
  readonly #users: UserReads
  readonly #tokens: Tokens
  /** Digests of logged-out credentials, with the second at which they expire by themselves. */
  readonly #denied = new Map<string, number>()
  readonly #listeners: ((revocation: Revocation) => void)[] = []

  constructor({ users, tokens }: { users: UserReads; tokens: Tokens }) {
    this.#users = users
    this.#tokens = tokens
  }

  /**
   * The user of a token: validated in full, with the row read each time, so that a change of password counts at once [Auth 3].
   * @throws Failure token_expired, token_invalid, token_revoked, user_not_found
   */
  async authenticate(token: string): Promise<User> {
    const found = await this.#tokens.read(token)
    if ('failure' in found) throw new Failure(CODES[found.failure])
    if (this.#denied.has(digestOf(token))) throw new Failure('token_revoked')
    const user = await this.#users.byId(found.claims.sub)
    if (!user) throw new Failure('user_not_found')
    if (user.token_version !== found.claims.ver) throw new Failure('token_revoked')
    return user
  }

  /** Ends the session of a token, if it is one: its streams end, and it is refused until it would have expired. */
  async logout(token: string): Promise<void> {
    const found = await this.#tokens.read(token)
    if ('failure' in found) return
    const credential = digestOf(token)
    this.#forgetExpired()
    this.#denied.set(credential, found.claims.exp)
    this.#tell({ credential })
  }

  /** All sessions of a user have ended: their tokens are of an older version now. */
  revokeUser(userId: string): void {
    this.#tell({ userId })
  }

  onRevoke(listener: (revocation: Revocation) => void): void {
    this.#listeners.push(listener)
  }

  #tell(revocation: Revocation): void {
    for (const listener of this.#listeners) listener(revocation)
  }

  #forgetExpired(): void {
    if (this.#denied.size < DENIED_MAX) return
    const now = Date.now() / 1000
    for (const [credential, exp] of this.#denied) if (exp < now) this.#denied.delete(credential)
    const oldest = this.#denied.keys().next()
    if (this.#denied.size >= DENIED_MAX && !oldest.done) this.#denied.delete(oldest.value)
  }
}
