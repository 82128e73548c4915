// People, for administrators: accounts, their roles, sessions and password links, and tokens of service accounts. No route shows what
// somebody has written. Beside them, what everybody may do with sessions of their own.
import * as v from 'valibot'
import { actorOf } from '../auth/audit.ts'
import { type People, passwordPage, sessionIdOf } from '../auth/people.ts'
import type { Config } from '../config/config.ts'
import { baseUrlOf } from '../http/base-path.ts'
import { type Call, type UserCall, type Route, route } from '../http/route.ts'
import { closedObject, closestOf, integer, objectOf, queryBoolean, queryInteger } from '../http/schema.ts'
import { type Session, SYSTEM_ROLES, type User } from '../base/accounts.ts'
import type { JsonObject } from '../base/types.ts'
import { DAY_MS, TOKEN_ENTRIES, tokenView } from './api-tokens.ts'
import { arrayOf, int, one, ref, shaped, success, text } from './answers.ts'
import { newEmail } from './own-account.ts'
import { newPassword } from './passwords.ts'

const PAGE = 50
const PAGE_MAX = 1000

const listQuery = objectOf({
  query: v.optional(v.pipe(v.string(), v.maxLength(320)), ''),
  role: v.optional(v.picklist(SYSTEM_ROLES)),
  disabled: v.optional(queryBoolean),
  limit: v.optional(queryInteger({ min: 1, max: PAGE_MAX }), String(PAGE)),
  offset: v.optional(queryInteger({ min: 0 }), '0')
})

const serviceName = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'a name of small letters, digits, . _ and -')
)

const personBody = closedObject({
  email: newEmail,
  system_role: v.optional(v.picklist(['admin', 'auditor', 'user']), 'user'),
  // Without one the answer has a password link, for the person.
  password: v.nullish(newPassword, null)
})
const serviceBody = closedObject({ name: serviceName })
/** A person, or with `name` a service account. */
const createBody = closestOf([personBody, serviceBody])
const MONEY_MAX = 1_000_000_000
const quotaCount = v.nullish(integer({ min: 0 }))
/** A quota of an account's own. What is left out or null is as for everybody; 0: no limit. */
const quotaBody = closedObject({
  runs_per_day: quotaCount,
  tokens_per_day: quotaCount,
  money_per_month: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(MONEY_MAX))),
  bytes: quotaCount,
  runs_at_once: quotaCount,
  requests_per_second: quotaCount
})
const changeBody = closedObject({
  system_role: v.optional(v.picklist(['admin', 'auditor', 'user'])),
  disabled: v.optional(v.boolean()),
  // A quota of the account's own, whole; null: what its groups and everybody have.
  quota: v.optional(v.nullable(quotaBody))
})

const serviceTokenBody = closedObject(TOKEN_ENTRIES)

interface PeopleServices {
  readonly people: People
  readonly config: Config
}

/** An account as administrators see it. */
function accountView({ quota = null, ...user }: AccountFields) {
  const { id, email, system_role, created_at, needs_setup, oauth_provider, disabled_at } = user
  return { id, email, system_role, created_at, needs_setup, oauth_provider, disabled_at, quota }
}
type AccountFields = Omit<User, 'password_hash' | 'token_version'>

/** `current`: the digest of the session that asks. */
function sessionView(session: Session, current: string | null): JsonObject {
  const { digest, created_at, last_used_at, device, address } = session
  return { session_id: sessionIdOf(session), created_at, last_used_at, device, address, is_current: digest === current }
}

export function peopleRoutes({ people, config }: PeopleServices): Route[] {
  const idIn = ({ params }: Call): string => params.user_id!

  const linkFor = async (call: Call, id: string): Promise<JsonObject> => {
    const { token, text } = await people.passwordLink(id, actorOf(call))
    return {
      token: text,
      url: passwordPage(baseUrlOf(call, config.server.public_url), text),
      expires_at: token.expires_at
    }
  }

  const list = async ({ query }: Call<unknown, v.InferOutput<typeof listQuery>>) => {
    const { query: text, role, disabled, limit, offset } = query
    const { users, total } = await people.list({
      text: text.trim().toLowerCase(),
      ...(role && { role }),
      ...(disabled !== undefined && { isDisabled: disabled }),
      limit,
      offset
    })
    return { json: { users: users.map((user) => ({ ...accountView(user), last_seen_at: user.last_seen_at })), total } }
  }

  const create = async (call: UserCall<v.InferOutput<typeof createBody>>) => {
    const { body } = call
    if ('name' in body) {
      const user = await people.create({ email: body.name, role: 'service', password: null }, actorOf(call))
      return { status: 201, json: accountView(user) }
    }
    const { email, system_role: role, password } = body
    const user = await people.create({ email, role, password }, actorOf(call))
    const link = password === null ? { password_link: await linkFor(call, user.id) } : {}
    return { status: 201, json: { ...accountView(user), ...link } }
  }

  const get = async (call: Call) => ({ json: accountView(await people.get(idIn(call))) })

  const change = async (call: UserCall<v.InferOutput<typeof changeBody>>) => {
    const { system_role, disabled, quota } = call.body
    const id = idIn(call)
    if (system_role !== undefined) await people.setRole(id, system_role, actorOf(call))
    if (disabled !== undefined) await people.setDisabled(id, disabled, actorOf(call))
    if (quota !== undefined) await people.setQuota(id, quota, actorOf(call))
    return { json: accountView(await people.get(id)) }
  }

  const remove = async (call: Call) => {
    await people.remove(idIn(call), actorOf(call))
    return { json: { success: true } }
  }

  const erase = async (call: Call) => {
    const { id } = await people.erase(idIn(call), actorOf(call))
    return { status: 202, json: { success: true, job: { kind: 'departure', key: id } } }
  }

  const listSessions = (idOf: (call: Call) => string) => async (call: Call) => {
    const sessions = await people.sessions(idOf(call))
    return { json: { sessions: sessions.map((session) => sessionView(session, call.grant?.digest ?? null)) } }
  }

  const endSession = (idOf: (call: Call) => string) => async (call: Call) => {
    await people.endSession(idOf(call), call.params.session_id!, actorOf(call))
    return { json: { success: true } }
  }

  const endSessions = async (call: Call) => {
    await people.endSessions(idIn(call), actorOf(call))
    return { json: { success: true } }
  }

  const createToken = async (call: UserCall<v.InferOutput<typeof serviceTokenBody>>) => {
    const { name, scopes, expires_in_days: days } = call.body
    const lifetimeMs = days === null ? null : days * DAY_MS
    const { token, text } = await people.createToken(idIn(call), { name, scopes, lifetimeMs }, actorOf(call))
    return { status: 201, json: { ...tokenView(token), token: text } }
  }

  const own = '/api/v1/auth/sessions'
  const ownId = (call: Call): string => call.user!.id
  const makeLink = async (call: Call) => {
    const { id } = await people.get(idIn(call))
    return { status: 201, json: await linkFor(call, id) }
  }
  const users = '/api/v1/admin/users'
  const user = `${users}/{user_id}`
  const reads = { admin: true, permission: 'admin:read', rule: null } as const
  const writes = { admin: true, permission: 'admin:users', rule: null } as const
  const account = one(ref('Account'))
  const sessions = one(shaped({ sessions: arrayOf(ref('Session')) }))
  return [
    route({
      method: 'GET',
      path: own,
      summary: 'List the caller’s sessions, newest first',
      answers: sessions,
      rule: null,
      handler: listSessions(ownId)
    }),
    route({
      method: 'DELETE',
      path: `${own}/{session_id}`,
      summary: 'End one of the caller’s sessions',
      answers: success,
      rule: null,
      handler: endSession(ownId)
    }),
    route({
      ...reads,
      method: 'GET',
      path: users,
      query: listQuery,
      summary: 'List accounts, oldest first; administrators and auditors',
      answers: one(shaped({ users: arrayOf(ref('Account')), total: int })),
      handler: list
    }),
    route({
      ...writes,
      method: 'POST',
      path: users,
      body: createBody,
      summary: 'Create an account, or with `name` a service account; administrators only',
      answers: one(ref('Account'), 201),
      handler: create
    }),
    route({
      ...reads,
      method: 'GET',
      path: user,
      summary: 'Get an account; administrators and auditors',
      answers: account,
      handler: get
    }),
    route({
      ...writes,
      method: 'PATCH',
      path: user,
      body: changeBody,
      summary: 'Change the role or the quota of an account, or disable or enable it; administrators only',
      answers: account,
      refusals: [409],
      handler: change
    }),
    route({
      ...writes,
      method: 'DELETE',
      path: user,
      summary: 'Delete an account and everything that belongs to it; administrators only',
      answers: success,
      refusals: [409],
      handler: remove
    }),
    route({
      ...writes,
      method: 'POST',
      path: `${user}/erase`,
      summary:
        'Delete an account until no byte of it is left; administrators only. It is done when its job is gone, which the audit says too',
      answers: one(shaped({ success: { const: true }, job: shaped({ kind: text, key: text }) }), 202),
      refusals: [409],
      handler: erase
    }),
    route({
      ...writes,
      method: 'POST',
      path: `${user}/password-link`,
      summary: 'Make a link by which somebody may set the password, once within a day; administrators only',
      answers: one(ref('PasswordLink'), 201),
      handler: makeLink
    }),
    route({
      ...reads,
      method: 'GET',
      path: `${user}/sessions`,
      summary: 'List the sessions of an account; administrators and auditors',
      answers: sessions,
      handler: listSessions(idIn)
    }),
    route({
      ...writes,
      method: 'DELETE',
      path: `${user}/sessions`,
      summary: 'End all sessions of an account; administrators only',
      answers: success,
      handler: endSessions
    }),
    route({
      ...writes,
      method: 'DELETE',
      path: `${user}/sessions/{session_id}`,
      summary: 'End one session of an account; administrators only',
      answers: success,
      handler: endSession(idIn)
    }),
    route({
      ...writes,
      method: 'POST',
      path: `${user}/tokens`,
      body: serviceTokenBody,
      bodyOptional: true,
      summary: 'Create an API token of a service account; administrators only',
      answers: one(ref('ApiToken'), 201),
      refusals: [409],
      handler: createToken
    })
  ]
}
