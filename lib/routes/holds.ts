// Legal holds, for administrators: what is not to be deleted, and why.
import * as v from 'valibot'
import { actorOf } from '../auth/audit.ts'
import { type Holds, holdView, REASON_MAX } from '../auth/holds.ts'
import { type Call, type Route, route, type UserCall } from '../http/route.ts'
import { closedObject, closestOf, id, minCharacters, objectOf, queryInteger } from '../http/schema.ts'
import { arrayOf, one, ref, shaped, yesNo } from './answers.ts'

const reason = v.pipe(v.string(), v.trim(), minCharacters(1), v.maxLength(REASON_MAX))
const addBody = closestOf([closedObject({ thread_id: id, reason }), closedObject({ user_id: id, reason })])
const listQuery = objectOf({
  thread_id: v.optional(id),
  user_id: v.optional(id),
  limit: v.optional(queryInteger({ min: 1, max: 1000 }), '100'),
  offset: v.optional(queryInteger({ min: 0 }), '0')
})
const removeQuery = objectOf({ reason: v.optional(reason) })

export function holdRoutes({ holds }: { readonly holds: Holds }): Route[] {
  const list = async ({ query }: Call<unknown, v.InferOutput<typeof listQuery>>) => {
    const { thread_id, user_id, limit, offset } = query
    const target = thread_id ?? user_id
    // One more, to see whether there are more.
    const found = await holds.list({ ...(target !== undefined && { target }), limit: limit + 1, offset })
    return { json: { holds: found.slice(0, limit).map(holdView), has_more: found.length > limit } }
  }

  const add = async (call: UserCall<v.InferOutput<typeof addBody>>) => {
    const { body } = call
    const [kind, target] =
      'thread_id' in body ? (['thread', body.thread_id] as const) : (['user', body.user_id] as const)
    return { status: 201, json: holdView(await holds.add(kind, target, body.reason, actorOf(call))) }
  }

  const remove = async (call: Call<unknown, v.InferOutput<typeof removeQuery>>) => {
    return { json: holdView(await holds.remove(call.params.hold_id!, call.query.reason ?? null, actorOf(call))) }
  }

  const path = '/api/v1/admin/holds'
  const writes = { admin: true, permission: 'admin:users', rule: null } as const
  return [
    route({
      method: 'GET',
      path,
      admin: true,
      permission: 'admin:read',
      rule: null,
      query: listQuery,
      summary: 'List legal holds, newest first; administrators and auditors',
      answers: one(shaped({ holds: arrayOf(ref('Hold')), has_more: yesNo })),
      handler: list
    }),
    route({
      ...writes,
      method: 'POST',
      path,
      body: addBody,
      summary: 'Hold a thread or a user: nothing of it is deleted, by anybody or by age; administrators only',
      answers: one(ref('Hold'), 201),
      refusals: [404],
      handler: add
    }),
    route({
      ...writes,
      method: 'DELETE',
      path: `${path}/{hold_id}`,
      query: removeQuery,
      summary: 'Lift a legal hold; others of the same thread or user stay; administrators only',
      answers: one(ref('Hold')),
      handler: remove
    })
  ]
}
