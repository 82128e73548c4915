// The operator's own rules in front of the routes: what each does in LangGraph's words, asked before it is done. A filter that they answer
// holds for what is found, and is written into what is made.
import { isDeepStrictEqual } from 'node:util'
import type { AccessPolicy } from '../auth/policy.ts'
import { fail } from '../errors.ts'
import type { Call, HANDLED, Reply, UserCall } from '../http/call.ts'
import type { Route } from '../http/route.ts'
import { Containment } from '../thread/contains.ts'
import { isObject, type Json, type JsonObject, type Permission, type Run } from '../types.ts'
import { type RunBody, threadIdIn } from './run-request.ts'
import type { Services } from './services.ts'

type AskServices = Pick<Services, 'store' | 'assistants'>
type Answer = Reply | typeof HANDLED
/** What a route does. Answers the call as the rules leave it, or what there is to say without it. */
type Authorization = (call: UserCall, ask: Authorizer) => Promise<UserCall | { readonly nothing: Reply }>

/** The rules, for one caller. */
export class Authorizer {
  readonly #policy: AccessPolicy
  readonly #services: AskServices
  readonly #call: Call<unknown, unknown>

  constructor(policy: AccessPolicy, services: AskServices, call: Call<unknown, unknown>) {
    this.#policy = policy
    this.#services = services
    this.#call = call
  }

  /** @returns what the metadata of whatever is found must hold; null: anything */
  async ask(resource: string, action: string, value: JsonObject): Promise<JsonObject | null> {
    const { user, grant } = this.#call
    return user === null ? null : this.#policy.authorize(resource, action, value, { user, grant })
  }

  /** Of a thread that is there. @throws Failure thread_not_found for one that the rules keep from the caller */
  async thread(action: string, threadId: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { thread_id: threadId, ...more }
    const wanted = await this.ask('threads', action, value)
    if (!(await this.isMine(threadId, wanted))) throw fail('thread_not_found', { id: threadId })
    return value
  }

  /** True for one that has no record as well: what is not there keeps nothing from anybody. */
  async isMine(threadId: string, wanted: JsonObject | null): Promise<boolean> {
    if (wanted === null) return true
    const thread = await this.#services.store.threads.get(threadId)
    return thread === null || holds(thread.metadata, wanted)
  }

  async assistant(action: string, id: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { assistant_id: id, ...more }
    const wanted = await this.ask('assistants', action, value)
    const found = wanted && (await this.#services.assistants.get(id, this.#call.user!.id))
    if (wanted && !(found && holds(found.metadata, wanted))) throw fail('assistant_not_found')
    return value
  }

  async cron(action: string, id: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { cron_id: id, ...more }
    const wanted = await this.ask('crons', action, value)
    const found = wanted && (await this.#services.store.crons.get(id))
    if (wanted && !(found && holds(found.metadata, wanted))) throw fail('cron_not_found', { id })
    return value
  }

  /** Of the runs that are to end, those of threads that hold what is wanted. */
  async runs({ thread_id, run_ids }: JsonObject, status: Json, wanted: JsonObject): Promise<string[]> {
    const { runs } = this.#services.store
    const named = Array.isArray(run_ids) ? run_ids.map((id) => runs.get(String(id))) : null
    const isMeant = (run: Run) =>
      (typeof thread_id !== 'string' || run.thread_id === thread_id) && (status === 'all' || run.status === status)
    const found = named ? await Promise.all(named) : (await runs.unfinished()).filter(isMeant)
    const kept: string[] = []
    for (const run of found)
      if (run && (await this.isMine(run.thread_id, wanted))) kept.push(run.run_id)
      else if (named) throw fail('run_not_found', { id: run?.run_id ?? '' })
    return kept
  }

  /** A run that is to be made: its body as the rules leave it. */
  async run(body: RunBody, threadId: string | null): Promise<RunBody> {
    const { assistant_id, metadata, multitask_strategy, if_not_exists, after_seconds, ...kwargs } = body
    const value: JsonObject = {
      thread_id: threadId,
      assistant_id: assistant_id ?? null,
      run_id: null,
      status: 'pending',
      metadata: { ...metadata },
      multitask_strategy: multitask_strategy ?? 'reject',
      if_not_exists: if_not_exists ?? 'reject',
      after_seconds: after_seconds ?? 0,
      // A body is JSON.
      kwargs: structuredClone(kwargs) as JsonObject
    }
    const wanted = await this.ask('threads', 'create_run', value)
    if (threadId !== null && !(await this.isMine(threadId, wanted))) throw fail('thread_not_found', { id: threadId })
    const changed = isObject(value.kwargs) ? value.kwargs : {}
    return { ...body, ...changed, metadata: stamped(value.metadata, wanted) }
  }
}

/** Whether metadata holds what a filter wants. */
export function holds(metadata: JsonObject, wanted: JsonObject): boolean {
  return new Containment().holds(metadata, wanted)
}

/** What is made under a filter can be found under it: what the rules have not said themselves stands in it. */
function stamped(metadata: Json | undefined, wanted: JsonObject | null): JsonObject {
  return { ...wanted, ...(isObject(metadata) ? metadata : {}) }
}

/** What is looked for, and what the rules want besides; null: nothing can be both. */
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

const bodyOf = ({ body }: UserCall): JsonObject => (isObject(body) ? body : {})
const withBody = (call: UserCall, more: object): UserCall => ({ ...call, body: { ...bodyOf(call), ...more } })
/** Members of a body that rules are shown. */
const shown = (body: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, structuredClone(body[name] ?? null)]))

const creating =
  (resource: string, ...names: string[]): Authorization =>
  async (call, ask) => {
    const value = { ...shown(bodyOf(call), ...names), metadata: { ...objectIn(call, 'metadata') } }
    const wanted = await ask.ask(resource, 'create', value)
    return withBody(call, { metadata: stamped(value.metadata, wanted) })
  }

/** A search finds what it looks for and what the rules want besides. */
const searching =
  (resource: string, nothing: Reply): Authorization =>
  async (call, ask) => {
    const wanted = await ask.ask(resource, 'search', structuredClone(bodyOf(call)))
    if (wanted === null) return call
    const metadata = both(objectIn(call, 'metadata'), wanted)
    return metadata === null ? { nothing } : withBody(call, { metadata })
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

/** Metadata as the rules leave it, where the request had some to say. */
function changed(call: UserCall, { metadata }: JsonObject): UserCall {
  return isObject(metadata) && 'metadata' in bodyOf(call) ? withBody(call, { metadata }) : call
}

/** The namespace as the rules leave it. */
const ofItems =
  (action: string, member: 'namespace' | 'namespace_prefix' | 'prefix', ...names: string[]): Authorization =>
  async (call, ask) => {
    const value = { namespace: structuredClone(bodyOf(call)[member] ?? []), ...shown(bodyOf(call), ...names) }
    await ask.ask('store', action, value)
    return withBody(call, { [member]: value.namespace })
  }

const gettingItem: Authorization = async (call, ask) => {
  // Both were looked at by the route's schema.
  const { namespace, key } = call.query as { namespace: string; key: string }
  const value: JsonObject = { namespace: namespace === '' ? [] : namespace.split('.'), key }
  await ask.ask('store', 'get', value)
  const named = Array.isArray(value.namespace) ? value.namespace.join('.') : namespace
  return { ...call, query: { ...(call.query as object), namespace: named } }
}

const startingRun: Authorization = async (call, ask) => {
  // The route's schema has made it.
  const body = call.body as RunBody
  return { ...call, body: await ask.run(body, call.params.thread_id ?? threadIdIn(body)) }
}

const startingRuns: Authorization = async (call, ask) => {
  const bodies: RunBody[] = []
  for (const body of call.body as RunBody[]) bodies.push(await ask.run(body, threadIdIn(body)))
  return { ...call, body: bodies }
}

/** LangGraph has one event for all that are to end. Those that the rules keep from the caller are not found. */
const cancelling: Authorization = async (call, ask) => {
  const { thread_id = null, run_ids = null, status = null } = bodyOf(call)
  const { action = 'interrupt' } = call.query as JsonObject // which the route's schema has made
  const value: JsonObject = { thread_id, action, metadata: { run_ids, status: 'pending' } }
  const wanted = await ask.ask('threads', 'update', value)
  return wanted === null ? call : withBody(call, { run_ids: await ask.runs(bodyOf(call), status, wanted) })
}

const pruning: Authorization = async (call, ask) => {
  const kept: Json[] = []
  for (const thread_id of (call.body as { thread_ids: string[] }).thread_ids) {
    const wanted = await ask.ask('threads', 'delete', { thread_id })
    if (await ask.isMine(thread_id, wanted)) kept.push(thread_id)
  }
  return withBody(call, { thread_ids: kept })
}

const copying: Authorization = async (call, ask) => {
  const value = await ask.thread('read', call.params.thread_id!)
  await ask.ask('threads', 'create', { ...value, metadata: {} })
  return call
}

const NONE: Reply = { json: [], headers: { 'X-Pagination-Total': '0' } }
const ZERO: Reply = { json: 0 }

/** What is not about one thread, by method and path. */
const ASKED: Readonly<Record<string, Authorization>> = {
  'POST /api/threads': async (call, ask) => {
    const { thread_id } = bodyOf(call)
    const value = { ...shown(bodyOf(call), 'thread_id', 'if_exists'), metadata: { ...objectIn(call, 'metadata') } }
    const wanted = await ask.ask('threads', 'create', value)
    // One that is there already is shown to who may see it.
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
  'PUT /api/store/items': ofItems('put', 'namespace', 'key', 'value'),
  'DELETE /api/store/items': ofItems('delete', 'namespace', 'key'),
  'GET /api/store/items': gettingItem,
  'POST /api/store/items/search': ofItems('search', 'namespace_prefix', 'filter', 'limit', 'offset', 'query'),
  'POST /api/store/namespaces': ofItems('list_namespaces', 'prefix', 'suffix', 'max_depth', 'limit', 'offset'),
  'POST /api/runs/crons': creating('crons', 'schedule', 'assistant_id', 'end_time', 'input', 'config'),
  'POST /api/threads/{thread_id}/runs/crons': async (call, ask) => {
    await ask.thread('read', call.params.thread_id!)
    return creating('crons', 'schedule', 'assistant_id', 'end_time', 'input', 'config')(call, ask)
  },
  'POST /api/runs/crons/search': searching('crons', NONE),
  'POST /api/runs/crons/count': searching('crons', ZERO),
  'PATCH /api/runs/crons/{cron_id}': ofCron('update'),
  'DELETE /api/runs/crons/{cron_id}': ofCron('delete'),
  'POST /api/runs': startingRun,
  'POST /api/runs/stream': startingRun,
  'POST /api/runs/wait': startingRun,
  'POST /api/runs/batch': startingRuns,
  'POST /api/runs/cancel': cancelling,
  'POST /api/threads/{thread_id}/runs': startingRun,
  'POST /api/threads/{thread_id}/runs/stream': startingRun,
  'POST /api/threads/{thread_id}/runs/wait': startingRun
}

/** What a route of one thread does, as what it asks of an API token says. */
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

/** What the rules are asked before a route does its work; null: it is no matter of theirs. */
function authorizationOf({ method, path, permission }: Route, { store }: AskServices): Authorization | null {
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

/** The routes with the rules in front of them. */
export function withPolicy(routes: readonly Route[], policy: AccessPolicy | null, services: AskServices): Route[] {
  if (policy === null) return [...routes]
  return routes.map((route) => {
    const authorization = route.access === 'user' ? authorizationOf(route, services) : null
    if (!authorization) return route
    const handler = async (call: Call<unknown, unknown>): Promise<Answer> => {
      // A route for who is signed in has a user; what the query is was looked at by its schema.
      const asked = await authorization(call as UserCall, new Authorizer(policy, services, call))
      return 'nothing' in asked ? asked.nothing : route.handler(asked)
    }
    return { ...route, handler }
  })
}

function objectIn(call: UserCall, member: string): JsonObject {
  const value = bodyOf(call)[member]
  return isObject(value) ? value : {}
}
