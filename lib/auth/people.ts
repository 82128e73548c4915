// People: accounts as administrators and the command line see them. What changes whether somebody may sign in ends at once what is open.
import { randomBytes, randomUUID } from 'node:crypto'
import { fail } from '../base/errors.ts'
import {
  type ApiToken,
  PASSWORD_LINK,
  type Permission,
  QUOTA_LIMITS,
  type QuotaLimits,
  type Session,
  type SystemRole,
  type User
} from '../base/accounts.ts'
import { timestamp } from '../base/types.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import type { ListedUser, NewJob, UserSearch } from '../store/store.ts'
import { forgetCredentials } from './admin.ts'
import { type ApiTokens, createKey, type NewKey } from './api-tokens.ts'
import { type Actor, type Audit, userName } from './audit.ts'
import { findAccount } from './email.ts'
import { hashPassword } from './password.ts'
import { type AccountChange, digestOf, changeAccount, type Revocation } from './session.ts'

const HOUR_MS = 3_600_000
const LINK_MS = 24 * HOUR_MS
const LINK_NAME = 'password link'
const MAILED_NAME = 'password link by mail'
const PASSWORD_BYTES = 16
/** Of the digest of a session: enough to name it among its user's. */
const SESSION_ID_LENGTH = 32
/** Addresses of service accounts end in it: no person's can. */
const SERVICE_DOMAIN = '@service.invalid'

interface PeopleParts {
  readonly store: Pick<ScopedStore, 'users' | 'apiTokens'>
  readonly writer: ScopedWriter
  readonly apiTokens: ApiTokens
  readonly audit: Audit
  readonly home: string
  /** The job that removes what somebody has left. */
  readonly departureOf: (userId: string, erasure: { actor: string; request_id: string | null } | null) => NewJob
  /** The job that mails a password link; null: to nobody. */
  readonly passwordMailOf: (userId: string | null, request: MailRequest) => NewJob
  /** As in SessionParts. */
  readonly onRevoked: (revocation: Revocation) => void
}

export interface NewAccount {
  /** Normalised; of a service account its name. */
  readonly email: string
  readonly role: SystemRole
  /** null: it has none until a password link is used. */
  readonly password: string | null
}

/** Who asks for a mail, and in which language it is to be written. */
interface MailRequest {
  readonly address: string | null
  readonly request_id: string | null
  readonly language: string
}

/** By limit; null: as for everybody. */
type QuotaWish = { readonly [Name in keyof QuotaLimits]?: number | null | undefined }

export function sessionIdOf({ digest }: Session): string {
  return digest.slice(0, SESSION_ID_LENGTH)
}

/** Where the page takes a password link: behind the #, which is in no log of a proxy. */
export function passwordPage(baseUrl: string, text: string): string {
  return `${baseUrl}/#/password/${text}`
}

/** An account as it begins. */
export function newUser(given: Pick<User, 'email'> & Partial<User>): User {
  return {
    id: randomUUID(),
    password_hash: null,
    system_role: 'user',
    created_at: timestamp(),
    oauth_provider: null,
    oauth_id: null,
    needs_setup: false,
    token_version: 0,
    disabled_at: null,
    ...given
  }
}

export class People {
  readonly #parts: PeopleParts

  constructor(parts: PeopleParts) {
    this.#parts = parts
  }

  list(search: UserSearch): Promise<{ readonly users: readonly ListedUser[]; readonly total: number }> {
    return this.#parts.store.users.list(search)
  }

  /** @throws Failure account_not_found */
  async get(id: string): Promise<User> {
    const user = await this.#parts.store.users.byId(id)
    return user ?? fail('account_not_found', { id })
  }

  /**
   * The account with this id or e-mail address, or the service account of this name.
   * @throws Failure account_not_found
   */
  async find(text: string): Promise<User> {
    const { users } = this.#parts.store
    const found = (await findAccount(users, text)) ?? (await users.byEmail(text + SERVICE_DOMAIN))
    return found ?? this.get(text)
  }

  /** @throws Failure email_already_exists */
  async create({ email, role, password }: NewAccount, by: Actor): Promise<User> {
    const user = newUser({
      email: role === 'service' ? email + SERVICE_DOMAIN : email,
      password_hash: password === null ? null : await hashPassword(password),
      system_role: role
    })
    if ((await this.#parts.writer.write({ name: 'user.create', user })) === 'email_taken')
      throw fail('email_already_exists')
    await this.#parts.audit.record('account_created', by, userName(user.id), { role })
    return user
  }

  /** @throws Failure account_not_found, last_admin, service_account_fixed */
  async setRole(id: string, role: SystemRole, by: Actor): Promise<User> {
    const { system_role: from } = await this.get(id)
    if (from === role) return this.get(id)
    if (from === 'service' || role === 'service') throw fail('service_account_fixed')
    const user = await this.#setAccess({ id, role })
    await this.#parts.audit.record('role', by, userName(id), { from, to: role })
    return user
  }

  /**
   * Disabling ends sessions, API tokens, streams, runs and crons on every process, and nobody signs in until it is enabled again.
   * @throws Failure account_not_found, last_admin
   */
  async setDisabled(id: string, isDisabled: boolean, by: Actor): Promise<User> {
    const before = await this.get(id)
    if ((before.disabled_at !== null) === isDisabled) return before
    const user = await this.#setAccess({ id, disabled_at: isDisabled ? timestamp() : null })
    await this.#parts.audit.record(isDisabled ? 'account_disabled' : 'account_enabled', by, userName(id))
    return user
  }

  async #setAccess(change: { id: string; role?: SystemRole; disabled_at?: string | null }): Promise<User> {
    const outcome = await this.#parts.writer.write({ name: 'user.setAccess', ...change })
    if (outcome === null) throw fail('account_not_found', { id: change.id })
    if (outcome === 'last_admin') throw fail('last_admin')
    this.#parts.onRevoked({ userId: change.id })
    return outcome
  }

  /**
   * Gives an account a quota of its own; null: it has what its groups and everybody have.
   * @throws Failure account_not_found
   */
  async setQuota(id: string, wanted: QuotaWish | null, by: Actor): Promise<User> {
    const given =
      wanted && QUOTA_LIMITS.flatMap((name) => (wanted[name] == null ? [] : [[name, wanted[name]] as const]))
    const quota = given && given.length > 0 ? Object.fromEntries(given) : null
    const user = await this.#parts.writer.write({ name: 'user.setQuota', id, quota })
    if (user === null) throw fail('account_not_found', { id })
    await this.#parts.audit.record('quota', by, userName(id), { ...quota })
    return user
  }

  /**
   * Its sessions and tokens end at once; a job removes everything that its person has left.
   * @throws Failure account_not_found, last_admin
   */
  remove(id: string, by: Actor): Promise<User> {
    return this.#remove(id, by, false)
  }

  /**
   * The same, until no byte is left: logs of the store are emptied too, and a line of the audit says when that is done.
   * @throws Failure account_not_found, last_admin
   */
  erase(id: string, by: Actor): Promise<User> {
    return this.#remove(id, by, true)
  }

  async #remove(id: string, by: Actor, isErasure: boolean): Promise<User> {
    const user = await this.get(id)
    const job = this.#parts.departureOf(id, isErasure ? { actor: by.actor, request_id: by.requestId } : null)
    const outcome = await this.#parts.writer.write({ name: 'user.remove', id, job })
    if (outcome === null) throw fail('account_not_found', { id })
    if (outcome === 'last_admin') throw fail('last_admin')
    await this.#parts.audit.record('account_deleted', by, userName(id))
    await forgetCredentials(this.#parts.home, user.email)
    this.#parts.onRevoked({ userId: id })
    return user
  }

  // -------------------------------------------------------------------------------------------- sessions

  /** Newest first. @throws Failure account_not_found */
  async sessions(id: string): Promise<Session[]> {
    await this.get(id)
    return this.#parts.store.users.sessions(id)
  }

  /** @throws Failure account_not_found, session_not_found */
  async endSession(id: string, sessionId: string, by: Actor): Promise<void> {
    const session = (await this.sessions(id)).find((one) => sessionIdOf(one) === sessionId)
    if (!session) throw fail('session_not_found', { id: sessionId })
    const { digest, expires } = session
    const now = Math.floor(Date.now() / 1000)
    await this.#parts.writer.write({ name: 'session.deny', digest, expires, now })
    await this.#parts.audit.record('sessions_ended', by, userName(id), { sessions: 1 })
    this.#parts.onRevoked({ digest })
  }

  /** Ends all sessions; API tokens stay. @throws Failure account_not_found */
  async endSessions(id: string, by: Actor): Promise<void> {
    await this.#changeAccount(id, {})
    await this.#parts.audit.record('sessions_ended', by, userName(id))
    this.#parts.onRevoked({ userId: id })
  }

  // ------------------------------------------------------------------------------------------- passwords

  /**
   * A new password, given or made. Ends all sessions and API tokens: whoever had the account may have made some.
   * @throws Failure account_not_found, service_account_password
   */
  async setPassword(id: string, password: string | null, by: Actor): Promise<string> {
    const chosen = password ?? randomBytes(PASSWORD_BYTES).toString('base64url')
    await this.#person(id)
    await this.#setHash(id, await hashPassword(chosen), by)
    return chosen
  }

  /** An account that may have a password. @throws Failure account_not_found, service_account_password */
  async #person(id: string): Promise<void> {
    if ((await this.get(id)).system_role === 'service') throw fail('service_account_password')
  }

  async #setHash(id: string, password_hash: string, by: Actor): Promise<void> {
    await this.#changeAccount(id, { password_hash })
    await this.#parts.apiTokens.revokeAll(id)
    await this.endPasswordLinks(id)
    await this.#parts.audit.record('password', by, userName(id), { how: 'reset' })
    this.#parts.onRevoked({ userId: id })
  }

  /** A key by which somebody may set this account's password, once, within a day. Older ones end. @throws Failure account_not_found, service_account_password */
  async passwordLink(id: string, by: Actor): Promise<NewKey> {
    await this.#person(id)
    await this.endPasswordLinks(id)
    const made = await this.#newLink(id, LINK_NAME, LINK_MS)
    await this.#parts.audit.record('password_link', by, userName(id))
    return made
  }

  #newLink(id: string, name: string, lifetimeMs: number): Promise<NewKey> {
    return createKey(this.#parts.writer, { user_id: id, name, scopes: [PASSWORD_LINK], lifetimeMs })
  }

  /** Asks for a link by mail. The same is written whether anybody has this address or not: the time does not say which. */
  async requestPasswordMail(email: string, request: MailRequest): Promise<void> {
    const user = await findAccount(this.#parts.store.users, email)
    await this.#parts.writer.write({ name: 'job.put', job: this.#parts.passwordMailOf(user?.id ?? null, request) })
  }

  /**
   * A link to be mailed, in place of the one that was mailed before; those of administrators stay. null: this account gets none, for it is
   * gone, disabled, or signs in otherwise.
   */
  async mailedPasswordLink(
    id: string,
    lifetimeMs: number
  ): Promise<{ readonly user: User; readonly text: string } | null> {
    const user = await this.#parts.store.users.byId(id)
    if (user === null || user.disabled_at !== null || user.system_role === 'service') return null
    if (user.oauth_provider !== null && user.password_hash === null) return null
    await this.endPasswordLinks(id, MAILED_NAME)
    const { text } = await this.#newLink(id, MAILED_NAME, lifetimeMs)
    return { user, text }
  }

  /** The mail of a link was taken. */
  passwordMailed(id: string, { address, request_id }: MailRequest): Promise<void> {
    const by = { actor: 'nobody', address, requestId: request_id }
    return this.#parts.audit.record('password_link', by, userName(id), { how: 'mail' })
  }

  /**
   * Sets the password of a link's account, by its person; the link is not good afterwards. The hash is made first: while no turn is free
   * for it the link stays good.
   * @throws Failure password_link_invalid, account_disabled; HashingBusy
   */
  async usePasswordLink(text: string, password: string, by: Actor): Promise<void> {
    await this.#linked(text)
    const password_hash = await hashPassword(password, { ...(by.address !== null && { address: by.address }) })
    const { token, user } = await this.#linked(text)
    const { token_id, user_id } = token
    // The first to use it wins.
    const gone = await this.#parts.writer.write({ name: 'apiToken.remove', token_id, user: user_id })
    if (gone === null) throw fail('password_link_invalid')
    await this.#setHash(user.id, password_hash, { ...by, actor: userName(user.id) })
  }

  /** @throws Failure password_link_invalid, account_disabled */
  async #linked(text: string): Promise<{ readonly token: ApiToken; readonly user: User }> {
    const found = await this.#parts.store.apiTokens.byDigest(digestOf(text))
    const isGood = found?.token.scopes.includes(PASSWORD_LINK) && Date.parse(found.token.expires_at ?? '') > Date.now()
    if (!found?.user || !isGood) throw fail('password_link_invalid')
    if (found.user.disabled_at !== null) throw fail('account_disabled')
    return { token: found.token, user: found.user }
  }

  /** All, or those of this name. */
  async endPasswordLinks(id: string, only?: string): Promise<void> {
    const tokens = await this.#parts.store.apiTokens.list(id)
    for (const { token_id, scopes, name } of tokens)
      if (scopes.includes(PASSWORD_LINK) && (only === undefined || name === only))
        await this.#parts.writer.write({ name: 'apiToken.remove', token_id, user: id })
  }

  async #changeAccount(id: string, set: AccountChange): Promise<void> {
    const updated = await changeAccount({ users: this.#parts.store.users, writer: this.#parts.writer }, id, () => set)
    if (updated === null || updated === 'email_taken') throw fail('account_not_found', { id })
  }

  // ---------------------------------------------------------------------------------------------- tokens

  /** A token of a service account. @throws Failure account_not_found, service_account_only, api_tokens_full */
  async createToken(
    id: string,
    wanted: { readonly name: string; readonly scopes: readonly Permission[]; readonly lifetimeMs: number | null },
    by: Actor
  ): Promise<NewKey> {
    if ((await this.get(id)).system_role !== 'service') throw fail('service_account_only')
    const made = await this.#parts.apiTokens.create({ ...wanted, user_id: id })
    await this.#parts.audit.record('token_created', by, tokenName(made.token), { for: userName(id) })
    return made
  }
}

/** How a token is named in the audit. */
export function tokenName({ token_id }: Pick<ApiToken, 'token_id'>): string {
  return `token:${token_id}`
}
