// Credentials of every kind: sessions, API tokens, and those of the process's calls to itself, which are in memory only, each for one call.
import { randomBytes } from 'node:crypto'
import { fail } from '../base/errors.ts'
import type { Caller, Door } from '../base/loopback.ts'
import type { UserReads } from '../store/store.ts'
import { API_TOKEN_PREFIX, type Credential, type Grant, type Principal, USER_PERMISSIONS } from '../base/accounts.ts'
import { type AuthUser, assertedPrincipal } from './asserted.ts'
import type { ApiTokens } from './api-tokens.ts'
import { digestOf, type Sessions } from './session.ts'
import type { ThreadLinks } from './thread-links.ts'

export class InnerCalls implements Door {
  /** Where the server listens, as this machine reaches it. */
  url = ''
  readonly #users: Pick<UserReads, 'byId'>
  readonly #callers = new Map<string, Caller>()

  constructor(users: Pick<UserReads, 'byId'>) {
    this.#users = users
  }

  async open(caller: Caller | null): Promise<{ url: string; token: string | null }> {
    if (caller === null) return { url: this.url, token: null }
    const token = API_TOKEN_PREFIX + randomBytes(32).toString('base64url')
    this.#callers.set(token, caller)
    return { url: this.url, token }
  }

  async close(token: string): Promise<void> {
    this.#callers.delete(token)
  }

  /** null: not one of these. Rejects with user_not_found. */
  principalOf(text: string): Promise<Principal> | null {
    const caller = this.#callers.get(text)
    return caller ? this.principalFor(caller, text) : null
  }

  /** @throws Failure user_not_found */
  async principalFor(caller: Caller, text = ''): Promise<Principal> {
    const asserted = assertedBy(caller)
    if (asserted) return asserted
    const user = await this.#users.byId(caller.userId)
    if (!user || user.disabled_at !== null) throw fail('user_not_found')
    const permissions = new Set(caller.permissions ?? USER_PERMISSIONS)
    const grant = { userId: user.id, digest: digestOf(text), version: 0, expires: null, permissions } as const
    return { user, grant: { kind: 'asserted', ...grant } }
  }

  /** The caller's account was removed or disabled. Whom only the project's rules know is not gone: they are asked about requests alone. */
  async isGone(caller: Caller): Promise<boolean> {
    if (assertedBy(caller) !== null) return false
    const user = await this.#users.byId(caller.userId)
    return user === null || user.disabled_at !== null
  }
}

/** Somebody whom only the project's rules know; null: somebody with an account. */
function assertedBy({ authUser, userId }: Caller): Principal | null {
  // Made by `authUser`, which describes accounts as well.
  const asserted = authUser && assertedPrincipal(authUser as AuthUser)
  return asserted?.user.id === userId ? asserted : null
}

/** Authenticates by any kind of credential. */
export class Credentials {
  readonly #sessions: Sessions
  readonly #apiTokens: ApiTokens
  readonly #links: ThreadLinks
  readonly #innerCalls: InnerCalls | null

  constructor(sessions: Sessions, apiTokens: ApiTokens, links: ThreadLinks, innerCalls: InnerCalls | null = null) {
    this.#sessions = sessions
    this.#apiTokens = apiTokens
    this.#links = links
    this.#innerCalls = innerCalls
  }

  /** @throws Failure 401, with the code that says why */
  readonly authenticate = async (credential: Credential): Promise<Principal> => {
    const { kind, text } = credential
    if (kind === 'session') return this.#sessions.authenticate(text)
    if (kind === 'link') return this.#links.authenticate(credential)
    return this.#innerCalls?.principalOf(text) ?? this.#apiTokens.authenticate(credential)
  }

  /** Whether a grant is still valid. One query; none when it has expired. */
  async isValid(grant: Grant): Promise<boolean> {
    if (grant.expires !== null && grant.expires * 1000 <= Date.now()) return false
    // A call of our own to ourselves has no request that could be asked about again.
    if (grant.kind === 'asserted') return grant.isAssertedStill?.() ?? true
    if (grant.kind === 'link') return this.#links.isValid(grant)
    return grant.kind === 'session' ? this.#sessions.isValid(grant) : this.#apiTokens.isValid(grant)
  }
}
