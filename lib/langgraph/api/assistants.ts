// Assistants: search, create, get, update, delete, versions; and information about their graphs.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import type { User } from '../../base/accounts.ts'
import { Failure, fail } from '../../base/errors.ts'
import { type Route, route, type UserCall } from '../../http/route.ts'
import { integer, isWithin, jsonObject, listOf, metadata, objectOf, queryBoolean } from '../../http/schema.ts'
import { configWithoutReserved, withoutReserved } from '../../base/reserved.ts'
import type { AssistantPatch } from '../../store/store.ts'
import { isUuid } from '../../thread/assistants.ts'
import { Containment } from '../../thread/contains.ts'
import { ASSISTANTS_MAX, VERSIONS_MAX } from '../../thread/personas.ts'
import { type Assistant, type JsonObject, timestamp } from '../../base/types.ts'
import {
  arrayOf,
  int64,
  mapOf,
  one as answer,
  anObject,
  paged,
  ref,
  selectable,
  text as string
} from '../../routes/answers.ts'
import { Authorizer, counting, searching } from '../../routes/authorization.ts'
import { costly, tooLong } from '../../routes/input.ts'
import { orderEntry, pageEntries, pageReply, sorted } from '../../routes/page.ts'
import { ownThreads, removeThread } from '../../routes/remove-thread.ts'
import type { Services } from '../../routes/services.ts'
import { creatingAssistant, onAssistant } from './authorization.ts'

/** Size of an assistant: a search reads all assistants of the user. */
const BODY_BYTES = 32 * 1024
const text = v.pipe(v.string(), v.maxLength(1024))
const graphId = v.pipe(v.string(), v.minLength(1), v.maxLength(128))
const assistantId = v.pipe(
  v.string(),
  v.maxLength(64),
  v.check(isUuid, 'Value error, must be a UUID'),
  v.transform((id) => id.toLowerCase())
)
const content = {
  name: v.nullish(text),
  description: v.nullish(text),
  config: v.nullish(jsonObject),
  context: v.nullish(jsonObject),
  metadata: v.nullish(metadata)
}
const createBody = objectOf({
  ...content,
  graph_id: graphId,
  assistant_id: v.nullish(assistantId),
  if_exists: v.nullish(v.picklist(['raise', 'do_nothing']), 'raise')
})
const updateBody = objectOf({ ...content, graph_id: v.nullish(graphId) })

const filters = { metadata: v.nullish(metadata), graph_id: v.nullish(graphId), name: v.nullish(text) }
const countBody = objectOf(filters)
const searchBody = objectOf({
  ...filters,
  ...pageEntries,
  sort_by: v.nullish(v.picklist(['assistant_id', 'created_at', 'updated_at', 'name', 'graph_id']), 'created_at'),
  sort_order: orderEntry,
  select: v.nullish(listOf(v.string(), 64))
})
const versionsBody = objectOf({ ...pageEntries, metadata: v.nullish(metadata) })
const latestBody = objectOf({ version: integer({ min: 1 }) })
const deleteQuery = objectOf({ delete_threads: v.optional(queryBoolean, 'false') })
const subgraphsQuery = objectOf({ recurse: v.optional(queryBoolean, 'false') })

/** true, false, or the depth. */
const drawQuery = objectOf({
  xray: v.optional(
    v.union([
      queryBoolean,
      v.pipe(
        v.string(),
        v.regex(/^[0-9]{1,2}$/),
        v.transform((depth) => Number(depth))
      )
    ]),
    'false'
  )
})

const view = ({ user_id: _, ...shown }: Assistant): Omit<Assistant, 'user_id'> => shown

/** The members that a body sets, without reserved ones; null counts as absent. */
function contentIn(body: v.InferOutput<typeof updateBody>): AssistantPatch {
  const { graph_id, name, description, config, context, metadata } = body
  return {
    ...(graph_id && { graph_id }),
    ...(name && { name }),
    ...(typeof description === 'string' && { description }),
    ...(config && { config: configWithoutReserved(config) }),
    ...(context && { context: withoutReserved(context) }),
    ...(metadata && { metadata: withoutReserved(metadata) })
  }
}

export function assistantRoutes(services: Services): Route[] {
  const { assistants, states, store, writer, access } = services

  const found = async ({ params, user }: UserCall): Promise<Assistant> => {
    const assistant = await assistants.shown(params.assistant_id!, user.id)
    if (!assistant) throw fail('assistant_not_found')
    return assistant
  }

  /** The same, for one the caller may change. */
  const own = async (call: UserCall): Promise<Assistant> => {
    const assistant = await found(call)
    if (assistants.isSystem(assistant.assistant_id)) throw fail('assistant_is_system', { id: assistant.assistant_id })
    return assistant
  }

  const needGraph = (id: string, user: User): void => {
    if (!assistants.hasGraph(id)) throw fail('graph_not_found', { id })
    if (!access.mayUse('agents', id, user)) throw fail('agent_not_allowed', { name: id })
  }

  const create = async ({ body, user }: UserCall<v.InferOutput<typeof createBody>>) => {
    needGraph(body.graph_id, user)
    const id = body.assistant_id ?? randomUUID()
    const system = assistants.isSystem(id) ? await assistants.shown(id, user.id) : null
    if (system && body.if_exists === 'do_nothing') return { json: view(system) }
    if (assistants.isSystem(id)) throw fail('assistant_exists')
    const now = timestamp()
    const assistant: Assistant = {
      assistant_id: id,
      user_id: user.id,
      name: 'Untitled',
      description: null,
      config: {},
      context: {},
      metadata: {},
      ...contentIn(body),
      graph_id: body.graph_id,
      version: 1,
      created_at: now,
      updated_at: now
    }
    const made = await writer.write({ name: 'assistant.create', assistant, max: ASSISTANTS_MAX })
    if (made.outcome === 'too_many') throw fail('assistants_full', { max: ASSISTANTS_MAX })
    if (made.outcome === 'taken' || (!made.created && body.if_exists !== 'do_nothing')) throw fail('assistant_exists')
    return { json: view(made.assistant) }
  }

  const matching = (body: v.InferOutput<typeof countBody>, user: string): Promise<Assistant[]> => {
    const { graph_id, name, metadata } = body
    const query = { graphId: graph_id ?? null, name: name ?? null, metadata: metadata ?? {} }
    return assistants.search(query, user).catch(costly)
  }

  const search = async ({ body, user }: UserCall<v.InferOutput<typeof searchBody>>) =>
    pageReply(sorted(await matching(body, user.id), body.sort_by, 'assistant_id', body.sort_order).map(view), body)

  const update = async (call: UserCall<v.InferOutput<typeof updateBody>>) => {
    const { assistant_id, config, context, metadata } = await own(call)
    const set = contentIn(call.body)
    if (set.graph_id) needGraph(set.graph_id, call.user)
    const merged = { config, context, ...set, metadata: { ...metadata, ...set.metadata } }
    if (!isWithin(merged, BODY_BYTES)) throw tooLong(['body'], BODY_BYTES)
    const now = timestamp()
    const updated = await writer.write({ name: 'assistant.update', assistant_id, set, keep: VERSIONS_MAX, now })
    if (!updated) throw fail('assistant_not_found')
    return { json: view(updated) }
  }

  const setLatest = async (call: UserCall<v.InferOutput<typeof latestBody>>) => {
    const assistant = await found(call)
    const { assistant_id, version } = assistant
    const { version: wanted } = call.body
    if (wanted === version) return { json: view(assistant) }
    const change = { assistant_id, version: wanted, now: timestamp() }
    const chosen = await writer.write({ name: 'assistant.setVersion', ...change })
    if (!chosen) throw fail('assistant_version_missing', { id: assistant_id, version: wanted })
    return { json: view(chosen) }
  }

  const versions = async (call: UserCall<v.InferOutput<typeof versionsBody>>) => {
    const assistant = await found(call)
    const { user_id: _, updated_at: __, ...first } = assistant
    const stored = await store.assistants.versions(assistant.assistant_id)
    const all = assistants.isSystem(assistant.assistant_id) ? [first] : stored
    const { limit, offset, metadata } = call.body
    const matching = await new Containment().among(all, metadata ?? {}).catch(costly)
    return pageReply(matching, { limit, offset })
  }

  /**
   * The caller's threads of the assistant, but those that the operator's rules hide.
   * @throws Failure what the rules refuse with, before anything is removed
   */
  const threadsToRemove = async (call: UserCall, assistant_id: string): Promise<string[]> => {
    const threads = await ownThreads(services, { assistant_id }, call.user.id)
    if (!services.policy) return threads
    const ask = new Authorizer(services, services.policy.askFor(call))
    const kept: string[] = []
    for (const id of threads) if (await ask.mayRemove(id)) kept.push(id)
    return kept
  }

  const remove = async (call: UserCall<unknown, v.InferOutput<typeof deleteQuery>>) => {
    const { assistant_id } = await own(call)
    const threads = call.query.delete_threads ? await threadsToRemove(call, assistant_id) : []
    if (!(await writer.write({ name: 'assistant.remove', assistant_id }))) throw fail('assistant_not_found')
    for (const id of threads) await removeThread(services, id, call.user.id).catch(alreadyGone)
    return { json: [assistant_id] }
  }

  /** Information about the graph of an assistant. */
  const ofGraph = async (call: UserCall, ask: (graphId: string, config: JsonObject) => Promise<JsonObject | null>) => {
    const { graph_id, config } = await found(call)
    const told = await ask(graph_id, config)
    if (!told) throw fail('graph_not_found', { id: graph_id })
    return { json: told }
  }

  const subgraphs = (call: UserCall<unknown, v.InferOutput<typeof subgraphsQuery>>) =>
    ofGraph(call, (id, config) => states.subgraphs(id, call.params.namespace ?? null, call.query.recurse, config))

  const all = '/api/assistants'
  const one = `${all}/{assistant_id}`
  const asking = { permission: 'threads:read', rule: onAssistant(services, 'read') } as const
  const reading = { ...asking, method: 'GET' } as const
  const finding = { method: 'POST', permission: 'threads:read', bodyOptional: true } as const
  const writing = { permission: 'threads:write', answers: answer(ref('Assistant')) } as const
  const listing = { ...reading, query: subgraphsQuery, answers: answer(mapOf(anObject)), handler: subgraphs } as const
  const members = ['graph_id', 'name', 'config', 'context', 'metadata']
  return [
    route({
      ...writing,
      method: 'POST',
      path: all,
      body: createBody,
      bodyLimit: BODY_BYTES,
      rule: creatingAssistant(services),
      summary: 'Create an assistant for a graph, at version 1',
      refusals: [404, 409],
      handler: create
    }),
    route({
      ...finding,
      path: `${all}/search`,
      body: searchBody,
      rule: searching('assistants'),
      summary: 'Search assistants, including the default one of each graph',
      answers: paged(arrayOf(selectable('Assistant'))),
      handler: search
    }),
    route({
      ...finding,
      path: `${all}/count`,
      body: countBody,
      rule: counting('assistants'),
      summary: 'Count assistants',
      answers: answer(int64),
      handler: async ({ body, user }) => ({ json: (await matching(body, user.id)).length })
    }),
    route({
      ...reading,
      path: one,
      summary: 'Get an assistant by its id, or by the name of its graph',
      answers: answer(ref('Assistant')),
      handler: async (call) => ({ json: view(await found(call)) })
    }),
    route({
      ...writing,
      method: 'PATCH',
      path: one,
      body: updateBody,
      bodyLimit: BODY_BYTES,
      rule: onAssistant(services, 'update', ...members),
      summary: 'Update an assistant; this creates a new version',
      refusals: [409],
      handler: update
    }),
    route({
      method: 'DELETE',
      path: one,
      permission: 'threads:delete',
      query: deleteQuery,
      rule: onAssistant(services, 'delete'),
      summary: 'Delete an assistant, and its threads with `delete_threads`',
      answers: answer(arrayOf(string)),
      refusals: [409],
      handler: remove
    }),
    route({
      ...asking,
      method: 'POST',
      path: `${one}/versions`,
      body: versionsBody,
      bodyOptional: true,
      summary: 'Versions of an assistant, newest first',
      answers: paged(arrayOf(ref('AssistantVersion'))),
      handler: versions
    }),
    route({
      ...writing,
      method: 'POST',
      path: `${one}/latest`,
      body: latestBody,
      rule: onAssistant(services, 'update', 'version'),
      summary: 'Select the active version of an assistant',
      handler: setLatest
    }),
    route({
      ...reading,
      path: `${one}/graph`,
      query: drawQuery,
      summary: 'Nodes and edges of its graph, for drawing',
      answers: answer(ref('Drawing')),
      handler: (call) => ofGraph(call, (id, config) => states.draw(id, call.query.xray, config))
    }),
    route({
      ...reading,
      path: `${one}/schemas`,
      summary: 'JSON schemas of its graph',
      answers: answer(ref('GraphSchemas')),
      handler: (call) => ofGraph(call, (id, config) => states.schemas(id, config))
    }),
    route({ ...listing, path: `${one}/subgraphs`, summary: 'JSON schemas of its subgraphs' }),
    route({
      ...listing,
      path: `${one}/subgraphs/{namespace}`,
      summary: 'JSON schemas of the subgraphs in a namespace'
    })
  ]
}

/** Somebody else has removed the thread meanwhile. */
function alreadyGone(error: unknown): void {
  if (!(error instanceof Failure && error.code === 'thread_not_found')) throw error
}
