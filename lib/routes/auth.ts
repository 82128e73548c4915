// Signing in and out, accounts, first set-up. The server sets a new csrf_token on every response of a CSRF-exempt route, also
// on errors, so handlers simply throw [contract 1.4].
import type { WebPush } from '../jobs/web-push.ts'
import type { Readable } from 'node:stream'
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import type { ApiTokens, Invitations } from '../auth/api-tokens.ts'
import { actorOf, type Audit, userName } from '../auth/audit.ts'
import {
  HashingBusy,
  hashPassword,
  isCommon,
  needsRehash,
  PASSWORD_BYTES_MAX,
  verifyPassword
} from '../auth/password.ts'
import { findAccount, readEmail } from '../auth/email.ts'
import type { ThreadLinks } from '../auth/thread-links.ts'
import type { Holds } from '../auth/holds.ts'
import type { People } from '../auth/people.ts'
import type { Sessions, Tokens } from '../auth/session.ts'
import type { SingleSignOn } from '../auth/single-sign-on.ts'
import type { SetupLink } from '../auth/setup-link.ts'
import type { Config } from '../config/config.ts'
import { Failure, fail } from '../base/errors.ts'
import { KeyedMutex } from '../base/keyed-mutex.ts'
import { type Call, type Cookie, HANDLED, type Reply, requireUser, type Route, route } from '../http/route.ts'
import { sendDownload } from '../http/streaming-response.ts'
import { baseUrlOf } from '../http/base-path.ts'
import { csrfCookie } from '../http/entry.ts'
import { openSession, sessionCookie } from './open-session.ts'
import { Allowance, Cooldown, LoginLimiter } from '../http/admission.ts'
import { describedAs, minCharacters, objectOf, queryBoolean } from '../http/schema.ts'
import type { UserReads, Writer } from '../store/store.ts'
import type { UserLimits } from '../thread/user-limits.ts'
import { isObject, type JsonObject, timestamp, type User } from '../base/types.ts'
import { file, int, int64, message, one, oneOf, ref, shaped, success, text, yesNo } from './answers.ts'

export interface AuthServices {
  readonly config: Config
  readonly users: UserReads
  readonly writer: Writer
  readonly sessions: Sessions
  readonly tokens: Tokens
  readonly apiTokens: ApiTokens
  readonly invitations: Invitations
  readonly threadLinks: ThreadLinks
  readonly webPush: WebPush
  readonly limits: Pick<UserLimits, 'view' | 'quotaView'>
  /** All that is kept of somebody, as a ZIP archive. */
  readonly exportOf: (user: User) => Promise<Readable>
  readonly people: People
  readonly holds: Holds
  readonly audit: Audit
  /** null: there are no providers of sign-ins. */
  readonly sso?: SingleSignOn | null
  /** Needed for making the first administrator; null: whoever comes first is it [Auth 11]. */
  readonly setupLink?: SetupLink | null
  readonly log: { warn(fields: object, text: string): void }
  /** Called with the code of every refused sign-in. */
  readonly onLoginRefused?: (code: string) => void
  /** The key a request counts against in the cooldown of setup-status; null: none. */
  allowanceOf(call: Call): string | null
}

// -------------------------------------------------------------------------------------------------- bodies

const PASSWORD_MIN = 8

/** A new password: length first, then the blocklist [Auth 8]. */
export const newPassword = v.pipe(
  v.string(),
  v.maxBytes(PASSWORD_BYTES_MAX, `Value error, Password is too long; use at most ${PASSWORD_BYTES_MAX} bytes.`),
  minCharacters(PASSWORD_MIN),
  v.check((password) => !isCommon(password), 'Value error, Password is too common; choose a stronger password.'),
  describedAs<string>({ minLength: PASSWORD_MIN, maxLength: PASSWORD_BYTES_MAX, format: 'password' })
)

/** The normalised email address of a new account. */
export const newEmail = v.pipe(
  v.string(),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return
    const read = readEmail(dataset.value)
    if ('problem' in read) addIssue({ message: `value is not a valid email address: ${read.problem}` })
  }),
  v.transform((text) => {
    const read = readEmail(text)
    return 'email' in read ? read.email : text
  }),
  describedAs<string>({ format: 'email' })
)

/** A boolean in JSON or in a form. */
const remember_me = v.optional(v.union([v.boolean(), queryBoolean]), true)

const account = { email: newEmail, password: newPassword, remember_me }
const accountBody = objectOf(account)
const registerBody = objectOf({ ...account, invitation: v.nullish(v.string(), null) })
const initializeBody = objectOf({ ...account, setup_token: v.nullish(v.string(), null) })
const changeBody = objectOf({
  current_password: v.string(),
  new_password: newPassword,
  new_email: v.nullish(newEmail),
  // API tokens survive a password change, unless this says that they may be compromised too.
  revoke_tokens: v.optional(v.boolean(), false)
})
/** An OAuth2 password form, or the same as JSON, where `username` may be called `email`. */
const loginBody = v.pipe(
  v.unknown(),
  v.transform((body) =>
    isObject(body) && !('username' in body) && 'email' in body ? { ...body, username: body.email } : body
  ),
  objectOf({ username: v.string(), password: v.string(), remember_me })
)

const resetBody = objectOf({ token: v.string(), new_password: newPassword })
const forgotBody = objectOf({ email: newEmail })
const removeBody = objectOf({ current_password: v.optional(v.string(), '') })

type AccountCall = Call<v.InferOutput<typeof accountBody>>
type UserChange = Partial<Pick<User, 'password_hash' | 'email' | 'needs_setup'>>
type InitializeCall = Call<v.InferOutput<typeof initializeBody>>
type RegisterCall = Call<v.InferOutput<typeof registerBody>>

function userView({ id, email, system_role, needs_setup, oauth_provider }: User): JsonObject {
  // DeerFlow's page knows no other roles.
  return { id, email, system_role: system_role === 'admin' ? 'admin' : 'user', needs_setup, oauth_provider }
}

// ------------------------------------------------------------------------------------------------- handlers

export function authRoutes(services: AuthServices): Route[] {
  const { config, users, writer, sessions, tokens, apiTokens, invitations, people, audit, log } = services
  const { registration } = config.auth
  const limiter = new LoginLimiter()
  const registrations = new Allowance()
  const cooldown = new Cooldown()
  const mailsFrom = new Allowance({ atOnce: 20, refillMs: 30_000 })
  const mailsTo = new Allowance({ atOnce: 3, refillMs: 600_000 })
  /** Serialises changes per account. */
  const inOrder = new KeyedMutex({ all: Number.POSITIVE_INFINITY, each: 1 })

  const signIn = async (call: Call, user: User, remember: boolean): Promise<readonly Cookie[]> =>
    (await openSession(services, call, user, remember)).cookies

  /** [contract 1.1] has no word for it: who signs in at a provider has no use for these routes. */
  const refuseLocal = (): void => {
    if (!config.auth.local) throw fail('local_sign_in_off')
  }

  const refuseLocked = (call: Call): void => {
    const seconds = limiter.lockedFor(call.address)
    if (seconds > 0) throw fail('too_many_logins', null, { 'Retry-After': String(seconds) })
  }

  /**
   * Whether this is the user's password. A locked-out address is refused at once; the lock is checked again when the
   * hashing turn comes, and when it is over, so that parallel attempts count one by one.
   */
  const checkPassword = async (call: Call, password: string, hash: string | null): Promise<boolean> => {
    refuseLocked(call)
    const turn = { address: call.address, lastCheck: () => refuseLocked(call) }
    const isRight = await unlessBusy(verifyPassword(password, hash, turn))
    refuseLocked(call)
    if (isRight) limiter.succeeded(call.address)
    else limiter.failed(call.address)
    if (!isRight && limiter.lockedFor(call.address) > 0) await audit.record('lockout', actorOf(call))
    return isRight
  }

  /** Upgrades an old hash after a sign-in. Failure is harmless. */
  const rehash = async (user: User, password: string): Promise<void> => {
    try {
      const password_hash = await hashPassword(password)
      await inOrder.run(user.id, async () => {
        // The password may have been changed meanwhile, and the old one must not come back.
        const now = await users.byId(user.id)
        if (now?.password_hash !== user.password_hash) return
        await writer.write({ name: 'user.update', id: user.id, set: { password_hash } })
      })
    } catch (error) {
      log.warn({ err: error, user_id: user.id }, 'an old password hash could not be renewed')
    }
  }

  const login = async (call: Call<v.InferOutput<typeof loginBody>>): Promise<Reply> => {
    const { username, password, remember_me } = call.body
    refuseLocked(call)
    const user = await findAccount(users, username)
    const hash = user?.password_hash ?? null
    const isRight = await checkPassword(call, password, hash)
    if (user === null || hash === null || !isRight) {
      // Of an address without an account nothing is kept: it may be a password in the wrong field.
      await audit.record('sign_in_failed', actorOf(call), user && userName(user.id))
      throw fail('invalid_credentials')
    }
    if (user.disabled_at !== null) {
      await audit.record('sign_in_failed', actorOf(call), userName(user.id), { reason: 'account_disabled' })
      throw fail('account_disabled')
    }
    if (needsRehash(hash)) await rehash(user, password)
    await audit.record('sign_in', { ...actorOf(call), actor: userName(user.id) })
    return {
      json: { expires_in: tokens.lifetimeS, needs_setup: user.needs_setup },
      cookies: await signIn(call, user, remember_me)
    }
  }

  const countedLogin: typeof login = async (call) => {
    try {
      refuseLocal()
      return await login(call)
    } catch (error) {
      if (error instanceof Failure) services.onLoginRefused?.(error.code)
      throw error
    }
  }

  const newUser = async (
    { body, address }: AccountCall,
    system_role: User['system_role'],
    lastCheck?: () => void
  ): Promise<User> => ({
    id: randomUUID(),
    email: body.email,
    password_hash: await unlessBusy(hashPassword(body.password, { address, ...(lastCheck && { lastCheck }) })),
    system_role,
    created_at: timestamp(),
    oauth_provider: null,
    oauth_id: null,
    needs_setup: false,
    token_version: 0,
    disabled_at: null
  })

  const welcome = async (call: AccountCall, user: User): Promise<Reply> => {
    const by = { ...actorOf(call), actor: userName(user.id) }
    await audit.record('account_created', by, userName(user.id), { role: user.system_role })
    return { status: 201, json: userView(user), cookies: await signIn(call, user, call.body.remember_me) }
  }

  // Cheap checks come before the hash; between racing calls the write decides.
  const register = async (call: RegisterCall): Promise<Reply> => {
    refuseLocal()
    if (registration === 'closed') throw fail('registration_disabled')
    const seconds = registrations.ask(call.address)
    if (seconds > 0) throw fail('too_many_registrations', null, { 'Retry-After': String(seconds) })
    const invitation = registration === 'invite' ? await invitations.find(call.body.invitation) : null
    if (await findAccount(users, call.body.email)) throw fail('email_already_exists')
    const user = await newUser(call, 'user')
    if (invitation) await invitations.use(invitation)
    if ((await writer.write({ name: 'user.create', user })) === 'email_taken') throw fail('email_already_exists')
    return welcome(call, user)
  }

  /** As of the last check; there is always one afterwards. */
  let hasAdmin = false
  const refuseLate = (): void => {
    if (hasAdmin) throw fail('system_already_initialized')
  }

  const initialize = async (call: InitializeCall): Promise<Reply> => {
    refuseLocal()
    hasAdmin = (await users.admin()) !== null
    refuseLate()
    await services.setupLink?.check(call.body.setup_token)
    // Of many racing requests, those whose hashing turn comes after the winner are not hashed at all.
    const user = await newUser(call, 'admin', refuseLate)
    const outcome = await writer.write({ name: 'user.initialize', user })
    hasAdmin ||= outcome !== 'email_taken'
    if (outcome === 'initialized') throw fail('system_already_initialized')
    if (outcome === 'email_taken') throw fail('email_already_exists')
    await services.setupLink?.remove()
    return welcome(call, user)
  }

  const logout = async (call: Call): Promise<Reply> => {
    const home = `${baseUrlOf(call, config.server.public_url)}/`
    const logout_url = call.credential === null ? null : await (services.sso?.signOutUrl(call.credential, home) ?? null)
    const userId = call.credential === null ? null : await sessions.logout(call.credential)
    if (userId !== null) await audit.record('sign_out', { ...actorOf(call), actor: userName(userId) })
    const gone = [sessionCookie(call, ''), { ...csrfCookie(call.secure), value: '' }]
    return {
      json: { message: 'Successfully logged out', ...(logout_url !== null && { logout_url }) },
      cookies: gone.map((cookie) => ({ ...cookie, maxAge: 0 }))
    }
  }

  /** Whether this session was created with `remember_me`. */
  const isRemembered = async ({ credential }: Call): Promise<boolean> => {
    const found = await tokens.read(credential ?? '')
    return 'claims' in found && found.claims.remember
  }

  /** Applies `change` and raises token_version, which ends the user's sessions. */
  const newVersion = async (id: string, change: (now: User) => UserChange): Promise<User> => {
    const updated = await inOrder.run(id, async () => {
      const now = await users.byId(id)
      const set = now && { ...change(now), token_version: now.token_version + 1 }
      return set && writer.write({ name: 'user.update', id, set })
    })
    if (updated === null) throw fail('user_not_found') // [User 4]
    if (updated === 'email_taken') throw fail('email_in_use')
    sessions.revokeUser(id)
    return updated
  }

  const exportAccount = async (call: Call): Promise<typeof HANDLED> => {
    const user = requireUser(call)
    await audit.record('account_exported', actorOf(call), userName(user.id))
    await sendDownload(call, await services.exportOf(user), { name: 'colloquy-export.zip', type: 'application/zip' })
    return HANDLED
  }

  const changePassword = async (call: Call<v.InferOutput<typeof changeBody>>): Promise<Reply> => {
    const user = requireUser(call)
    refuseLocal()
    const { current_password, new_password, new_email, revoke_tokens } = call.body
    if (user.password_hash === null) throw fail('password_not_used')
    if (!(await checkPassword(call, current_password, user.password_hash))) throw fail('current_password_wrong')
    const password_hash = await unlessBusy(hashPassword(new_password, { address: call.address }))
    const email = new_email == null ? {} : { email: new_email, needs_setup: false }
    const updated = await newVersion(user.id, (now) => {
      // Of two concurrent changes the second was authorised by an outdated password.
      if (now.token_version !== user.token_version) throw fail('token_revoked')
      return { password_hash, ...email }
    })
    await people.endPasswordLinks(user.id)
    await audit.record('password', actorOf(call), userName(user.id), { how: 'changed' })
    if (new_email != null && updated.email !== user.email) await audit.record('email', actorOf(call), userName(user.id))
    const revoked = revoke_tokens ? await apiTokens.revokeAll(user.id) : 0
    const active = (await apiTokens.list(user.id)).length
    return {
      json: { message: 'Password changed successfully', tokens_revoked: revoked, tokens_standing: active },
      cookies: await signIn(call, updated, await isRemembered(call))
    }
  }

  /** Ends all sessions but the caller's. */
  const endSessions = async (call: Call): Promise<Reply> => {
    const { id } = requireUser(call)
    const updated = await newVersion(id, () => ({}))
    await audit.record('sessions_ended', actorOf(call), userName(id))
    return {
      json: { message: 'All other sessions have ended' },
      cookies: await signIn(call, updated, await isRemembered(call))
    }
  }

  const resetPassword = async (call: Call<v.InferOutput<typeof resetBody>>): Promise<Reply> => {
    refuseLocal()
    refuseLocked(call)
    const { token, new_password } = call.body
    await unlessBusy(people.usePasswordLink(token, new_password, actorOf(call))).catch((error: unknown) => {
      // Guessing is counted; a machine that is busy is nobody's guess.
      if (error instanceof Failure && error.status < 429) limiter.failed(call.address)
      throw error
    })
    return { json: { message: 'Password changed successfully' } }
  }

  const forgotPassword = async (call: Call<v.InferOutput<typeof forgotBody>>): Promise<Reply> => {
    refuseLocal()
    if (config.mail.url === null) throw fail('password_mail_off')
    const { email } = call.body
    const seconds = mailsFrom.ask(call.address) || mailsTo.ask(email)
    if (seconds > 0) throw fail('too_many_password_mails', null, { 'Retry-After': String(seconds) })
    const language = /^de\b/i.test(String(call.req.headers['accept-language'])) ? 'de' : 'en'
    await people.requestPasswordMail(email, { address: call.address, request_id: call.requestId, language })
    return { status: 202, json: { message: 'If this address has an account with a password, a mail is on its way' } }
  }

  /** Whoever has a password says it once more: a page left open must not be enough. */
  const removeOwn = async (call: Call<v.InferOutput<typeof removeBody>>): Promise<Reply> => {
    const { id, password_hash } = requireUser(call)
    const { current_password: password } = call.body
    if (password_hash !== null && !(await checkPassword(call, password, password_hash)))
      throw fail('current_password_wrong')
    await people.remove(id, actorOf(call))
    return { json: { success: true } }
  }

  const setupStatus = async (call: Call): Promise<Reply> => {
    const asker = services.allowanceOf(call)
    const wait = asker === null ? 0 : cooldown.ask(asker)
    if (wait > 0) throw fail('setup_status_cooldown', null, { 'Retry-After': String(wait) })
    const { local } = config.auth
    const needs_setup = local && (await users.admin()) === null
    const registration_enabled = local && registration === 'open'
    const password_mail = local && config.mail.url !== null
    return { json: { needs_setup, registration_enabled, registration, local, password_mail } }
  }

  const at = (path: string) => `/api/v1/auth${path}`
  const entry = { method: 'POST', access: 'public', csrf: 'exempt', rule: null } as const
  // Where a browser ends the session of its provider too.
  const signedOut = one(shaped({ message: text }, { logout_url: text }))
  const counted = shaped({ used: int64, max: { type: ['integer', 'null'] } })
  const open = { method: 'GET', access: 'public', rule: null } as const
  return [
    route({
      ...entry,
      path: at('/login/local'),
      body: loginBody,
      form: true,
      reads: { headers: { 'User-Agent': 'What the browser calls itself; its user sees it among the sessions' } },
      summary: 'Sign in; sets the session cookies',
      answers: {
        200: {
          schema: shaped({ expires_in: int, needs_setup: yesNo }),
          headers: { 'Set-Cookie': 'access_token, csrf_token' }
        }
      },
      refusals: [401],
      handler: countedLogin
    }),
    route({
      ...entry,
      path: at('/register'),
      body: registerBody,
      summary: 'Create an account and sign in',
      answers: one(ref('User'), 201),
      handler: register
    }),
    route({
      ...entry,
      path: at('/initialize'),
      body: initializeBody,
      summary: 'Create the first administrator and sign in',
      answers: one(ref('User'), 201),
      refusals: [409],
      handler: initialize
    }),
    route({ ...entry, path: at('/logout'), summary: 'Sign out', answers: signedOut, handler: logout }),
    route({
      method: 'POST',
      path: at('/sessions/end'),
      rule: null,
      summary: 'End all other sessions of the caller, on any device',
      answers: message,
      handler: endSessions
    }),
    route({
      method: 'POST',
      path: at('/change-password'),
      body: changeBody,
      rule: null,
      summary: 'Change the password and end all other sessions',
      answers: one(shaped({ message: text, tokens_revoked: int, tokens_standing: int })),
      handler: changePassword
    }),
    route({
      method: 'GET',
      path: at('/me'),
      permission: 'any',
      rule: null,
      summary: 'The signed-in user',
      answers: one(ref('User')),
      handler: async (call) => {
        const user = requireUser(call)
        return { json: { ...userView(user), quotas: await services.limits.quotaView(user) } }
      }
    }),
    route({
      method: 'GET',
      path: at('/limits'),
      permission: 'any',
      rule: null,
      summary: 'What is stored of the caller, and how much may be; `max` null: no limit',
      answers: one(shaped({ threads: counted, bytes: counted, crons: counted, webhooks: counted })),
      handler: async (call) => ({ json: await services.limits.view(requireUser(call).id) })
    }),
    route({
      method: 'GET',
      path: at('/export'),
      rule: null,
      summary: 'Everything that is kept of the caller, as a ZIP archive: conversations as JSON and Markdown, and files',
      answers: file('application/zip'),
      handler: exportAccount
    }),
    route({
      method: 'DELETE',
      path: at('/me'),
      body: removeBody,
      bodyOptional: true,
      summary: 'Delete the caller’s account and everything that belongs to it',
      answers: success,
      refusals: [409],
      rule: null,
      handler: removeOwn
    }),
    route({
      ...entry,
      path: at('/reset-password'),
      body: resetBody,
      summary: 'Set a password by a link that an administrator has made, or that was mailed',
      answers: message,
      handler: resetPassword
    }),
    route({
      ...entry,
      path: at('/forgot-password'),
      body: forgotBody,
      reads: { headers: { 'Accept-Language': 'The language of the mail: German, or else English' } },
      summary:
        'Mail a link that sets a password, once; the answer is the same whether the address has an account or not',
      answers: one(shaped({ message: text }), 202),
      refusals: [429],
      handler: forgotPassword
    }),
    route({
      ...open,
      path: at('/setup-status'),
      summary: 'Whether there is an administrator yet; limited to one request per minute and address',
      answers: one(
        shaped({
          needs_setup: yesNo,
          registration_enabled: yesNo,
          registration: oneOf('open', 'invite', 'closed'),
          local: yesNo,
          password_mail: yesNo
        })
      ),
      refusals: [429],
      handler: setupStatus
    })
  ]
}

// -------------------------------------------------------------------------------------------------- helpers

/** Maps an overloaded hasher to 429. */
function unlessBusy<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    throw error instanceof HashingBusy ? fail('too_many_logins', null, { 'Retry-After': '5' }) : error
  })
}
