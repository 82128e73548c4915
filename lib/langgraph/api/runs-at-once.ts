// Starting or cancelling several runs in one request, as LangGraph's clients do.
import * as v from 'valibot'
import { fail } from '../../base/errors.ts'
import { isInFlight, type JsonObject, type Run } from '../../base/types.ts'
import { type Authorization, mayAccess, route, type Route, type UserCall } from '../../http/route.ts'
import { id, listOf, objectOf } from '../../http/schema.ts'
import { arrayOf, nothing, one, ref } from '../../routes/answers.ts'
import { Authorizer, bodyOf, withBody } from '../../routes/authorization.ts'
import { createdView } from '../../routes/run-view.ts'
import { alreadyEnded, type RunBody, runBody, startStateless, threadIdIn } from '../../routes/run-request.ts'
import type { Services } from '../../routes/services.ts'

const BATCH_MAX = 64
const CANCELLED_MAX = 1000

const batchBody = listOf(runBody, BATCH_MAX)
const cancelBody = objectOf({
  thread_id: v.nullish(id),
  run_ids: v.nullish(listOf(id, CANCELLED_MAX)),
  status: v.nullish(v.picklist(['pending', 'running', 'all']))
})
const cancelQuery = objectOf({ action: v.optional(v.picklist(['interrupt', 'rollback'])) })

export function runsAtOnceRoutes(services: Services): Route[] {
  const { config, store, runs } = services

  /** One after the other. If one is refused, that is the answer, and the runs started before it continue. */
  const batch = async (call: UserCall<v.InferOutput<typeof batchBody>>) => {
    const started: Run[] = []
    for (const [at, body] of call.body.entries()) started.push(await startStateless(services, { ...call, body }, at))
    return { json: started.map(createdView) }
  }

  /** The named runs, or all of the caller's in flight; only in threads the caller may write to. */
  const wanted = async ({ body, user }: UserCall<v.InferOutput<typeof cancelBody>>): Promise<Run[]> => {
    const { thread_id, run_ids, status } = body
    const isWanted = async (run: Run) =>
      (!thread_id || run.thread_id === thread_id) &&
      mayAccess('write', await store.threads.ownerOf(run.thread_id), user.id)
    if (run_ids) {
      const named = run_ids.map(async (id) => {
        const run = await store.runs.get(id)
        if (!run || !(await isWanted(run))) throw fail('run_not_found', { id })
        return run
      })
      return Promise.all(named)
    }
    if (!status) return []
    const unfinished = (await store.runs.unfinished()).filter((run) => status === 'all' || run.status === status)
    const answers = await Promise.all(unfinished.map(isWanted))
    return unfinished.filter((_, at) => answers[at])
  }

  const cancel = async (call: UserCall<v.InferOutput<typeof cancelBody>, v.InferOutput<typeof cancelQuery>>) => {
    const { action = 'interrupt' } = call.query
    for (const run of (await wanted(call)).filter(isInFlight)) {
      await runs.cancel(run, action, action === 'rollback').catch(alreadyEnded)
      if (action === 'rollback') await runs.remove(run)
    }
    return { status: 204 }
  }

  return [
    route({
      method: 'POST',
      path: '/api/runs/batch',
      permission: 'runs:create',
      body: batchBody,
      bodyLimit: config.server.body_bytes,
      rule: startingRuns(services),
      summary: 'Start several runs in the background, each on a new thread',
      answers: one(arrayOf(ref('Run'))),
      refusals: [404, 409],
      handler: batch
    }),
    route({
      method: 'POST',
      path: '/api/runs/cancel',
      permission: 'runs:cancel',
      query: cancelQuery,
      body: cancelBody,
      bodyOptional: true,
      rule: cancelling(services),
      summary: 'Cancel runs by id, or all of the caller’s in flight',
      answers: nothing,
      refusals: [404, 409],
      handler: cancel
    })
  ]
}

function startingRuns(services: Services): Authorization {
  return async (call, ask) => {
    const authorizer = new Authorizer(services, ask)
    const bodies: RunBody[] = []
    // Checked by the route's schema.
    for (const body of call.body as RunBody[]) bodies.push(await authorizer.run(body, threadIdIn(body)))
    return { ...call, body: bodies }
  }
}

/** Cancelling several runs is one event for the rules; runs they hide are not found. */
function cancelling(services: Services): Authorization {
  return async (call, ask) => {
    const { thread_id = null, run_ids = null, status = null } = bodyOf(call)
    const { action = 'interrupt' } = call.query as JsonObject // checked by the route's schema
    const value: JsonObject = { thread_id, action, metadata: { run_ids, status: 'pending' } }
    const wanted = await ask('threads', 'update', value)
    if (wanted === null) return call
    return withBody(call, { run_ids: await new Authorizer(services, ask).runs(bodyOf(call), status, wanted) })
  }
}
