// Sign-ins at providers: who may come in, which account is his, and when a session ends because the provider says so.
import { randomBytes } from 'node:crypto'
import { Failure, fail } from '../base/errors.ts'
import { Poller } from '../base/poller.ts'
import type { ProviderSession, SystemRole, User } from '../base/accounts.ts'
import type { UserReads, Writer } from '../store/store.ts'
import type { ApiTokens } from './api-tokens.ts'
import { type Actor, type Audit, SYSTEM, userName } from './audit.ts'
import { findAccount, readEmail } from './email.ts'
import { type Identity, loadLibrary, OidcProvider, type ProviderOptions, type ProviderTokens } from './oidc-provider.ts'
import { newUser, type People } from './people.ts'
import type { Seal } from './seal.ts'
import { digestOf, type Sessions } from './session.ts'

interface SingleSignOnParts {
  readonly options: { readonly recheck_s: number; readonly providers: readonly ProviderOptions[] }
  readonly users: UserReads
  readonly writer: Pick<Writer, 'write'>
  readonly sessions: Sessions
  readonly apiTokens: ApiTokens
  readonly people: People
  readonly audit: Audit
  readonly seal: Seal
  /** Lifetime of a session in seconds. */
  readonly lifetimeS: number
  readonly log: { warn(fields: object, text: string): void }
}

/** What a browser carries from its way out to its way back. */
interface Journey {
  readonly provider: string
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  readonly redirectUri: string
  readonly next: string
}

/** Time a person has at the provider, in seconds. */
export const JOURNEY_S = 900
/** Sessions that are asked about in one turn, and at once. */
const CHECKS_AT_ONCE = 8
const CHECKS_MAX = 200

export class SingleSignOn {
  readonly #parts: SingleSignOnParts
  readonly #providers: ReadonlyMap<string, OidcProvider>
  readonly #poller: Poller

  constructor(parts: SingleSignOnParts) {
    this.#parts = parts
    this.#providers = new Map(parts.options.providers.map((options) => [options.id, new OidcProvider(options)]))
    this.#poller = new Poller({
      // A session that is refused just after it was asked about ends within `recheck_s`.
      everyMs: this.#stepS * 1000,
      work: () => this.#checkAll(),
      onError: (error) => parts.log.warn({ err: error }, 'sessions of providers could not be checked')
    })
  }

  /** @throws Error in one sentence when the optional package is missing */
  async start(): Promise<void> {
    if (this.#providers.size === 0) return
    await loadLibrary()
    this.#poller.start()
  }

  stop(): Promise<void> {
    return this.#poller.stop()
  }

  /** As pages list them. */
  providers(): { readonly id: string; readonly display_name: string; readonly type: 'oidc' }[] {
    return this.#parts.options.providers.map(({ id, display_name }) => ({
      id,
      display_name: display_name ?? id,
      type: 'oidc'
    }))
  }

  has(id: string): boolean {
    return this.#providers.has(id)
  }

  /** A quarter of `recheck_s`: what is half as old is due, and a turn may be late. */
  get #stepS(): number {
    return Math.max(1, this.#parts.options.recheck_s / 4)
  }

  /** @throws Failure sso_unreachable */
  async begin(
    id: string,
    { redirectUri, next }: Pick<Journey, 'redirectUri' | 'next'>
  ): Promise<{ readonly url: string; readonly state: string; readonly sealed: string }> {
    const secret = () => randomBytes(32).toString('base64url')
    const journey: Journey = {
      provider: id,
      state: secret(),
      nonce: secret(),
      verifier: secret(),
      redirectUri,
      next
    }
    const url = await this.#provider(id).signInUrl(redirectUri, journey)
    return { url, state: journey.state, sealed: await this.#parts.seal.seal({ journey }, 'journey', JOURNEY_S) }
  }

  /** Where a browser wanted to go; null: it did not set out from here. */
  async journeyOf(id: string, sealed: string | undefined, state: string): Promise<Journey | null> {
    const opened = sealed === undefined ? null : await this.#parts.seal.open(sealed, 'journey')
    // Sealed by `begin`.
    const journey = (opened?.journey ?? null) as Journey | null
    return journey?.provider === id && journey.state === state ? journey : null
  }

  /**
   * The account of whoever comes back from a provider, made or linked if that is allowed.
   * @param search the query that the browser has brought
   * @throws Failure sso_not_allowed, sso_account_exists, account_disabled, sso_unreachable; any other error: the code is not accepted
   */
  async finish(journey: Journey, search: string, by: Actor): Promise<[User, (session: string) => Promise<void>]> {
    const provider = this.#provider(journey.provider)
    const address = new URL(journey.redirectUri)
    address.search = search
    const [identity, tokens] = await provider.exchange(address, journey)
    const user = await this.#admit(provider.options, identity, by)
    return [user, (session) => this.#attach(session, user, provider.options.id, identity, tokens)]
  }

  async #attach(
    session: string,
    user: User,
    provider: string,
    { subject, sid }: Identity,
    tokens: ProviderTokens
  ): Promise<void> {
    const now = Math.floor(Date.now() / 1000)
    const { seal, lifetimeS, writer } = this.#parts
    const attached = {
      digest: digestOf(session),
      user_id: user.id,
      provider,
      subject,
      sid,
      tokens: await seal.seal({ tokens }, 'tokens', lifetimeS),
      checked: tokens.refresh === null ? null : now,
      expires: now + lifetimeS
    }
    await writer.write({ name: 'session.attach', session: attached, now })
  }

  // ------------------------------------------------------------------------------------------- who may come in

  async #admit(options: ProviderOptions, identity: Identity, by: Actor): Promise<User> {
    checkAllowed(options, identity)
    const known = await this.#parts.users.byIdentity(options.id, identity.subject)
    const user = known ?? (await this.#linkOrCreate(options, identity, by))
    if (user.disabled_at !== null) throw fail('account_disabled')
    return this.#update(options, user, identity)
  }

  async #linkOrCreate(options: ProviderOptions, identity: Identity, by: Actor): Promise<User> {
    const read = readEmail(identity.email ?? '')
    // Whoever may name any address there would be anybody here.
    if ('problem' in read || !identity.isVerified) throw fail('sso_not_allowed')
    const holder = await findAccount(this.#parts.users, read.email)
    if (holder) return this.#link(options, holder, identity, by)
    if (!options.create_users) throw fail('sso_not_allowed')
    const user = newUser({ email: read.email, oauth_provider: options.id, oauth_id: identity.subject })
    if ((await this.#parts.writer.write({ name: 'user.create', user })) === 'email_taken')
      throw fail('sso_account_exists')
    const details = { role: user.system_role, provider: options.id }
    await this.#parts.audit.record('account_created', { ...by, actor: userName(user.id) }, userName(user.id), details)
    return user
  }

  /** An account that somebody else may have made under this address: its password, sessions and tokens end. */
  async #link(options: ProviderOptions, holder: User, identity: Identity, by: Actor): Promise<User> {
    const { id, system_role, oauth_provider, token_version, disabled_at } = holder
    if (disabled_at !== null) throw fail('account_disabled')
    if (!options.trusts_email || system_role !== 'user' || oauth_provider !== null) throw fail('sso_account_exists')
    const set = {
      oauth_provider: options.id,
      oauth_id: identity.subject,
      password_hash: null,
      token_version: token_version + 1
    }
    const linked = await this.#parts.writer.write({ name: 'user.update', id, set, ifVersion: token_version })
    if (linked === null || typeof linked === 'string') throw fail('sso_account_exists')
    await this.#parts.apiTokens.revokeAll(id)
    this.#parts.sessions.revokeUser(id)
    await this.#parts.audit.record('account_linked', { ...by, actor: userName(id) }, userName(id), {
      provider: options.id
    })
    return linked
  }

  /** Groups and role as the provider has them now. */
  async #update(options: ProviderOptions, user: User, { groups }: Identity): Promise<User> {
    const { writer, people, log } = this.#parts
    const isSame = JSON.stringify(user.groups ?? []) === JSON.stringify(groups)
    const changed = isSame ? user : await writer.write({ name: 'user.update', id: user.id, set: { groups } })
    if (changed === null || typeof changed === 'string') throw fail('user_not_found')
    const role = roleOf(options, groups)
    if (role === null || role === changed.system_role || changed.system_role === 'service') return changed
    try {
      return await people.setRole(user.id, role, SYSTEM)
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'last_admin') throw error
      log.warn({ user_id: user.id }, 'the last administrator keeps the role, whatever the provider says')
      return changed
    }
  }

  // --------------------------------------------------------------------------------------- when a session ends

  /** Where a browser ends its session at the provider too; null: it has none, or the provider has no such address. */
  async signOutUrl(session: string, returnTo: string): Promise<string | null> {
    if (this.#providers.size === 0) return null
    const attached = await this.#parts.users.providerSession(digestOf(session))
    const provider = attached && this.#providers.get(attached.provider)
    if (!attached || !provider) return null
    try {
      return await provider.signOutUrl(await this.#tokensOf(attached), returnTo)
    } catch (error) {
      this.#parts.log.warn({ err: error, provider: attached.provider }, 'a sign-out was not passed on to the provider')
      return null
    }
  }

  /** Ends what a provider's logout token names. @throws Failure logout_token_invalid, sso_unreachable */
  async backChannelLogout(id: string, token: string): Promise<void> {
    const named = await this.#provider(id)
      .readLogoutToken(token)
      .catch((error: unknown) => {
        throw error instanceof Failure ? error : fail('logout_token_invalid')
      })
    const sessions = await this.#parts.users.providerSessions(id, named.subject, named.sid)
    for (const session of sessions) await this.#end(session, 'logged_out')
  }

  async #checkAll(): Promise<void> {
    const { writer, options } = this.#parts
    const now = Math.floor(Date.now() / 1000)
    const before = Math.floor(now - options.recheck_s / 2)
    const due = await writer.write({ name: 'session.claimChecks', before, now, limit: CHECKS_MAX })
    for (let i = 0; i < due.length; i += CHECKS_AT_ONCE)
      await Promise.all(due.slice(i, i + CHECKS_AT_ONCE).map((session) => this.#check(session)))
    if (due.length === CHECKS_MAX) this.#poller.wakeIn(0)
  }

  /** Never rejects. What cannot be asked stands: a provider that is down signs nobody out. */
  async #check(session: ProviderSession): Promise<void> {
    const provider = this.#providers.get(session.provider)
    if (!provider) return
    try {
      const answer = await provider.refresh(await this.#tokensOf(session))
      if (answer === 'refused') return await this.#end(session, 'refused')
      const [identity, tokens] = answer
      const left = Math.max(1, session.expires - Math.floor(Date.now() / 1000))
      const sealed = await this.#parts.seal.seal({ tokens }, 'tokens', left)
      await this.#parts.writer.write({ name: 'session.setTokens', digest: session.digest, tokens: sealed })
      if (identity) await this.#recheck(provider.options, session, identity)
    } catch (error) {
      this.#parts.log.warn({ err: error, provider: session.provider }, 'a session could not be checked at its provider')
    }
  }

  async #recheck(options: ProviderOptions, session: ProviderSession, identity: Identity): Promise<void> {
    const user = await this.#parts.users.byId(session.user_id)
    if (!user) return
    try {
      checkAllowed(options, identity)
    } catch {
      return this.#end(session, 'not_allowed')
    }
    await this.#update(options, user, identity)
  }

  async #end({ digest, expires, user_id, provider }: ProviderSession, reason: string): Promise<void> {
    await this.#parts.sessions.end(digest, expires)
    await this.#parts.audit.record('sessions_ended', SYSTEM, userName(user_id), { sessions: 1, provider, reason })
  }

  async #tokensOf({ tokens }: ProviderSession): Promise<ProviderTokens> {
    const opened = await this.#parts.seal.open(tokens, 'tokens')
    // Sealed by `#attach` and `#check`; not to be opened when auth.jwt_secret was changed.
    return (opened?.tokens ?? { refresh: '', id: null }) as ProviderTokens
  }

  /** @throws Failure oauth_unsupported */
  #provider(id: string): OidcProvider {
    return this.#providers.get(id) ?? fail('oauth_unsupported', { provider: id })
  }
}

/** @throws Failure sso_not_allowed */
function checkAllowed({ allowed_domains, allowed_groups }: ProviderOptions, { email, groups, isVerified }: Identity) {
  const domain = email?.slice(email.lastIndexOf('@') + 1).toLowerCase() ?? ''
  const isDomain =
    allowed_domains.length === 0 || (isVerified && allowed_domains.some((one) => one.toLowerCase() === domain))
  const isGroup = allowed_groups.length === 0 || groups.some((one) => allowed_groups.includes(one))
  if (!isDomain || !isGroup) throw fail('sso_not_allowed')
}

/** null: groups give no roles here, and the service's own hold. */
function roleOf({ groups: rules }: ProviderOptions, groups: readonly string[]): SystemRole | null {
  if (rules.every(({ role }) => role === null)) return null
  const roles = rules.filter(({ name }) => groups.includes(name)).map(({ role }) => role)
  return (['admin', 'auditor'] as const).find((role) => roles.includes(role)) ?? 'user'
}
