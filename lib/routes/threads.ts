// Threads: create, search, get, patch, delete.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { fail, Invalid } from '../errors.ts'
import type { Call, UserCall } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import { fewKeys, id, integer, issue, listOf, metadata, objectOf } from '../http/schema.ts'
import { withoutReserved } from '../reserved.ts'
import type { ThreadQuery } from '../store/store.ts'
import { legacyThread, threadView } from '../thread/checkpoint.ts'
import { storedJson } from '../thread/state.ts'
import { newThread } from '../thread/thread.ts'
import { type Thread, timestamp } from '../types.ts'
import { removeThread } from './remove-thread.ts'
import type { Services } from './services.ts'

const FILTER_KEYS_MAX = 64
const IDS_MAX = 1000
/** Keys that a thread may gather by being patched. */
const KEPT_KEYS_MAX = 1024

const createBody = objectOf({
  thread_id: v.nullish(id),
  assistant_id: v.nullish(v.pipe(v.string(), v.maxLength(128))),
  metadata: v.nullish(metadata, {}),
  if_exists: v.nullish(v.picklist(['raise', 'do_nothing']))
})

const searchBody = objectOf({
  // Each key is a condition of its own; no honest filter has more.
  metadata: v.nullish(fewKeys(FILTER_KEYS_MAX), {}),
  // busy is LangGraph's word for a thread with a run in flight.
  status: v.nullish(v.picklist(['idle', 'running', 'busy', 'interrupted', 'error'])),
  ids: v.nullish(listOf(v.string(), IDS_MAX)),
  sort_by: v.nullish(v.picklist(['thread_id', 'created_at', 'updated_at', 'status'])),
  sort_order: v.nullish(v.picklist(['asc', 'desc'])),
  select: v.nullish(listOf(v.string(), FILTER_KEYS_MAX)),
  limit: v.nullish(integer({ min: 1, max: 1000 }), 100),
  offset: v.nullish(integer({ min: 0 }), 0)
})

const patchBody = objectOf({ metadata: v.nullish(metadata, {}) })

/** A list shows the title and nothing else of the state. */
function titleValues(thread: Thread): string {
  return thread.display_name === null ? '{}' : JSON.stringify({ title: thread.display_name })
}

function selected(text: string, fields: readonly string[]): string {
  // The text was made by threadView, from an object.
  const record = JSON.parse(text) as Record<string, unknown>
  return JSON.stringify(Object.fromEntries(Object.entries(record).filter(([key]) => fields.includes(key))))
}

export function threadRoutes(services: Services): Route[] {
  const { store, states, writer } = services

  const create = async ({ body, user }: Call<v.InferOutput<typeof createBody>>) => {
    const threadId = body.thread_id ?? randomUUID()
    const given = {
      thread_id: threadId,
      user_id: user!.id,
      assistant_id: body.assistant_id ?? null,
      metadata: body.metadata ?? {}
    }
    const made = await writer.write({ name: 'thread.create', ...newThread(given, timestamp()) })
    // Somebody else's: the same answer as for one that does not exist.
    if (!made) throw fail('thread_not_found', { id: threadId })
    return { jsonText: threadView(made.thread, '{}') }
  }

  const search = async ({ body }: Call<v.InferOutput<typeof searchBody>>) => {
    const { limit, offset } = { limit: body.limit ?? 100, offset: body.offset ?? 0 }
    const query: ThreadQuery = {
      metadata: body.metadata ?? {},
      limit,
      offset,
      ...(body.status && { status: body.status === 'busy' ? 'running' : body.status }),
      ...(body.ids && { ids: body.ids }),
      ...(body.sort_by && { sortBy: body.sort_by }),
      ...(body.sort_order && { sortOrder: body.sort_order })
    }
    const { threads, total } = await store.threads.search(query)
    const views = threads.map((thread) => threadView(thread, titleValues(thread)))
    const { select } = body
    const shown = select ? views.map((view) => selected(view, select)) : views
    const next = offset + threads.length
    return {
      jsonText: `[${shown.join(',')}]`,
      headers: {
        'X-Pagination-Total': String(total),
        ...(next < total && threads.length > 0 && { 'X-Pagination-Next': String(next) })
      }
    }
  }

  const get = async ({ params }: Call) => {
    const threadId = params.thread_id!
    const [thread, state] = await Promise.all([store.threads.get(threadId), states.values(threadId, null)])
    if (thread) return { jsonText: threadView(thread, state?.json ?? '{}', state?.interrupts) }
    const stored = await store.checkpoints.load(threadId, null)
    if (!stored) throw fail('thread_not_found', { id: threadId })
    return { jsonText: threadView(legacyThread(stored), storedJson(stored), state?.interrupts) }
  }

  const patch = async ({ params, body }: Call<v.InferOutput<typeof patchBody>>) => {
    const threadId = params.thread_id!
    const metadata = withoutReserved(body.metadata ?? {})
    const before = (await store.threads.get(threadId))?.metadata
    if (Object.keys({ ...before, ...metadata }).length > KEPT_KEYS_MAX)
      throw new Invalid([issue('too_long', ['body', 'metadata'], { max_length: KEPT_KEYS_MAX })])
    const thread = await writer.write({ name: 'thread.patch', thread_id: threadId, metadata, now: timestamp() })
    if (!thread) throw fail('thread_not_found', { id: threadId })
    return { jsonText: threadView(thread, '{}') }
  }

  const remove = async ({ params, user }: UserCall) => {
    const threadId = params.thread_id!
    const hadFiles = await removeThread(services, threadId, user.id)
    return {
      json: {
        success: true,
        message: hadFiles ? `Deleted local thread data for ${threadId}` : `No local data for ${threadId}`
      }
    }
  }

  const path = '/api/threads/{thread_id}'
  return [
    route({
      method: 'POST',
      path: '/api/threads',
      access: 'user',
      permission: 'threads:write',
      body: createBody,
      handler: create
    }),
    route({
      method: 'POST',
      path: '/api/threads/search',
      access: 'user',
      permission: 'threads:read',
      body: searchBody,
      bodyOptional: true,
      handler: search
    }),
    route({ method: 'GET', path, access: 'user', permission: 'threads:read', thread: 'read', handler: get }),
    route({
      method: 'PATCH',
      path,
      access: 'user',
      permission: 'threads:write',
      thread: 'write',
      body: patchBody,
      handler: patch
    }),
    route({ method: 'DELETE', path, access: 'user', permission: 'threads:delete', thread: 'write', handler: remove })
  ]
}
