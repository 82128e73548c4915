// Starting or cancelling several runs in one request, as LangGraph's clients do.
import * as v from 'valibot'
import { Failure, fail } from '../base/errors.ts'
import { mayAccess, type Route, route, type UserCall } from '../http/route.ts'
import { id, listOf, objectOf } from '../http/schema.ts'
import { isInFlight, type Run } from '../base/types.ts'
import { type RunBody, runBody, runView } from './run-request.ts'
import type { Services } from './services.ts'

const BATCH_MAX = 64
const CANCELLED_MAX = 1000

const batchBody = listOf(runBody, BATCH_MAX)
const cancelBody = objectOf({
  thread_id: v.nullish(id),
  run_ids: v.nullish(listOf(id, CANCELLED_MAX)),
  status: v.nullish(v.picklist(['pending', 'running', 'all']))
})
const cancelQuery = objectOf({ action: v.optional(v.picklist(['interrupt', 'rollback'])) })

export function runsAtOnceRoutes(
  { config, store, runs }: Services,
  start: (call: UserCall, body: RunBody, at: number) => Promise<Run>
): Route[] {
  /** One after the other. If one is refused, that is the answer, and the runs started before it continue. */
  const batch = async (call: UserCall<v.InferOutput<typeof batchBody>>) => {
    const started: Run[] = []
    for (const [at, body] of call.body.entries()) started.push(await start(call, body, at))
    return { json: started.map(runView) }
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

  const starting = { method: 'POST', permission: 'runs:create', bodyLimit: config.server.body_bytes } as const
  const stopping = { method: 'POST', permission: 'runs:cancel', bodyOptional: true, query: cancelQuery } as const
  return [
    route({ ...starting, path: '/api/runs/batch', body: batchBody, handler: batch }),
    route({ ...stopping, path: '/api/runs/cancel', body: cancelBody, handler: cancel })
  ]
}

/** Ignores the error for a run that has ended by itself. */
export function alreadyEnded(error: unknown): void {
  if (!(error instanceof Failure && error.code === 'run_not_cancellable')) throw error
}
