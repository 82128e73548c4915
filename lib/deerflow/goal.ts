// The goal of a thread: a channel of its state, which the built-in agent is reminded of before each model call. A graph has channels of its
// own: there it stands in the thread's metadata, and each run is told of it in its configuration.
import * as v from 'valibot'
import { fail, Refused } from '../base/errors.ts'
import { type Json, type JsonObject, timestamp } from '../base/types.ts'
import { type Route, route, type UserCall } from '../http/route.ts'
import { integer, objectOf } from '../http/schema.ts'
import { anObject, one, orNull, shaped } from '../routes/answers.ts'
import type { Services } from '../routes/services.ts'
import { goalIn, keepsGoalInMetadata } from '../routes/run-request.ts'
import { writtenState } from '../routes/state.ts'
import { newThread } from '../thread/thread.ts'

const OBJECTIVE_MAX = 4000
const CONTINUATIONS_MAX = 8
/** Continuations without progress after which an agent stands down. */
const NO_PROGRESS_MAX = 2
const NEWEST = { checkpointId: null, namespace: '' } as const

const goalBody = objectOf({
  objective: v.pipe(
    v.string(),
    v.maxLength(OBJECTIVE_MAX),
    v.transform((words) => words.replace(/\s+/g, ' ').trim()),
    v.minLength(1)
  ),
  max_continuations: v.nullish(integer({ min: 0, max: CONTINUATIONS_MAX }), CONTINUATIONS_MAX)
})

type Parts = Pick<Services, 'config' | 'states' | 'store' | 'writer' | 'limits'>

export function goalRoutes(services: Parts): Route[] {
  const { states, store, writer, limits } = services

  const goalOf = async (threadId: string): Promise<JsonObject | null> => {
    if (keepsGoalInMetadata(services)) return goalIn((await store.threads.get(threadId))?.metadata)
    const state = await states.values(threadId, null)
    const values = state === null ? null : (JSON.parse(state.json) as Json)
    return goalIn(values)
  }

  const set = async (threadId: string, user: string, goal: JsonObject | null) => {
    if (keepsGoalInMetadata(services)) {
      if ((await store.threads.get(threadId))?.status === 'running') throw fail('thread_in_flight', { id: threadId })
      const write = { name: 'thread.patch', thread_id: threadId, metadata: { goal }, now: timestamp() } as const
      if (!(await writer.write(write))) throw fail('thread_not_found', { id: threadId })
      return { json: { goal } }
    }
    const change = { place: NEWEST, values: { goal }, asNode: null, user }
    writtenState(await states.update(threadId, change), threadId, null)
    return { json: { goal } }
  }

  /** A client may set the goal of a chat that it has not saved yet. */
  const ensureThread = async (threadId: string, user: string): Promise<void> => {
    if (await store.threads.get(threadId)) return
    const given = { thread_id: threadId, user_id: user, assistant_id: null, metadata: {} }
    const made = await limits.createThread(newThread(given, timestamp()))
    if (!made) throw new Refused(404, `Thread ${threadId} not found`)
  }

  const put = async ({ params, body, user }: UserCall<v.InferOutput<typeof goalBody>>) => {
    const threadId = params.thread_id!
    await ensureThread(threadId, user.id)
    const now = timestamp()
    return set(threadId, user.id, {
      objective: body.objective,
      status: 'active',
      created_at: (await goalOf(threadId))?.created_at ?? now,
      updated_at: now,
      continuation_count: 0,
      max_continuations: body.max_continuations ?? CONTINUATIONS_MAX,
      no_progress_count: 0,
      max_no_progress_continuations: NO_PROGRESS_MAX
    })
  }

  const remove = async ({ params, user }: UserCall) => {
    const threadId = params.thread_id!
    return (await goalOf(threadId)) === null ? { json: { goal: null } } : set(threadId, user.id, null)
  }

  const path = '/api/threads/{thread_id}/goal'
  const answers = one(shaped({ goal: orNull(anObject) }))
  const writing = { path, permission: 'threads:write', thread: 'read', rule: 'threads:update', answers } as const
  return [
    route({
      method: 'GET',
      path,
      permission: 'threads:read',
      thread: 'read',
      rule: 'threads:read',
      summary: 'The goal of a thread',
      answers,
      handler: async ({ params }) => ({ json: { goal: await goalOf(params.thread_id!) } })
    }),
    route({
      ...writing,
      method: 'PUT',
      summary: 'Sets the goal of a thread, which is created if need be',
      refusals: [409],
      body: goalBody,
      handler: put
    }),
    route({ ...writing, method: 'DELETE', summary: 'Clears the goal of a thread', refusals: [409], handler: remove })
  ]
}
