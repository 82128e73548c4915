// Signing in and out, accounts, first set-up.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { isCommon } from '../auth/blocklist.ts'
import { readEmail } from '../auth/email.ts'
import {
  HashingBusy,
  hashPassword,
  needsRehash,
  PASSWORD_BYTES_MAX,
  verifyNothing,
  verifyPassword
} from '../auth/password.ts'
import type { Sessions } from '../auth/session.ts'
import type { Tokens } from '../auth/token.ts'
import type { Config } from '../config.ts'
import { fail, Invalid } from '../errors.ts'
import type { Call, Cookie, Reply } from '../http/call.ts'
import { CSRF_COOKIE, csrfCookie, requireUser, SESSION_COOKIE } from '../http/guards.ts'
import { Cooldown, LoginLimiter } from '../http/limiter.ts'
import { type Route, route } from '../http/route.ts'
import { issue, objectOf } from '../http/schema.ts'
import type { UserReads, Writer } from '../store/store.ts'
import { type JsonObject, timestamp, type User } from '../types.ts'

export interface AuthServices {
  readonly config: Config
  readonly users: UserReads
  readonly writer: Writer
  readonly sessions: Sessions
  readonly tokens: Tokens
  readonly log: { warn(fields: object, text: string): void }
  /** Whether a request counts for the cooldown of setup-status: not when it comes from the front end's own server. */
  countable(call: Call): boolean
}

const PASSWORD_MIN = 8

const loginBody = objectOf({
  username: v.optional(v.string()),
  email: v.optional(v.string()),
  password: v.string()
})
const accountBody = objectOf({ email: v.string(), password: v.string() })
const changeBody = objectOf({
  current_password: v.string(),
  new_password: v.string(),
  new_email: v.nullish(v.string())
})

/** Length first, then the blocklist [Auth 8]. The password itself is never repeated in the answer. */
function checkedPassword(password: string, field: string): string {
  const loc = ['body', field]
  if (password.length < PASSWORD_MIN) throw new Invalid([issue('string_too_short', loc, { min_length: PASSWORD_MIN })])
  if (Buffer.byteLength(password) > PASSWORD_BYTES_MAX)
    throw new Invalid([issue('string_too_long', loc, { max_length: PASSWORD_BYTES_MAX })])
  if (isCommon(password))
    throw new Invalid([
      { ...issue('value_error', loc), msg: 'Value error, Password is too common; choose a stronger password.' }
    ])
  return password
}

function checkedEmail(text: string, field: string): string {
  const read = readEmail(text)
  if ('email' in read) return read.email
  throw new Invalid([
    { ...issue('value_error', ['body', field]), msg: `value is not a valid email address: ${read.problem}` }
  ])
}

function userView({ id, email, system_role, needs_setup, oauth_provider }: User): JsonObject {
  return { id, email, system_role, needs_setup, oauth_provider }
}

export function authRoutes(services: AuthServices): Route[] {
  const { config, users, writer, sessions, tokens, log } = services
  const limiter = new LoginLimiter()
  const cooldown = new Cooldown()

  const sessionCookie = (call: Call, value: string, maxAge?: number): Cookie => ({
    name: SESSION_COOKIE,
    value,
    httpOnly: true,
    sameSite: 'Lax',
    secure: call.secure,
    ...(maxAge !== undefined && { maxAge })
  })

  const signIn = async (call: Call, user: User): Promise<Cookie> =>
    sessionCookie(call, await tokens.issue(user), tokens.lifetimeS)

  const hashed = async (password: string): Promise<string> => {
    try {
      return await hashPassword(password)
    } catch (error) {
      if (error instanceof HashingBusy) throw fail('too_many_logins')
      throw error
    }
  }

  const matches = async (password: string, hash: string | null): Promise<boolean> => {
    if (Buffer.byteLength(password) > PASSWORD_BYTES_MAX) return false
    try {
      return hash === null ? await verifyNothing(password) : await verifyPassword(password, hash)
    } catch (error) {
      if (error instanceof HashingBusy) throw fail('too_many_logins')
      throw error
    }
  }

  /** After a sign-in with an old hash the password is known: it is hashed in the current form. Its failure harms nobody. */
  const rehash = async (user: User, password: string): Promise<void> => {
    try {
      await writer.write({ name: 'user.update', id: user.id, set: { password_hash: await hashPassword(password) } })
    } catch (error) {
      log.warn({ err: error, user_id: user.id }, 'an old password hash could not be renewed')
    }
  }

  const login = async (call: Call<v.InferOutput<typeof loginBody>>): Promise<Reply> => {
    if (limiter.isLocked(call.address)) throw fail('too_many_logins')
    const name = call.body.username ?? call.body.email
    if (name === undefined) throw new Invalid([issue('missing', ['body', 'username'])])
    const user = await users.byEmail(name.trim().toLowerCase())
    if (!(await matches(call.body.password, user?.password_hash ?? null)) || !user?.password_hash) {
      limiter.failed(call.address)
      throw fail('invalid_credentials')
    }
    limiter.succeeded(call.address)
    if (needsRehash(user.password_hash)) await rehash(user, call.body.password)
    return {
      json: { expires_in: tokens.lifetimeS, needs_setup: user.needs_setup },
      cookies: [await signIn(call, user)]
    }
  }

  const newUser = async (body: v.InferOutput<typeof accountBody>, system_role: User['system_role']): Promise<User> => {
    const email = checkedEmail(body.email, 'email')
    const password_hash = await hashed(checkedPassword(body.password, 'password'))
    const oauth = { oauth_provider: null, oauth_id: null }
    return {
      id: randomUUID(),
      email,
      password_hash,
      system_role,
      created_at: timestamp(),
      ...oauth,
      needs_setup: false,
      token_version: 0
    }
  }

  const register = async (call: Call<v.InferOutput<typeof accountBody>>): Promise<Reply> => {
    if (!config.auth.allow_registration) throw fail('registration_disabled')
    const user = await newUser(call.body, 'user')
    if ((await writer.write({ name: 'user.create', user })) === 'email_taken') throw fail('email_already_exists')
    return { status: 201, json: userView(user), cookies: [await signIn(call, user)] }
  }

  const initialize = async (call: Call<v.InferOutput<typeof accountBody>>): Promise<Reply> => {
    if (await users.admin()) throw fail('system_already_initialized')
    const user = await newUser(call.body, 'admin')
    const outcome = await writer.write({ name: 'user.initialize', user })
    if (outcome === 'initialized') throw fail('system_already_initialized')
    if (outcome === 'email_taken') throw fail('email_already_exists')
    return { status: 201, json: userView(user), cookies: [await signIn(call, user)] }
  }

  const logout = async (call: Call): Promise<Reply> => {
    if (call.credential !== null) await sessions.logout(call.credential)
    const gone = { ...csrfCookie(call.secure), name: CSRF_COOKIE, value: '', maxAge: 0 }
    return { json: { message: 'Successfully logged out' }, cookies: [sessionCookie(call, '', 0), gone] }
  }

  const changePassword = async (call: Call<v.InferOutput<typeof changeBody>>): Promise<Reply> => {
    const user = requireUser(call)
    if (user.password_hash === null) throw fail('password_not_used')
    if (!(await matches(call.body.current_password, user.password_hash))) throw fail('current_password_wrong')
    const password_hash = await hashed(checkedPassword(call.body.new_password, 'new_password'))
    const email = call.body.new_email == null ? null : checkedEmail(call.body.new_email, 'new_email')
    const set = {
      password_hash,
      token_version: user.token_version + 1,
      ...(email !== null && { email, needs_setup: false })
    }
    const updated = await writer.write({ name: 'user.update', id: user.id, set })
    if (updated === null) throw fail('user_not_found')
    if (updated === 'email_taken') throw fail('email_in_use')
    sessions.revokeUser(user.id)
    return {
      json: { message: 'Password changed successfully' },
      cookies: [await signIn(call, updated), csrfCookie(call.secure)]
    }
  }

  const setupStatus = async (call: Call): Promise<Reply> => {
    const wait = services.countable(call) ? cooldown.ask(call.address) : 0
    if (wait > 0) throw fail('setup_status_cooldown', null, { 'Retry-After': String(wait) })
    const needs_setup = (await users.admin()) === null
    return { json: { needs_setup, registration_enabled: config.auth.allow_registration } }
  }

  const oauth = ({ params }: Call): never => {
    const provider = params.provider!
    throw ['github', 'google'].includes(provider)
      ? fail('oauth_not_implemented')
      : fail('oauth_unsupported', { provider })
  }

  const at = (path: string) => `/api/v1/auth${path}`
  const entry = { method: 'POST', access: 'public', csrf: 'exempt' } as const
  return [
    route({ ...entry, path: at('/login/local'), body: loginBody, form: true, handler: login }),
    route({ ...entry, path: at('/register'), body: accountBody, handler: register }),
    route({ ...entry, path: at('/initialize'), body: accountBody, handler: initialize }),
    route({ ...entry, path: at('/logout'), handler: logout }),
    route({ method: 'POST', path: at('/change-password'), access: 'user', body: changeBody, handler: changePassword }),
    route({
      method: 'GET',
      path: at('/me'),
      access: 'user',
      handler: (call) => ({ json: userView(requireUser(call)) })
    }),
    route({ method: 'GET', path: at('/setup-status'), access: 'public', handler: setupStatus }),
    route({ method: 'GET', path: at('/providers'), access: 'public', handler: () => ({ json: { providers: [] } }) }),
    route({ method: 'GET', path: at('/oauth/{provider}'), access: 'public', handler: oauth }),
    route({ method: 'GET', path: at('/callback/{provider}'), access: 'public', handler: oauth })
  ]
}
