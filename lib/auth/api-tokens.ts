// Keys that are shown once, stored as a digest and limited to their scopes: API tokens for programs, invitations, and links.
import { randomBytes, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { fail, Failure } from '../base/errors.ts'
import type { UserArg } from '../base/scope.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import {
  API_TOKEN_PREFIX,
  type ApiToken,
  type Credential,
  type Grant,
  INVITATION,
  PASSWORD_LINK,
  type Permission,
  type Principal,
  THREAD_FILES,
  THREAD_LINK,
  type User,
  USER_PERMISSIONS
} from '../base/accounts.ts'
import { timestamp } from '../base/types.ts'
import { findAccount } from './email.ts'
import { digestOf, type Revocation } from './session.ts'

/** 256 bits cannot be guessed, so a plain digest is enough and no limiter is needed. */
const TOKEN_BYTES = 32
/** Tokens per account: a script that creates one a day must not fill the table. */
const API_TOKENS_MAX = 100
/** Links of a user to one thread. */
const LINKS_MAX = 20
/** Precision of the last use: a write per request would cost more than most requests. */
const USE_MS = 60_000

/** It is recorded once in this time for whom a token acts; and so many of them are remembered. */
const ACTING_MS = 3_600_000
const ACTING_MAX = 10_000
const USER_SCOPES: ReadonlySet<Permission> = new Set(USER_PERMISSIONS)

interface ApiTokenParts {
  readonly reads: ScopedStore['apiTokens']
  readonly users: Pick<ScopedStore['users'], 'byId' | 'byEmail'>
  /** Called when a token acts for somebody for the first time in a while. Must not throw. */
  readonly onActing?: (tokenUserId: string, userId: string, address: string) => void
  readonly writer: ScopedWriter
  readonly log: { warn(fields: object, text: string): void }
  /** As in SessionParts. */
  readonly onRevoked: (revocation: Revocation) => void
}

export interface NewApiToken {
  readonly user_id: string
  readonly name: string
  readonly scopes: readonly Permission[]
  /** Lifetime in ms; null: until revoked. */
  readonly lifetimeMs: number | null
  /** The thread that a link opens. */
  readonly thread_id?: string
}

function isInvitation({ scopes }: ApiToken): boolean {
  return scopes.includes(INVITATION)
}

/** Keys for one deed of somebody without a session, and links: as tokens they authenticate nobody. */
function isOther(token: ApiToken): boolean {
  return isInvitation(token) || token.scopes.includes(PASSWORD_LINK) || isLink(token)
}

/** A link that opens a thread. */
function isLink({ thread_id }: ApiToken): boolean {
  return thread_id !== undefined
}

const NOT_PERMISSIONS: ReadonlySet<string> = new Set([INVITATION, PASSWORD_LINK, THREAD_LINK, THREAD_FILES])

function isPermission(scope: ApiToken['scopes'][number]): scope is Permission {
  return !NOT_PERMISSIONS.has(scope)
}

/** `text` is the key itself, which cannot be shown again. */
export interface NewKey {
  readonly token: ApiToken
  readonly text: string
}

/**
 * Makes and stores an API token, an invitation or a link.
 * @throws Failure api_tokens_full, links_full
 */
export async function createKey(
  writer: ScopedWriter,
  wanted: Omit<NewApiToken, 'scopes'> & Pick<ApiToken, 'scopes'>
): Promise<NewKey> {
  const text = API_TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('base64url')
  const now = Date.now()
  const { user_id, name, scopes, lifetimeMs, thread_id } = wanted
  const token: ApiToken = {
    token_id: randomUUID(),
    user_id,
    name,
    digest: digestOf(text),
    scopes: [...new Set(scopes)],
    created_at: timestamp(now),
    expires_at: lifetimeMs === null ? null : timestamp(now + lifetimeMs),
    last_used_at: null,
    ...(thread_id !== undefined && { thread_id })
  }
  const max = isLink(token) ? LINKS_MAX : API_TOKENS_MAX
  const outcome = await writer.write({ name: 'apiToken.create', token, max })
  if (outcome === 'too_many') throw fail(isLink(token) ? 'links_full' : 'api_tokens_full', { max })
  return { token, text }
}

/** Whose tokens act for others, if they have the scope for it. */
function mayAct({ system_role }: User, permissions: ReadonlySet<string>): boolean {
  return permissions.has('act:users') && ['admin', 'service'].includes(system_role)
}

/** For whom they may act. */
function isActedFor({ disabled_at, system_role }: User): boolean {
  return disabled_at === null && system_role === 'user'
}

export class ApiTokens {
  readonly #parts: ApiTokenParts
  /** Tokens whose last use is being written. */
  readonly #noting = new Set<string>()
  /** Digests of tokens and for whom they act, where that was recorded a little while ago. */
  readonly #acting = new LRUCache<string, true>({ max: ACTING_MAX, ttl: ACTING_MS })

  constructor(parts: ApiTokenParts) {
    this.#parts = parts
  }

  /**
   * The user that a token acts for, and what it may do.
   * @throws Failure token_invalid (also when it was revoked), token_expired, user_not_found
   */
  async authenticate({ text, onBehalfOf, address = '' }: Omit<Credential, 'kind'>): Promise<Principal> {
    const found = await this.#parts.reads.byDigest(digestOf(text))
    if (!found) throw new Failure('token_invalid')
    const { token, user } = found
    const expires = token.expires_at === null ? null : Date.parse(token.expires_at) / 1000
    if (expires !== null && expires * 1000 <= Date.now()) throw new Failure('token_expired')
    if (!user) throw new Failure('user_not_found')
    // An invitation creates an account; it does not act for its maker.
    if (isOther(token) || user.disabled_at !== null) throw new Failure('token_invalid')
    this.#noteUse(token)
    const permissions = new Set(token.scopes.filter(isPermission))
    const grant: Grant = { kind: 'token', userId: user.id, digest: token.digest, version: 0, expires, permissions }
    return onBehalfOf === undefined ? { user, grant } : this.#actingFor(onBehalfOf, user, grant, address)
  }

  /** @throws Failure acting_refused: it may not, or that is nobody it may act for */
  async #actingFor(named: string, owner: User, grant: Grant, address: string): Promise<Principal> {
    const { users, onActing } = this.#parts
    const isAllowed = mayAct(owner, grant.permissions ?? new Set())
    const user = isAllowed ? ((await users.byId(named)) ?? (await findAccount(users, named))) : null
    if (user === null || !isActedFor(user)) throw fail('acting_refused')
    const permissions = new Set([...(grant.permissions ?? [])].filter((one) => USER_SCOPES.has(one)))
    this.#noteActing(`${grant.digest} ${user.id}`, () => onActing?.(owner.id, user.id, address))
    return { user, grant: { ...grant, userId: user.id, permissions, actor: owner.id } }
  }

  #noteActing(key: string, note: () => void): void {
    if (this.#acting.has(key)) return
    this.#acting.set(key, true)
    note()
  }

  /** Whether a token is still valid, for open streams. One query. */
  async isValid({ digest, userId, actor }: Grant): Promise<boolean> {
    const found = await this.#parts.reads.byDigest(digest)
    if (found === null || found.user === null || found.user.disabled_at !== null) return false
    if (actor === undefined) return true
    const user = mayAct(found.user, new Set(found.token.scopes)) ? await this.#parts.users.byId(userId) : null
    return user !== null && isActedFor(user)
  }

  /** @throws Failure api_tokens_full */
  create(wanted: NewApiToken): Promise<NewKey> {
    return createKey(this.#parts.writer, wanted)
  }

  /** Newest first. */
  async list(user?: UserArg): Promise<ApiToken[]> {
    return (await this.#parts.reads.list(user)).filter((token) => !isOther(token))
  }

  /** Revokes all tokens of a user, and all links to threads; returns how many tokens. */
  async revokeAll(user: string): Promise<number> {
    const all = (await this.#parts.reads.list(user)).filter((token) => isLink(token) || !isOther(token))
    for (const { token_id } of all) await this.revoke(token_id, user)
    return all.filter((token) => !isLink(token)).length
  }

  /** Revokes a token, and closes its streams. False: no such token of this user. */
  async revoke(token_id: string, user?: UserArg): Promise<boolean> {
    const gone = await this.#parts.writer.write({ name: 'apiToken.remove', token_id, user })
    if (!gone) return false
    this.#parts.onRevoked({ digest: gone.digest })
    return true
  }

  /** In the background. The row just read has the last recorded use, so no cache is needed. */
  #noteUse({ token_id, last_used_at }: ApiToken): void {
    const now = Date.now()
    if (last_used_at !== null && now - Date.parse(last_used_at) < USE_MS) return
    if (this.#noting.has(token_id)) return
    this.#noting.add(token_id)
    this.#parts.writer
      .write({ name: 'apiToken.use', token_id, at: timestamp(now) })
      .catch((error: unknown) =>
        this.#parts.log.warn({ err: error, token_id }, 'the last use of an API token could not be recorded')
      )
      .finally(() => this.#noting.delete(token_id))
  }
}

// ----------------------------------------------------------------------------------------------------
// Invitations: single-use keys an administrator makes for people without an account. Stored as API tokens with a scope of their own, so
// that they need no table, and neither kind works as the other.

export class Invitations {
  readonly #reads: ScopedStore['apiTokens']
  readonly #writer: ScopedWriter

  constructor(reads: ScopedStore['apiTokens'], writer: ScopedWriter) {
    this.#reads = reads
    this.#writer = writer
  }

  /**
   * `text` of the result is shown to the administrator, who passes it on.
   * @throws Failure api_tokens_full: invitations count among their maker's tokens
   */
  create(wanted: { user_id: string; name: string; lifetimeMs: number }): Promise<NewKey> {
    return createKey(this.#writer, { ...wanted, scopes: [INVITATION] })
  }

  /** Unused invitations, newest first, including expired ones. */
  async list(user?: UserArg): Promise<ApiToken[]> {
    return (await this.#reads.list(user)).filter(isInvitation)
  }

  /** False: no such invitation of this user. */
  async revoke(id: string, user?: UserArg): Promise<boolean> {
    const isOne = (await this.list(user)).some(({ token_id }) => token_id === id)
    return isOne && (await this.#writer.write({ name: 'apiToken.remove', token_id: id, user })) !== null
  }

  /** @throws Failure invitation_invalid: unknown, used, revoked, expired, or its maker is no longer an administrator */
  async find(text: string | null): Promise<ApiToken> {
    const found = text === null ? null : await this.#reads.byDigest(digestOf(text))
    const hasEnded = found !== null && Date.parse(found.token.expires_at ?? '') <= Date.now()
    if (!found || !isInvitation(found.token) || hasEnded || found.user?.system_role !== 'admin')
      throw fail('invitation_invalid')
    return found.token
  }

  /**
   * The first to use it wins.
   * @throws Failure invitation_invalid
   */
  async use({ token_id, user_id }: ApiToken): Promise<void> {
    if ((await this.#writer.write({ name: 'apiToken.remove', token_id, user: user_id })) === null)
      throw fail('invitation_invalid')
  }
}
