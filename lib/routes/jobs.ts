// Jobs, for administrators: what is to be done later, and what has failed for good.
import * as v from 'valibot'
import { type Call, type Route, route } from '../http/route.ts'
import { objectOf, queryBoolean, queryInteger } from '../http/schema.ts'
import type { Job } from '../store/store.ts'
import type { JsonObject } from '../base/types.ts'
import { arrayOf, one, ref, shaped } from './answers.ts'
import type { Services } from './services.ts'

const listQuery = objectOf({
  dead: v.optional(queryBoolean, 'false'),
  limit: v.optional(queryInteger({ min: 1, max: 1000 }), '100'),
  offset: v.optional(queryInteger({ min: 0 }), '0')
})

/** Without its payload, which may hold what users wrote, and keys in addresses. */
function jobView({ payload: _, owner, ...job }: Job): JsonObject {
  return { ...job, is_in_progress: owner !== null }
}

export function jobRoutes({ store }: Pick<Services, 'store'>): Route[] {
  const list = async ({ query }: Call<unknown, v.InferOutput<typeof listQuery>>) => {
    const { dead: isDead, limit, offset } = query
    const [jobs, counts] = await Promise.all([store.jobs.list({ isDead, limit, offset }), store.jobs.counts()])
    return { json: { jobs: jobs.map(jobView), counts: counts.map((count): JsonObject => ({ ...count })) } }
  }
  return [
    route({
      method: 'GET',
      path: '/api/v1/admin/jobs',
      admin: true,
      permission: 'admin:read',
      query: listQuery,
      summary:
        'List jobs: webhooks, turns of crons, removals of threads and of what removed accounts have left; administrators only',
      answers: one(shaped({ jobs: arrayOf(ref('Job')), counts: arrayOf(ref('JobCount')) })),
      rule: null,
      handler: list
    })
  ]
}
