// Invitations to register: created, listed and revoked by administrators, with a session.
import * as v from 'valibot'
import type { Invitations } from '../auth/api-tokens.ts'
import { fail } from '../base/errors.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { integer, objectOf } from '../http/schema.ts'
import { arrayOf, one, ref, shaped, success } from './answers.ts'
import type { ApiToken, JsonObject } from '../base/types.ts'

const DAY_MS = 86_400_000

const createBody = objectOf({
  // A note on whom it is for, shown in the list.
  name: v.optional(v.pipe(v.string(), v.trim(), v.maxLength(100)), ''),
  expires_in_days: v.optional(integer({ min: 1, max: 365 }), 7)
})

function invitationView({ token_id, name, created_at, expires_at }: ApiToken): JsonObject {
  return { invitation_id: token_id, name, created_at, expires_at }
}

export function invitationRoutes({ invitations }: { readonly invitations: Invitations }): Route[] {
  const create = async (call: UserCall<v.InferOutput<typeof createBody>>) => {
    const { name, expires_in_days: days } = call.body
    const { token, text } = await invitations.create({ user_id: call.user.id, name, lifetimeMs: days * DAY_MS })
    return { status: 201, json: { ...invitationView(token), invitation: text } }
  }

  const list = async () => ({ json: { invitations: (await invitations.list()).map(invitationView) } })

  const revoke = async ({ params }: UserCall) => {
    const id = params.invitation_id!
    if (!(await invitations.revoke(id))) throw fail('invitation_not_found', { id })
    return { json: { success: true } }
  }

  const path = '/api/v1/auth/invitations'
  const forAdmins = { admin: true, rule: null } as const
  return [
    route({
      ...forAdmins,
      method: 'POST',
      path,
      body: createBody,
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
