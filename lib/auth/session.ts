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
  readonly #deniedMax: number
  /** Digests of logged-out credentials, with the second at which they expire by themselves. Lost with the process. */
  readonly #denied = new Map<string, number>()
  readonly #listeners: ((revocation: Revocation) => void)[] = []

  constructor({ users, tokens, deniedMax = DENIED_MAX }: { users: UserReads; tokens: Tokens; deniedMax?: number }) {
    this.#users = users
    this.#tokens = tokens
    this.#deniedMax = deniedMax
  }

  /**
   * The user of a token: validated in full, with the row read each time, so that a change of password counts at once [Auth 3].
   * @throws Failure token_expired, token_invalid, token_revoked, user_not_found
   */
  async authenticate(token: string): Promise<User> {
    const found = await this.#tokens.read(token)
    if ('failure' in found) throw new Failure(CODES[found.failure])
    const user = await this.#users.byId(found.claims.sub)
    // After the last await: a logout meanwhile has ended the streams that were open, and must not be followed by a new one.
    if (this.#denied.has(digestOf(token))) throw new Failure('token_revoked')
    if (!user) throw new Failure('user_not_found')
    if (user.token_version !== found.claims.ver) throw new Failure('token_revoked')
    return user
  }

  /**
   * Ends the session of a token, if it is one: its streams end, and it is refused until it would have expired. Safe to call
   * with anything, and twice.
   */
  async logout(token: string): Promise<void> {
    const found = await this.#tokens.read(token)
    if ('failure' in found) return
    const credential = digestOf(token)
    this.#forgetExpired()
    this.#denied.set(credential, found.claims.exp)
    this.#tell({ credential })
  }

  /** Tells that all sessions of a user have ended: call it when the raised token_version is committed, not before. */
  revokeUser(userId: string): void {
    this.#tell({ userId })
  }

  /** Calls `listener` with everything that loses its right from now on, in the turn in which it does. It must not throw. */
  onRevoke(listener: (revocation: Revocation) => void): void {
    this.#listeners.push(listener)
  }

  #tell(revocation: Revocation): void {
    for (const listener of this.#listeners) listener(revocation)
  }

  #forgetExpired(): void {
    if (this.#denied.size < this.#deniedMax) return
    const now = Date.now() / 1000
    for (const [credential, exp] of this.#denied) if (exp < now) this.#denied.delete(credential)
    const oldest = this.#denied.keys().next()
    if (this.#denied.size >= this.#deniedMax && !oldest.done) this.#denied.delete(oldest.value)
  }
}
