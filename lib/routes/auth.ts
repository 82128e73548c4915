// Signing in and out, accounts, first set-up. The server sets a new csrf_token on every response of a CSRF-exempt route, also
// on errors, so handlers simply throw [contract 1.4].
import * as v from 'valibot'
import { actorOf, userName } from '../auth/audit.ts'
import { hashPassword, needsRehash } from '../auth/password.ts'
import { findAccount } from '../auth/email.ts'
import { newUser } from '../auth/people.ts'
import type { User } from '../base/accounts.ts'
import { Failure, fail } from '../base/errors.ts'
import { isObject } from '../base/types.ts'
import { type Call, type Cookie, type Reply, type Route, route } from '../http/route.ts'
import { baseUrlOf } from '../http/base-path.ts'
import { csrfCookie } from '../http/entry.ts'
import { Allowance, Cooldown } from '../http/admission.ts'
import { objectOf, queryBoolean } from '../http/schema.ts'
import { int, message, one, oneOf, ref, shaped, text, yesNo } from './answers.ts'
import { openSession, sessionCookie } from './open-session.ts'
import { newEmail, ownAccountRoutes, userView } from './own-account.ts'
import { newPassword, Passwords, unlessBusy } from './passwords.ts'
import type { AuthServices } from './services.ts'

/** A boolean in JSON or in a form. */
const remember_me = v.optional(v.union([v.boolean(), queryBoolean]), true)

const account = { email: newEmail, password: newPassword, remember_me }
const accountBody = objectOf(account)
const registerBody = objectOf({ ...account, invitation: v.nullish(v.string(), null) })
const initializeBody = objectOf({ ...account, setup_token: v.nullish(v.string(), null) })
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

type AccountCall = Call<v.InferOutput<typeof accountBody>>
type InitializeCall = Call<v.InferOutput<typeof initializeBody>>
type RegisterCall = Call<v.InferOutput<typeof registerBody>>

// ------------------------------------------------------------------------------------------------- handlers

export function authRoutes(services: AuthServices): Route[] {
  const { config, users, writer, sessions, tokens, invitations, people, audit } = services
  const { registration } = config.auth
  const passwords = new Passwords(services)
  const registrations = new Allowance()
  const cooldown = new Cooldown()
  const mailsFrom = new Allowance({ atOnce: 20, refillMs: 30_000 })
  const mailsTo = new Allowance({ atOnce: 3, refillMs: 600_000 })

  const signIn = async (call: Call, user: User, remember: boolean): Promise<readonly Cookie[]> =>
    (await openSession(services, call, user, remember)).cookies

  const login = async (call: Call<v.InferOutput<typeof loginBody>>): Promise<Reply> => {
    const { username, password, remember_me } = call.body
    passwords.refuseLocked(call)
    const user = await findAccount(users, username)
    const hash = user?.password_hash ?? null
    const isRight = await passwords.isRight(call, password, hash)
    if (user === null || hash === null || !isRight) {
      // Of an address without an account nothing is kept: it may be a password in the wrong field.
      await audit.record('sign_in_failed', actorOf(call), user && userName(user.id))
      throw fail('invalid_credentials')
    }
    if (user.disabled_at !== null) {
      await audit.record('sign_in_failed', actorOf(call), userName(user.id), { reason: 'account_disabled' })
      throw fail('account_disabled')
    }
    if (needsRehash(hash)) await passwords.rehash(user, password)
    await audit.record('sign_in', { ...actorOf(call), actor: userName(user.id) })
    return {
      json: { expires_in: tokens.lifetimeS, needs_setup: user.needs_setup },
      cookies: await signIn(call, user, remember_me)
    }
  }

  const countedLogin: typeof login = async (call) => {
    try {
      passwords.refuseLocal()
      return await login(call)
    } catch (error) {
      if (error instanceof Failure) services.onLoginRefused?.(error.code)
      throw error
    }
  }

  const made = async (
    { body, address }: AccountCall,
    system_role: User['system_role'],
    lastCheck?: () => void
  ): Promise<User> => {
    const password_hash = await unlessBusy(hashPassword(body.password, { address, ...(lastCheck && { lastCheck }) }))
    return newUser({ email: body.email, password_hash, system_role })
  }

  const welcome = async (call: AccountCall, user: User): Promise<Reply> => {
    const by = { ...actorOf(call), actor: userName(user.id) }
    await audit.record('account_created', by, userName(user.id), { role: user.system_role })
    return { status: 201, json: userView(user), cookies: await signIn(call, user, call.body.remember_me) }
  }

  // Cheap checks come before the hash; between racing calls the write decides.
  const register = async (call: RegisterCall): Promise<Reply> => {
    passwords.refuseLocal()
    if (registration === 'closed') throw fail('registration_disabled')
    const seconds = registrations.ask(call.address)
    if (seconds > 0) throw fail('too_many_registrations', null, { 'Retry-After': String(seconds) })
    const invitation = registration === 'invite' ? await invitations.find(call.body.invitation) : null
    if (await findAccount(users, call.body.email)) throw fail('email_already_exists')
    const user = await made(call, 'user')
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
    passwords.refuseLocal()
    hasAdmin = (await users.admin()) !== null
    refuseLate()
    await services.setupLink?.check(call.body.setup_token)
    // Of many racing requests, those whose hashing turn comes after the winner are not hashed at all.
    const user = await made(call, 'admin', refuseLate)
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

  const resetPassword = async (call: Call<v.InferOutput<typeof resetBody>>): Promise<Reply> => {
    passwords.refuseLocal()
    passwords.refuseLocked(call)
    const { token, new_password } = call.body
    await unlessBusy(people.usePasswordLink(token, new_password, actorOf(call))).catch((error: unknown) => {
      passwords.guessed(call, error)
      throw error
    })
    return { json: { message: 'Password changed successfully' } }
  }

  const forgotPassword = async (call: Call<v.InferOutput<typeof forgotBody>>): Promise<Reply> => {
    passwords.refuseLocal()
    if (config.mail.url === null) throw fail('password_mail_off')
    const { email } = call.body
    const seconds = mailsFrom.ask(call.address) || mailsTo.ask(email)
    if (seconds > 0) throw fail('too_many_password_mails', null, { 'Retry-After': String(seconds) })
    const language = /^de\b/i.test(String(call.req.headers['accept-language'])) ? 'de' : 'en'
    await people.requestPasswordMail(email, { address: call.address, request_id: call.requestId, language })
    return { status: 202, json: { message: 'If this address has an account with a password, a mail is on its way' } }
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
    ...ownAccountRoutes(services, passwords),
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
