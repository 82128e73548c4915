// Feedback of users on runs.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { fail } from '../base/errors.ts'
import { type Call, type Route, route } from '../http/route.ts'
import { describedAs, integer, objectOf, queryInteger } from '../http/schema.ts'
import type { ScopedStore } from '../store/scoped.ts'
import { timestamp } from '../base/types.ts'
import { arrayOf, one, ref, shaped, success, yesNo } from './answers.ts'
import { runOf } from './run-view.ts'
import type { Services } from './services.ts'

const feedbackBody = objectOf({
  rating: v.pipe(integer(), describedAs<number>({ enum: [1, -1] })),
  comment: v.nullish(v.string()),
  message_id: v.nullish(v.pipe(v.string(), v.maxLength(64)))
})
const newestQuery = objectOf({ limit: v.optional(queryInteger({ min: 1, max: 1000 }), '100') })
type FeedbackBody = v.InferOutput<typeof feedbackBody>

export function feedbackRoutes({ store, writer }: Services): Route[] {
  /** Feedback needs a SQL database [Errors]. */
  const feedback = (): NonNullable<ScopedStore['feedback']> => {
    if (!store.feedback) throw fail('feedback_unavailable')
    return store.feedback
  }

  const put = async (call: Call<FeedbackBody>) => {
    feedback()
    const { rating, comment, message_id } = call.body
    if (rating !== 1 && rating !== -1) throw fail('rating_invalid')
    const { thread_id, run_id } = call.params as { thread_id: string; run_id: string } // which are in the path
    const run = await runOf({ store }, { params: { run_id } })
    if (run.thread_id !== thread_id) throw fail('run_not_in_thread', { id: run_id, thread_id })
    const record = {
      feedback_id: randomUUID(),
      run_id,
      thread_id,
      user_id: call.user!.id,
      message_id: message_id ?? null,
      rating,
      comment: comment ?? null,
      created_at: timestamp()
    } as const
    return { json: await writer.write({ name: 'feedback.upsert', feedback: record }) }
  }

  const list = async ({ params }: Call) => ({ json: await feedback().list(params.thread_id!, params.run_id!) })

  const listOfRun = async ({ params }: Call) => {
    const reads = feedback()
    const { thread_id, run_id } = await runOf({ store }, { params })
    return { json: await reads.list(thread_id, run_id) }
  }

  const stats = async ({ params }: Call) => {
    const run_id = params.run_id!
    return { json: { run_id, ...(await feedback().stats(params.thread_id!, run_id)) } }
  }

  const removeOwn = async ({ params, user }: Call) => {
    feedback()
    const of = { thread_id: params.thread_id!, run_id: params.run_id!, user: user!.id }
    if (!(await writer.write({ name: 'feedback.remove', ...of }))) throw fail('feedback_missing')
    return { json: { success: true } }
  }

  const removeById = async ({ params, user }: Call) => {
    feedback()
    const feedback_id = params.feedback_id!
    const of = { thread_id: params.thread_id!, run_id: params.run_id!, user: user!.id }
    if (!(await writer.write({ name: 'feedback.removeById', feedback_id, ...of })))
      throw fail('feedback_not_found', { id: feedback_id })
    return { json: { success: true } }
  }

  /** Whatever its user has written beside a thumb is meant for the operator; the conversation stays its user's. */
  const newest = async ({ query }: Call<unknown, v.InferOutput<typeof newestQuery>>) => {
    // One more, to see whether there are more.
    const found = await feedback().newest(query.limit + 1)
    return { json: { feedback: found.slice(0, query.limit), has_more: found.length > query.limit } }
  }

  const path = '/api/threads/{thread_id}/runs/{run_id}/feedback'
  const reading = { method: 'GET', permission: 'threads:read', thread: 'read', rule: 'threads:read' } as const
  const writing = {
    path,
    permission: 'threads:write',
    thread: 'write',
    rule: 'threads:update',
    body: feedbackBody,
    refusals: [409],
    summary: 'Rate a run',
    answers: one(ref('Feedback')),
    handler: put
  } as const
  const removing = {
    method: 'DELETE',
    refusals: [409],
    permission: 'threads:delete',
    thread: 'write',
    rule: 'threads:delete',
    answers: success
  } as const
  const ratings = one(arrayOf(ref('Feedback')))
  return [
    route({ ...writing, method: 'PUT' }),
    route({ ...writing, method: 'POST' }),
    route({ ...removing, path, summary: 'Delete the caller’s feedback on a run', handler: removeOwn }),
    route({ ...reading, path, summary: 'The caller’s feedback on a run', answers: ratings, handler: list }),
    route({
      ...reading,
      path: `${path}/stats`,
      summary: 'Number of ratings of a run',
      answers: one(ref('FeedbackStats')),
      handler: stats
    }),
    route({ ...removing, path: `${path}/{feedback_id}`, summary: 'Delete one feedback', handler: removeById }),
    route({
      method: 'GET',
      path: '/api/runs/{run_id}/feedback',
      permission: 'runs:read',
      rule: 'threads:read',
      summary: 'Feedback on a run without knowing its thread',
      answers: ratings,
      handler: listOfRun
    }),
    route({
      method: 'GET',
      path: '/api/v1/admin/feedback',
      admin: true,
      permission: 'admin:read',
      query: newestQuery,
      rule: null,
      summary: 'Everybody’s feedback, newest first; administrators and auditors',
      answers: one(shaped({ feedback: arrayOf(ref('Feedback')), has_more: yesNo })),
      handler: newest
    })
  ]
}
