// Reads the audit, for administrators and auditors.
import * as v from 'valibot'
import { AUDIT_ACTIONS, userName } from '../auth/audit.ts'
import { type Call, type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { timestamp } from '../base/types.ts'
import { arrayOf, one, ref, shaped, yesNo } from './answers.ts'
import type { Services } from './services.ts'

const listQuery = objectOf({
  action: v.optional(v.picklist(AUDIT_ACTIONS)),
  // The id of who did it, or to whom it was done.
  user_id: v.optional(v.pipe(v.string(), v.maxLength(64))),
  since: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => !Number.isNaN(Date.parse(text)), 'must be a date')
    )
  ),
  // The audit_id of the last line of the page before.
  before: v.optional(queryInteger({ min: 1 })),
  limit: v.optional(queryInteger({ min: 1, max: 1000 }), '100')
})

export function auditRoutes({ store }: Pick<Services, 'store'>): Route[] {
  const list = async ({ query }: Call<unknown, v.InferOutput<typeof listQuery>>) => {
    const { action, user_id, since, before, limit } = query
    const entries = await store.audit.list({
      ...(action !== undefined && { action }),
      ...(user_id !== undefined && { about: userName(user_id) }),
      ...(since !== undefined && { since: timestamp(Date.parse(since)) }),
      ...(before !== undefined && { before }),
      // One more, to see whether there are more.
      limit: limit + 1
    })
    return { json: { entries: entries.slice(0, limit), has_more: entries.length > limit } }
  }
  const path = '/api/v1/admin/audit'
  return [
    route({
      method: 'GET',
      path,
      admin: true,
      permission: 'admin:read',
      query: listQuery,
      summary: 'Who did what to whom, newest first; administrators and auditors',
      answers: one(shaped({ entries: arrayOf(ref('AuditEntry')), has_more: yesNo })),
      rule: null,
      handler: list
    })
  ]
}
