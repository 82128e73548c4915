// The project's auth rules in front of the routes. They are asked about each action in LangGraph's terms before the handler runs. A
// filter they return applies to what is found, and is written into the metadata of what is created.
import { isDeepStrictEqual } from 'node:util'
import { fail } from '../base/errors.ts'
import { isObject, type Json, type JsonObject, type Run } from '../base/types.ts'
import type { AskRules, Authorization, Call, HANDLED, Reply, Route, UserCall } from '../http/route.ts'
import { Containment } from '../thread/contains.ts'
import { type RunBody, threadIdIn } from './run-request.ts'
import type { AccessRules, Services } from './services.ts'

type AskServices = Pick<Services, 'store'>

/** The rules, asked for one caller. */
export class Authorizer {
  readonly #store: Services['store']
  readonly ask: AskRules

  constructor({ store }: AskServices, ask: AskRules) {
    this.#store = store
    this.ask = ask
  }

  /** For an existing thread. @throws Failure thread_not_found if the rules hide it */
  async thread(action: string, threadId: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { thread_id: threadId, ...more }
    const wanted = await this.ask('threads', action, value)
    if (!(await this.isMine(threadId, wanted))) throw fail('thread_not_found', { id: threadId })
    return value
  }

  /** Whether the rules let the caller delete a thread; false: they hide it. @throws Failure what they refuse with */
  async mayRemove(thread_id: string): Promise<boolean> {
    return this.isMine(thread_id, await this.ask('threads', 'delete', { thread_id }))
  }

  /** Also true for a thread without a record, which has nothing to hide. */
  async isMine(threadId: string, wanted: JsonObject | null): Promise<boolean> {
    if (wanted === null) return true
    const thread = await this.#store.threads.get(threadId)
    return thread === null || holds(thread.metadata, wanted)
  }

  /** The runs to cancel whose threads match the filter. */
  async runs({ thread_id, run_ids }: JsonObject, status: Json, wanted: JsonObject): Promise<string[]> {
    const { runs } = this.#store
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

  /** The body of a new run, as the rules changed it. */
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

// ------------------------------------------------------------------------------------------------- filters, bodies

/** Whether metadata matches a filter. */
export function holds(metadata: JsonObject, wanted: JsonObject): boolean {
  return new Containment().holds(metadata, wanted)
}

/** The metadata of a new record, which the filter will find whatever the caller says; a list holds what the filter wants besides. */
export function stamped(metadata: Json | undefined, wanted: JsonObject | null): JsonObject {
  const made: JsonObject = isObject(metadata) ? { ...metadata } : {}
  for (const [key, one] of Object.entries(wanted ?? {})) {
    const given = made[key]
    made[key] =
      Array.isArray(one) && Array.isArray(given) ? [...given, ...one.filter((item) => !given.includes(item))] : one
  }
  return made
}

/** The caller's filter combined with the rules'; null: nothing can match both. */
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

export const bodyOf = ({ body }: UserCall): JsonObject => (isObject(body) ? body : {})
export const withBody = (call: UserCall, more: object): UserCall => ({ ...call, body: { ...bodyOf(call), ...more } })
/** Members of a body, copied for the rules. */
export const shown = (body: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, structuredClone(body[name] ?? null)]))

/** Replaces the request's metadata, if it has any, with what the rules made of it. */
export function changed(call: UserCall, { metadata }: JsonObject): UserCall {
  return isObject(metadata) && 'metadata' in bodyOf(call) ? withBody(call, { metadata }) : call
}

function metadataIn(call: UserCall): JsonObject {
  const { metadata } = bodyOf(call)
  return isObject(metadata) ? metadata : {}
}

// ------------------------------------------------------------------------------------------------- rules of rows

/**
 * A record is created from these members of the body.
 * @param check throws when a record of this id is there that the rules hide from the caller: it is not returned
 */
export function creating(
  resource: string,
  names: readonly string[],
  check?: (call: UserCall, ask: AskRules, wanted: JsonObject | null) => Promise<void>
): Authorization {
  return async (call, ask) => {
    const value = { ...shown(bodyOf(call), ...names), metadata: { ...metadataIn(call) } }
    const wanted = await ask(resource, 'create', value)
    await check?.(call, ask, wanted)
    return withBody(call, { metadata: stamped(value.metadata, wanted) })
  }
}

/** Adds the rules' filter to a search. `none`: the reply when nothing can match. */
function narrowing(resource: string, none: Reply): Authorization {
  return async (call, ask) => {
    const wanted = await ask(resource, 'search', structuredClone(bodyOf(call)))
    if (wanted === null) return call
    const metadata = both(metadataIn(call), wanted)
    return metadata === null ? { reply: none } : withBody(call, { metadata })
  }
}
export const searching = (resource: string) => narrowing(resource, { json: [], headers: { 'X-Pagination-Total': '0' } })
export const counting = (resource: string) => narrowing(resource, { json: 0 })

/** About the thread in the path, with these members of the body. */
export function onThread(services: AskServices, action: string, ...names: string[]): Authorization {
  return async (call, ask) => {
    const authorizer = new Authorizer(services, ask)
    return changed(call, await authorizer.thread(action, call.params.thread_id!, shown(bodyOf(call), ...names)))
  }
}

/** About the thread of the run in the path. */
function onThreadOfRun(services: AskServices): Authorization {
  return async (call, ask) => {
    const run = await services.store.runs.get(call.params.run_id!)
    const hidden = () => fail('run_not_found', { id: call.params.run_id! })
    if (run) await new Authorizer(services, ask).thread('read', run.thread_id).catch(hidden)
    return call
  }
}

export function startingRun(services: AskServices): Authorization {
  return async (call, ask) => {
    // Checked by the route's schema.
    const body = call.body as RunBody
    const threadId = call.params.thread_id ?? threadIdIn(body)
    return { ...call, body: await new Authorizer(services, ask).run(body, threadId) }
  }
}

function authorizationOf({ rule, path }: Route, services: AskServices): Authorization | null {
  if (typeof rule !== 'string') return rule
  if (!path.includes('{thread_id}')) return onThreadOfRun(services)
  return onThread(services, rule.slice('threads:'.length))
}

/** Puts the project's auth rules in front of the rows' handlers. */
export function withRules(routes: readonly Route[], rules: AccessRules | null, services: AskServices): Route[] {
  if (rules === null) return [...routes]
  return routes.map((route) => {
    const authorization = authorizationOf(route, services)
    if (!authorization) return route
    const handler = async (call: Call<unknown, unknown>): Promise<Reply | typeof HANDLED> => {
      // A row with a rule has a user; the query was validated by its schema.
      const asked = await authorization(call as UserCall, rules.askFor(call))
      return 'reply' in asked ? asked.reply : route.handler(asked)
    }
    return { ...route, handler }
  })
}
