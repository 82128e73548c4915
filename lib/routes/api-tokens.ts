// API tokens of the caller, and invitations to register, which administrators give: create, list, revoke. Sessions only: a token that
// could create tokens would exceed its scopes.
import * as v from 'valibot'
import type { ApiTokens, Invitations } from '../auth/api-tokens.ts'
import { actorOf, type Audit } from '../auth/audit.ts'
import { tokenName } from '../auth/people.ts'
import { fail } from '../base/errors.ts'
import { type Call, type Route, route, type UserCall } from '../http/route.ts'
import { closedObject, integer, listOf, objectOf } from '../http/schema.ts'
import { arrayOf, one, ref, shaped, success } from './answers.ts'
import { type ApiToken, PERMISSIONS } from '../base/accounts.ts'
import type { JsonObject } from '../base/types.ts'

const NAME_MAX = 100
const SCOPES_MAX = 32
const DAYS_MAX = 3_650
export const DAY_MS = 86_400_000

export const TOKEN_ENTRIES = {
  name: v.optional(v.pipe(v.string(), v.trim(), v.maxLength(NAME_MAX), v.minLength(1)), 'unnamed'),
  // A token has no scopes by default.
  scopes: v.optional(listOf(v.picklist(PERMISSIONS), SCOPES_MAX), []),
  // null: valid until it is revoked.
  expires_in_days: v.nullish(integer({ min: 1, max: DAYS_MAX }), null)
}
const tokenBody = objectOf(TOKEN_ENTRIES)

/** Without the digest. */
export function tokenView({ token_id, name, scopes, created_at, expires_at, last_used_at }: ApiToken): JsonObject {
  return { token_id, name, scopes: [...scopes], created_at, expires_at, last_used_at }
}

export function apiTokenRoutes({
  apiTokens,
  audit
}: {
  readonly apiTokens: ApiTokens
  readonly audit: Audit
}): Route[] {
  const create = async (call: UserCall<v.InferOutput<typeof tokenBody>>) => {
    const { name, scopes, expires_in_days: days } = call.body
    const lifetimeMs = days === null ? null : days * DAY_MS
    const { token, text } = await apiTokens.create({ user_id: call.user.id, name, scopes, lifetimeMs })
    await audit.record('token_created', actorOf(call), tokenName(token), { scopes: [...scopes] })
    return { status: 201, json: { ...tokenView(token), token: text } }
  }

  const list = async () => ({ json: { tokens: (await apiTokens.list()).map(tokenView) } })

  const revoke = async (call: Call) => {
    const id = call.params.token_id!
    if (!(await apiTokens.revoke(id))) throw fail('api_token_not_found', { id })
    await audit.record('token_revoked', actorOf(call), tokenName({ token_id: id }))
    return { json: { success: true } }
  }

  const path = '/api/v1/auth/tokens'
  return [
    route({
      method: 'POST',
      path,
      body: tokenBody,
      rule: null,
      summary: 'Create an API token; it is shown only once',
      answers: one(ref('ApiToken'), 201),
      refusals: [409],
      handler: create
    }),
    route({
      method: 'GET',
      path,
      rule: null,
      summary: 'List the caller’s API tokens',
      answers: one(shaped({ tokens: arrayOf(ref('ApiToken')) })),
      handler: list
    }),
    route({
      method: 'DELETE',
      path: `${path}/{token_id}`,
      rule: null,
      summary: 'Revoke an API token and end its streams',
      answers: success,
      handler: revoke
    })
  ]
}

// -------------------------------------------------------------------------------------------------------- invitations

const invitationBody = closedObject({
  // A note on whom it is for, shown in the list.
  name: v.optional(v.pipe(v.string(), v.trim(), v.maxLength(100)), ''),
  expires_in_days: v.optional(integer({ min: 1, max: 365 }), 7)
})

function invitationView({ token_id, name, created_at, expires_at }: ApiToken): JsonObject {
  return { invitation_id: token_id, name, created_at, expires_at }
}

export function invitationRoutes({
  invitations,
  audit
}: {
  readonly invitations: Invitations
  readonly audit: Audit
}): Route[] {
  const create = async (call: UserCall<v.InferOutput<typeof invitationBody>>) => {
    const { name, expires_in_days: days } = call.body
    const { token, text } = await invitations.create({ user_id: call.user.id, name, lifetimeMs: days * DAY_MS })
    await audit.record('invitation_created', actorOf(call), `invitation:${token.token_id}`)
    return { status: 201, json: { ...invitationView(token), invitation: text } }
  }

  const list = async () => ({ json: { invitations: (await invitations.list()).map(invitationView) } })

  const revoke = async (call: UserCall) => {
    const id = call.params.invitation_id!
    if (!(await invitations.revoke(id))) throw fail('invitation_not_found', { id })
    await audit.record('invitation_revoked', actorOf(call), `invitation:${id}`)
    return { json: { success: true } }
  }

  const path = '/api/v1/auth/invitations'
  const forAdmins = { admin: true, rule: null } as const
  return [
    route({
      ...forAdmins,
      method: 'POST',
      path,
      body: invitationBody,
      bodyOptional: true,
      summary: 'Create an invitation; administrators only',
      answers: one(ref('Invitation'), 201),
      handler: create
    }),
    route({
      ...forAdmins,
      method: 'GET',
      path,
      summary: 'List invitations; administrators only',
      answers: one(shaped({ invitations: arrayOf(ref('Invitation')) })),
      handler: list
    }),
    route({
      ...forAdmins,
      method: 'DELETE',
      path: `${path}/{invitation_id}`,
      summary: 'Revoke an invitation; administrators only',
      answers: success,
      handler: revoke
    })
  ]
}
