// The operator's own auth rules in front of the routes. They are asked about each action in LangGraph's terms before the handler runs. A
// filter they return applies to what is found, and is written into the metadata of what is created.
import { isDeepStrictEqual } from 'node:util'
import type { AccessPolicy } from '../auth/policy.ts'
import { fail, Refused } from '../base/errors.ts'
import type { Call, HANDLED, Reply, Route, UserCall } from '../http/route.ts'
import { searchParams } from '../http/request.ts'
import { isObject, type Json, type JsonObject, type Permission } from '../base/types.ts'
import {
  type AskServices,
  type Authorization,
  Authorizer,
  bodyOf,
  objectIn,
  shown,
  stamped,
  withBody
} from './authorizer.ts'
import { ITEM_AUTHORIZATIONS } from './item-authorization.ts'
import { type RunBody, threadIdIn } from './run-request.ts'

type Answer = Reply | typeof HANDLED

/** The caller's filter combined with the handlers'; null: nothing can match both. */
function both(given: JsonObject, wanted: JsonObject): JsonObject | null {
  const merged: JsonObject = { ...given }
  for (const [key, one] of Object.entries(wanted)) {
    const other = given[key]
    if (other === undefined || isDeepStrictEqual(one, other)) merged[key] = one
    else if (Array.isArray(one) && Array.isArray(other)) merged[key] = [...other, ...one]
    else return null
  }
  return merged
}

// ------------------------------------------------------------------------------------------------- what routes do

const creating =
  (resource: string, ...names: string[]): Authorization =>
  async (call, ask) => {
    const value = { ...shown(bodyOf(call), ...names), metadata: { ...objectIn(call, 'metadata') } }
    const wanted = await ask.ask(resource, 'create', value)
    const { assistant_id } = bodyOf(call)
    // An existing assistant is only returned to a caller who may see it.
    if (resource === 'assistants' && typeof assistant_id === 'string' && !(await ask.isFree(assistant_id, wanted)))
      throw fail('assistant_exists')
    return withBody(call, { metadata: stamped(value.metadata, wanted) })
  }

/** Adds the handlers' filter to a search. */
const searching =
  (resource: string, none: Reply): Authorization =>
  async (call, ask) => {
    const wanted = await ask.ask(resource, 'search', structuredClone(bodyOf(call)))
    if (wanted === null) return call
    const metadata = both(objectIn(call, 'metadata'), wanted)
    return metadata === null ? { reply: none } : withBody(call, { metadata })
  }

const ofAssistant =
  (action: string, ...names: string[]): Authorization =>
  async (call, ask) =>
    changed(call, await ask.assistant(action, call.params.assistant_id!, shown(bodyOf(call), ...names)))

const ofCron =
  (action: string): Authorization =>
  async (call, ask) => {
    await ask.cron(action, call.params.cron_id!, action === 'update' ? { payload: structuredClone(bodyOf(call)) } : {})
    return call
  }

const ofThread =
  (action: string, ...names: string[]): Authorization =>
  async (call, ask) =>
    changed(call, await ask.thread(action, call.params.thread_id!, shown(bodyOf(call), ...names)))

/** Replaces the request's metadata, if it has any, with what the handlers made of it. */
function changed(call: UserCall, { metadata }: JsonObject): UserCall {
  return isObject(metadata) && 'metadata' in bodyOf(call) ? withBody(call, { metadata }) : call
}

const startingRun: Authorization = async (call, ask) => {
  // Checked by the route's schema.
  const body = call.body as RunBody
  return { ...call, body: await ask.run(body, call.params.thread_id ?? threadIdIn(body)) }
}

const startingRuns: Authorization = async (call, ask) => {
  const bodies: RunBody[] = []
  for (const body of call.body as RunBody[]) bodies.push(await ask.run(body, threadIdIn(body)))
  return { ...call, body: bodies }
}

/** Cancelling several runs is one event for the handlers; runs they hide are not found. */
const cancelling: Authorization = async (call, ask) => {
  const { thread_id = null, run_ids = null, status = null } = bodyOf(call)
  const { action = 'interrupt' } = call.query as JsonObject // checked by the route's schema
  const value: JsonObject = { thread_id, action, metadata: { run_ids, status: 'pending' } }
  const wanted = await ask.ask('threads', 'update', value)
  return wanted === null ? call : withBody(call, { run_ids: await ask.runs(bodyOf(call), status, wanted) })
}

const pruning: Authorization = async (call, ask) => {
  const kept: Json[] = []
  for (const thread_id of (call.body as { thread_ids: string[] }).thread_ids)
    if (await ask.mayRemove(thread_id)) kept.push(thread_id)
  return withBody(call, { thread_ids: kept })
}

const copying: Authorization = async (call, ask) => {
  const value = await ask.thread('read', call.params.thread_id!)
  const copy = { ...value, metadata: {} }
  // The route takes no body: what the copy bears beside the metadata of the original.
  return withBody(call, { metadata: stamped(copy.metadata, await ask.ask('threads', 'create', copy)) })
}

const NONE: Reply = { json: [], headers: { 'X-Pagination-Total': '0' } }
const ZERO: Reply = { json: 0 }

/** Authorization by method and path, for routes that are not about one thread. */
const ASKED: Readonly<Record<string, Authorization>> = {
  'POST /api/threads': async (call, ask) => {
    const { thread_id } = bodyOf(call)
    const value = { ...shown(bodyOf(call), 'thread_id', 'if_exists'), metadata: { ...objectIn(call, 'metadata') } }
    const wanted = await ask.ask('threads', 'create', value)
    // An existing thread is only returned to a caller who may see it.
    if (typeof thread_id === 'string' && !(await ask.isMine(thread_id, wanted))) throw fail('thread_exists')
    return withBody(call, { metadata: stamped(value.metadata, wanted) })
  },
  'POST /api/threads/search': searching('threads', NONE),
  'POST /api/threads/count': searching('threads', ZERO),
  'POST /api/threads/prune': pruning,
  'POST /api/threads/{thread_id}/copy': copying,
  'PATCH /api/threads/{thread_id}': ofThread('update', 'metadata'),
  'POST /api/assistants': creating('assistants', 'assistant_id', 'graph_id', 'name', 'config', 'context', 'if_exists'),
  'POST /api/assistants/search': searching('assistants', NONE),
  'POST /api/assistants/count': searching('assistants', ZERO),
  'GET /api/assistants/{assistant_id}': ofAssistant('read'),
  'PATCH /api/assistants/{assistant_id}': ofAssistant('update', 'graph_id', 'name', 'config', 'context', 'metadata'),
  'DELETE /api/assistants/{assistant_id}': ofAssistant('delete'),
  'POST /api/assistants/{assistant_id}/versions': ofAssistant('read'),
  'POST /api/assistants/{assistant_id}/latest': ofAssistant('update', 'version'),
  'GET /api/assistants/{assistant_id}/graph': ofAssistant('read'),
  'GET /api/assistants/{assistant_id}/schemas': ofAssistant('read'),
  'GET /api/assistants/{assistant_id}/subgraphs': ofAssistant('read'),
  'GET /api/assistants/{assistant_id}/subgraphs/{namespace}': ofAssistant('read'),
  ...ITEM_AUTHORIZATIONS,
  'POST /api/runs/crons': creating('crons', 'schedule', 'assistant_id', 'end_time', 'input', 'config'),
  'POST /api/threads/{thread_id}/runs/crons': async (call, ask) => {
    await ask.thread('read', call.params.thread_id!)
    return creating('crons', 'schedule', 'assistant_id', 'end_time', 'input', 'config')(call, ask)
  },
  'POST /api/runs/crons/search': searching('crons', NONE),
  'POST /api/runs/crons/count': searching('crons', ZERO),
  'PATCH /api/runs/crons/{cron_id}': ofCron('update'),
  'DELETE /api/runs/crons/{cron_id}': ofCron('delete'),
  'GET /api/stream': async (call, ask) => {
    const threads = searchParams(call).get('threads') ?? '*'
    if (threads === '*') throw new Refused(403, 'Where the project has rules of its own, a stream names its threads')
    for (const id of threads.split(',').filter(Boolean)) await ask.thread('read', id)
    return call
  },
  'POST /api/runs': startingRun,
  'POST /api/runs/stream': startingRun,
  'POST /api/runs/wait': startingRun,
  'POST /api/runs/batch': startingRuns,
  'POST /api/runs/cancel': cancelling,
  'POST /api/threads/{thread_id}/runs': startingRun,
  'POST /api/threads/{thread_id}/runs/stream': startingRun,
  'POST /api/threads/{thread_id}/runs/wait': startingRun
}

/** For routes about one thread: the action, derived from the permission the route needs. */
const BY_PERMISSION: Readonly<Record<Permission, string>> = {
  'threads:read': 'read',
  'threads:write': 'update',
  'threads:delete': 'delete',
  'runs:create': 'read',
  'runs:read': 'read',
  'runs:cancel': 'update',
  'store:read': 'read',
  'store:write': 'update'
}

/** The authorization to run before a route's handler; null: none. */
function authorizationOf({ method, path, permission, rule }: Route, { store }: AskServices): Authorization | null {
  if (typeof rule === 'function') return (call, ask) => rule(call, ask.ask.bind(ask))
  if (rule === null) return null
  if (rule && path.includes('{thread_id}')) return ofThread(rule.slice('threads:'.length))
  const named = ASKED[`${method} ${path}`]
  if (named) return named
  if (path.includes('{thread_id}')) {
    const known = permission === null || permission === 'any' ? undefined : BY_PERMISSION[permission]
    return ofThread(known ?? (method === 'GET' ? 'read' : 'update'))
  }
  if (!path.includes('{run_id}')) return null
  return async (call, ask) => {
    const run = await store.runs.get(call.params.run_id!)
    if (run) await ask.thread('read', run.thread_id).catch(() => fail('run_not_found', { id: run.run_id }))
    return call
  }
}

/** Puts the operator's auth handlers in front of the routes. */
export function withPolicy(routes: readonly Route[], policy: AccessPolicy | null, services: AskServices): Route[] {
  if (policy === null) return [...routes]
  return routes.map((route) => {
    const authorization = route.access === 'user' ? authorizationOf(route, services) : null
    if (!authorization) return route
    const handler = async (call: Call<unknown, unknown>): Promise<Answer> => {
      // Routes for signed-in users have a user; the query was validated by its schema.
      const asked = await authorization(call as UserCall, new Authorizer(policy, services, call))
      return 'reply' in asked ? asked.reply : route.handler(asked)
    }
    return { ...route, handler }
  })
}
