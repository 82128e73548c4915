// Threads: create, copy, get, patch, delete; the search for them is in thread-search.ts.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { Failure, fail } from '../base/errors.ts'
import { type Authorization, route, type Route, type UserCall } from '../http/route.ts'
import { id, isWithin, json, jsonObject, listOf, metadata, METADATA_LENGTH_MAX, objectOf } from '../http/schema.ts'
import { withoutReserved } from '../base/reserved.ts'
import { legacyThread } from '../thread/checkpoint.ts'
import { storedJson } from '../thread/state.ts'
import { minutesIn, Removals } from '../jobs/removals.ts'
import type { Job } from '../store/store.ts'
import { refuseHeld } from '../thread/holds.ts'
import { inheritedMetadata, newThread } from '../thread/thread.ts'
import { isObject, type JsonObject, type Thread, timestamp } from '../base/types.ts'
import { int, nothing, one, ref, shaped, success } from './answers.ts'
import { Authorizer, bodyOf, creating, onThread, stamped, withBody } from './authorization.ts'
import { tooLong } from './input.ts'
import { removeThread } from './remove-thread.ts'
import type { Services } from './services.ts'
import { writtenState } from './state.ts'
import { threadSearchRoutes } from './thread-search.ts'
import { recordText } from './thread-view.ts'

const PRUNED_MAX = 100
const SUPERSTEPS_MAX = 1000
/** Ten years. */
const TTL_MINUTES_MAX = 5_256_000
const NO_STATE = { json: '{}', interrupts: {} }
/** Maximum metadata keys a thread may accumulate. */
const KEPT_KEYS_MAX = 1024

const superstepList = listOf(
  objectOf({
    updates: listOf(
      objectOf({
        values: v.nullish(json),
        command: v.nullish(jsonObject),
        as_node: v.nullish(v.pipe(v.string(), v.maxLength(256)))
      }),
      SUPERSTEPS_MAX
    )
  }),
  SUPERSTEPS_MAX
)

/** A number of minutes, or the object that LangGraph's clients send. */
const minutes = v.pipe(v.number(), v.finite(), v.gtValue(0), v.maxValue(TTL_MINUTES_MAX))
const ttl = v.nullish(
  v.union([
    minutes,
    v.pipe(
      objectOf({ ttl: minutes, strategy: v.nullish(v.picklist(['delete'])) }),
      v.transform((given) => given.ttl)
    )
  ])
)

const createBody = objectOf({
  thread_id: v.nullish(id),
  assistant_id: v.nullish(v.pipe(v.string(), v.maxLength(128))),
  metadata: v.nullish(metadata, {}),
  if_exists: v.nullish(v.picklist(['raise', 'do_nothing'])),
  supersteps: v.nullish(superstepList),
  ttl
})

const patchBody = objectOf({ metadata: v.nullish(metadata, {}), ttl })
const patchStateBody = objectOf({ metadata: v.nullish(metadata, {}) })
/** Optional fields to include; `ttl` is the only one. */
const getQuery = objectOf({ include: v.optional(v.string()) })
const pruneBody = objectOf({
  thread_ids: listOf(id, PRUNED_MAX),
  strategy: v.nullish(v.picklist(['delete', 'keep_latest']), 'delete')
})

export function threadRoutes(services: Services): Route[] {
  const { config, limits, store, states, writer } = services

  const create = async (call: UserCall<v.InferOutput<typeof createBody>>) => {
    const { body, user } = call
    const threadId = body.thread_id ?? randomUUID()
    const given = {
      thread_id: threadId,
      user_id: user.id,
      assistant_id: body.assistant_id ?? null,
      metadata: body.metadata ?? {}
    }
    const ttl = body.ttl ? Removals.ttl(threadId, user.id, body.ttl) : null
    const made = await limits.createThread({ ...newThread(given, timestamp()), ...(ttl && { removal: ttl }) })
    // The id belongs to another user: answered as if it did not exist.
    if (!made) throw fail('thread_not_found', { id: threadId })
    // Creating a thread is idempotent [spec], where the client's dialect does not say otherwise.
    const raises = body.if_exists === 'raise' || (!body.if_exists && call.dialect.existingThread === 'raise')
    if (!made.created && raises) throw fail('thread_exists')
    if (made.created && body.supersteps?.length) await build(made.thread, body.supersteps, user.id)
    const removal = made.created && ttl ? await store.jobs.get('removal', threadId) : null
    return { jsonText: recordText(call, made.thread, NO_STATE, removal) }
  }

  const setTtl = async ({ thread_id, user_id }: Thread, minutes: number): Promise<Job | null> => {
    await writer.write({ name: 'job.put', job: Removals.ttl(thread_id, user_id, minutes) })
    return store.jobs.get('removal', thread_id)
  }

  /** Imports a history. If it is invalid, the thread is deleted again. */
  const build = async (
    { thread_id, metadata }: Thread,
    supersteps: v.InferOutput<typeof superstepList>,
    user: string
  ): Promise<void> => {
    const graph = typeof metadata.graph_id === 'string' ? metadata.graph_id : null
    const steps = supersteps.map(({ updates }) =>
      updates.map(({ values, as_node, command }) => ({
        values: values ?? null,
        asNode: as_node ?? null,
        command: command ?? null
      }))
    )
    try {
      writtenState(await states.build(thread_id, graph, steps), thread_id, null)
    } catch (error) {
      await removeThread(services, thread_id, user)
      throw error
    }
  }

  /** Copies the record, the name and all states, but no runs. */
  const copy = async (call: UserCall) => {
    const from = call.params.thread_id!
    const original = await store.threads.get(from)
    if (!original) throw fail('thread_not_found', { id: from })
    const { assistant_id, display_name, status } = original
    const thread_id = randomUUID()
    // Of the operator's rules; clients send no body.
    const stamp = isObject(call.body) && isObject(call.body.metadata) ? call.body.metadata : {}
    const given = {
      thread_id,
      user_id: call.user.id,
      assistant_id,
      metadata: { ...stamped(inheritedMetadata(original), stamp), thread_id }
    }
    const { thread, checkpoint } = newThread(given, timestamp())
    // An open interrupt stays open in both threads.
    const waits = status === 'interrupted' ? { status } : {}
    const copied = { ...thread, display_name, ...waits }
    const made = await limits.createThread({ thread: copied, checkpoint })
    if (!made) throw fail('thread_not_found', { id: thread_id })
    try {
      await states.copy(from, thread_id)
    } catch (error) {
      await removeThread(services, thread_id, call.user.id)
      throw error
    }
    return { jsonText: recordText(call, made.thread, NO_STATE) }
  }

  /** False: it was deleted meanwhile; or keeps all of its states, for a run of it is in flight. */
  const pruned = async (threadId: string, strategy: string | null, userId: string): Promise<boolean> => {
    if (strategy === 'keep_latest') return writer.write({ name: 'state.prune', thread_id: threadId })
    try {
      await removeThread(services, threadId, userId)
      return true
    } catch (error) {
      if (error instanceof Failure && error.code === 'thread_not_found') return false
      throw error
    }
  }

  const prune = async ({ body, user }: UserCall<v.InferOutput<typeof pruneBody>>) => {
    // Missing threads and those of other users are skipped.
    const found = await Promise.all([...new Set(body.thread_ids)].map((threadId) => store.threads.get(threadId)))
    const threads = found.flatMap((thread) => thread?.thread_id ?? [])
    // Before anything goes: all of it is refused, and not what happens to come behind the first that is held.
    for (const threadId of threads) await refuseHeld(store, 'thread', threadId)
    let pruned_count = 0
    for (const threadId of threads) if (await pruned(threadId, body.strategy, user.id)) pruned_count++
    return { json: { pruned_count } }
  }

  const get = async (call: UserCall<unknown, v.InferOutput<typeof getQuery>>) => {
    const threadId = call.params.thread_id!
    const reads = [
      store.threads.get(threadId),
      states.values(threadId, null),
      store.jobs.get('removal', threadId)
    ] as const
    const [thread, state, removal] = await Promise.all(reads)
    // Made for a run that has ended: its runs are there until nobody can need them.
    if (thread && removal && minutesIn(removal.payload) === 0 && thread.status !== 'running')
      throw fail('thread_not_found', { id: threadId })
    if (thread) {
      const wantsTtl = call.query.include !== undefined || call.dialect.showsTtl
      return { jsonText: recordText(call, thread, state ?? NO_STATE, wantsTtl ? removal : null) }
    }
    const stored = await store.checkpoints.load(threadId, null)
    if (!stored) throw fail('thread_not_found', { id: threadId })
    return { jsonText: recordText(call, legacyThread(stored), { ...NO_STATE, ...state, json: storedJson(stored) }) }
  }

  const patched = async (threadId: string, given: JsonObject): Promise<Thread> => {
    const metadata = withoutReserved(given)
    const merged = { ...(await store.threads.get(threadId))?.metadata, ...metadata }
    if (Object.keys(merged).length > KEPT_KEYS_MAX) throw tooLong(['body', 'metadata'], KEPT_KEYS_MAX)
    if (!isWithin(merged, METADATA_LENGTH_MAX)) throw tooLong(['body', 'metadata'], METADATA_LENGTH_MAX)
    const thread = await writer.write({ name: 'thread.patch', thread_id: threadId, metadata, now: timestamp() })
    if (!thread) throw fail('thread_not_found', { id: threadId })
    return thread
  }

  const patch = async (call: UserCall<v.InferOutput<typeof patchBody>>) => {
    const { params, body, req } = call
    const thread = await patched(params.thread_id!, body.metadata ?? {})
    const ttl = body.ttl ? await setTtl(thread, body.ttl) : null
    if (/\breturn=minimal\b/.test(String(req.headers.prefer))) return { status: 204 }
    return { jsonText: recordText(call, thread, NO_STATE, ttl) }
  }

  /** The older form in LangGraph's API. */
  const patchState = async ({ params, body }: UserCall<v.InferOutput<typeof patchStateBody>>) => {
    await patched(params.thread_id!, body.metadata ?? {})
    return { status: 204 }
  }

  const remove = async ({ params, user }: UserCall) => {
    const threadId = params.thread_id!
    const hadFiles = await removeThread(services, threadId, user.id)
    const message = hadFiles ? `Deleted local thread data for ${threadId}` : `No local data for ${threadId}`
    return { json: { success: true, message } }
  }

  const all = '/api/threads'
  const thread = `${all}/{thread_id}`
  const writing = { permission: 'threads:write', thread: 'write' } as const
  const record = one(ref('Thread'))
  return [
    route({
      method: 'POST',
      path: all,
      permission: 'threads:write',
      body: createBody,
      bodyLimit: config.server.body_bytes,
      rule: creatingThread(services),
      summary: 'Create a thread; an existing id returns that thread',
      answers: record,
      refusals: [404, 409],
      handler: create
    }),
    ...threadSearchRoutes(services),
    route({
      ...writing,
      method: 'PATCH',
      path: `${thread}/state`,
      body: patchStateBody,
      rule: 'threads:update',
      summary: 'Merge into the metadata of a thread',
      answers: nothing,
      handler: patchState
    }),
    route({
      method: 'POST',
      path: `${all}/prune`,
      permission: 'threads:delete',
      body: pruneBody,
      rule: pruning(services),
      summary: 'Delete several threads, or all but the newest state of each',
      answers: one(shaped({ pruned_count: int })),
      refusals: [404, 409],
      handler: prune
    }),
    route({
      ...writing,
      method: 'POST',
      path: `${thread}/copy`,
      rule: copying(services),
      summary: 'Copy a thread with its states',
      answers: record,
      handler: copy
    }),
    route({
      method: 'GET',
      path: thread,
      permission: 'threads:read',
      thread: 'read',
      link: 'thread',
      query: getQuery,
      rule: 'threads:read',
      summary: 'A thread with its state',
      answers: record,
      handler: get
    }),
    route({
      ...writing,
      method: 'PATCH',
      path: thread,
      body: patchBody,
      rule: onThread(services, 'update', 'metadata'),
      summary: 'Merge into the metadata of a thread',
      answers: record,
      handler: patch
    }),
    route({
      method: 'DELETE',
      refusals: [409],
      path: thread,
      permission: 'threads:delete',
      thread: 'write',
      rule: 'threads:delete',
      summary: 'Delete a thread with everything that belongs to it',
      answers: success,
      handler: remove
    })
  ]
}

// ------------------------------------------------------------------------------------------------------------- rules

function creatingThread(services: Services): Authorization {
  return creating('threads', ['thread_id', 'if_exists'], async (call, ask, wanted) => {
    const { thread_id: id } = bodyOf(call)
    if (typeof id === 'string' && !(await new Authorizer(services, ask).isMine(id, wanted))) throw fail('thread_exists')
  })
}

function pruning(services: Services): Authorization {
  return async (call, ask) => {
    const authorizer = new Authorizer(services, ask)
    const kept: string[] = []
    // Checked by the route's schema.
    for (const id of (call.body as { thread_ids: string[] }).thread_ids)
      if (await authorizer.mayRemove(id)) kept.push(id)
    return withBody(call, { thread_ids: kept })
  }
}

function copying(services: Services): Authorization {
  return async (call, ask) => {
    const value = await new Authorizer(services, ask).thread('read', call.params.thread_id!)
    const copy = { ...value, metadata: {} }
    // The route takes no body: what the copy bears beside the metadata of the original.
    return withBody(call, { metadata: stamped(copy.metadata, await ask('threads', 'create', copy)) })
  }
}
