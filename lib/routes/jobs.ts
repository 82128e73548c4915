// Jobs, for administrators: lists what is to be done later and what has failed for good, does one again, drops one.
import * as v from 'valibot'
import { type Call, type Route, route } from '../http/route.ts'
import { objectOf, queryBoolean, queryInteger } from '../http/schema.ts'
import { actorOf, jobAudit } from '../auth/audit.ts'
import { fail } from '../base/errors.ts'
import { changeJob, type JobChange } from '../jobs/runner.ts'
import type { Job, Op } from '../store/store.ts'
import { JOB_KINDS, type JobKind, type JsonObject } from '../base/types.ts'
import { arrayOf, one, ref, shaped, success } from './answers.ts'
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

/** @throws Failure job_not_found */
const kindIn = ({ params }: Call): JobKind =>
  JOB_KINDS.find((one) => one === params.kind) ?? fail('job_not_found', { kind: params.kind!, key: params.key! })

export function jobRoutes({ store, writer, audit }: Pick<Services, 'store' | 'writer' | 'audit'>): Route[] {
  const change = (how: JobChange) => async (call: Call) => {
    const [kind, key] = [kindIn(call), call.params.key!]
    const parts = { jobs: store.jobs, write: (op: Op) => writer.write(op), changed: jobAudit(audit, actorOf(call)) }
    if (!(await changeJob(parts, kind, key, how))) throw fail('job_not_found', { kind, key })
    return { json: { success: true } }
  }
  const list = async ({ query }: Call<unknown, v.InferOutput<typeof listQuery>>) => {
    const { dead: isDead, limit, offset } = query
    const [jobs, counts] = await Promise.all([store.jobs.list({ isDead, limit, offset }), store.jobs.counts()])
    return { json: { jobs: jobs.map(jobView), counts: counts.map((count): JsonObject => ({ ...count })) } }
  }
  const jobs = '/api/v1/admin/jobs'
  const job = `${jobs}/{kind}/{key}`
  const changes = { admin: true, permission: 'admin:users', rule: null } as const
  return [
    route({
      method: 'GET',
      path: jobs,
      admin: true,
      permission: 'admin:read',
      query: listQuery,
      summary:
        'List jobs: webhooks, turns of crons, removals of threads and of what removed accounts have left; administrators only',
      answers: one(shaped({ jobs: arrayOf(ref('Job')), counts: arrayOf(ref('JobCount')) })),
      rule: null,
      handler: list
    }),
    route({
      ...changes,
      method: 'POST',
      path: `${job}/retry`,
      summary: 'Try a job now, with all its attempts; administrators only',
      answers: success,
      handler: change('retry')
    }),
    route({
      ...changes,
      method: 'DELETE',
      path: job,
      summary: 'Delete a job: it will never be done; administrators only',
      answers: success,
      handler: change('drop')
    })
  ]
}
