// The state of a thread and its history.
import * as v from 'valibot'
import type { StateChanged, StatePlace } from '../agent/states.ts'
import { fail } from '../base/errors.ts'
import { type Call, type Route, route } from '../http/route.ts'
import { listIn } from '../http/request.ts'
import { fewKeys, integer, jsonObject, listOf, objectOf, queryBoolean, queryInteger } from '../http/schema.ts'
import { arrayOf, one, ref, selectable } from './answers.ts'
import { CHANNELS_MAX, checkCount, placeIn } from './input.ts'
import { isObject, type JsonObject } from '../base/types.ts'
import type { Services } from './services.ts'

const name = v.pipe(v.string(), v.maxLength(256))

/** Usually an object; a list is several updates of a graph. */
const values = v.union([fewKeys(CHANNELS_MAX), listOf(jsonObject, CHANNELS_MAX)])

const updateBody = objectOf({
  values: v.nullish(values),
  checkpoint_id: v.nullish(name),
  checkpoint: v.nullish(jsonObject),
  as_node: v.nullish(name)
})

const select = v.nullish(listOf(name, CHANNELS_MAX))
const checkpointBody = objectOf({ checkpoint: v.nullish(jsonObject), subgraphs: v.nullish(v.boolean()), select })
const stateQuery = objectOf({ subgraphs: v.optional(queryBoolean, 'false') })

const PAGE = { min: 1, max: 100 }
const historyBody = objectOf({
  limit: v.nullish(integer(PAGE), 10),
  // A text, or LangGraph's config of a checkpoint.
  before: v.nullish(v.union([v.string(), jsonObject])),
  checkpoint: v.nullish(jsonObject),
  metadata: v.nullish(jsonObject),
  select
})

const historyQuery = objectOf({ limit: v.optional(queryInteger(PAGE), '10'), before: v.optional(name) })

/** @throws Failure when a state could not be changed */
export function writtenState(changed: StateChanged, threadId: string, base: string | null): string {
  switch (changed.outcome) {
    case 'written':
      return changed.json
    case 'busy':
      throw fail('thread_in_flight', { id: threadId })
    case 'conflict':
      throw fail('state_conflict', { id: threadId })
    case 'checkpoint_missing':
      throw fail('checkpoint_not_found', { id: base ?? threadId })
    case 'invalid': {
      const { index, message: reason } = changed
      throw index === undefined
        ? fail('state_invalid', { reason })
        : fail('message_invalid', { where: 'values.messages', index, reason })
    }
  }
}

/** What a link shows of a state: metadata has all of the run's configuration, in graphs also headers of who has begun it. */
const OF_LINK: readonly string[] = [
  'values',
  'next',
  'tasks',
  'interrupts',
  'checkpoint',
  'checkpoint_id',
  'parent_checkpoint',
  'parent_checkpoint_id',
  'created_at'
]
const isOfLink = (field: string): boolean => OF_LINK.includes(field) || field.startsWith('values.')

/** null: all of them. */
type Fields = readonly string[] | null | undefined

/** The requested members of a state; `values.<channel>`: one of its values. */
function selected(text: string, fields: Fields): string {
  if (!fields) return text
  // Serialised from an object.
  const state = JSON.parse(text) as JsonObject
  const wanted = new Set(fields)
  const channels = isObject(state.values) && !wanted.has('values') ? Object.entries(state.values) : []
  const values = channels.filter(([channel]) => wanted.has(`values.${channel}`))
  const members = Object.entries(state).filter(([member]) => wanted.has(member))
  const isPart = fields.some((field) => field.startsWith('values.')) && !wanted.has('values')
  return JSON.stringify({ ...(isPart && { values: Object.fromEntries(values) }), ...Object.fromEntries(members) })
}

export function stateRoutes({ config, states }: Services): Route[] {
  const load = async (call: Call<unknown, unknown>, place: StatePlace, withSubgraphs: boolean, fields: Fields) => {
    const threadId = call.params.thread_id!
    const text = await states.get(threadId, place, withSubgraphs, call.dialect.isBareCheckpoint)
    if (text !== null) return { jsonText: selected(text, fields) }
    const id = place.checkpointId ?? place.namespace
    throw id === '' ? fail('thread_not_found', { id: threadId }) : fail('checkpoint_not_found', { id })
  }

  const get = (call: Call<unknown, v.InferOutput<typeof stateQuery>>) => {
    const place = { checkpointId: call.params.checkpoint_id ?? null, namespace: '' }
    const fields = listIn(call, 'select')
    return call.grant?.link
      ? load(call, place, false, (fields ?? OF_LINK).filter(isOfLink))
      : load(call, place, call.query.subgraphs, fields)
  }

  const getAt = (call: Call<v.InferOutput<typeof checkpointBody>>) => {
    const { checkpoint, subgraphs, select } = call.body
    return load(call, placeIn(checkpoint, call.params.thread_id!), subgraphs === true, select)
  }

  const update = async ({ params, body, user }: Call<v.InferOutput<typeof updateBody>>) => {
    const threadId = params.thread_id!
    checkCount(isObject(body.values) ? body.values.messages : undefined, 'values.messages')
    const { checkpointId, namespace } = placeIn(body.checkpoint, threadId)
    const place = { checkpointId: body.checkpoint_id ?? checkpointId, namespace }
    const change = { place, values: body.values ?? null, asNode: body.as_node ?? null, user: user!.id }
    return { jsonText: writtenState(await states.update(threadId, change), threadId, place.checkpointId) }
  }

  type Asked = Partial<v.InferOutput<typeof historyBody>>
  const history = async ({ params, user, dialect }: Call<unknown, unknown>, body: Asked) => {
    const threadId = params.thread_id!
    const before = typeof body.before === 'string' ? body.before : placeIn(body.before, threadId).checkpointId
    const entries = await states.history(threadId, {
      limit: body.limit ?? 10,
      before,
      place: body.checkpoint ? placeIn(body.checkpoint, threadId) : null,
      metadata: body.metadata ?? null,
      user: user!.id,
      isBare: dialect.isBareCheckpoint
    })
    // Concatenation builds a rope, which is copied only once, when it is sent.
    let text = '['
    for (const one of entries) text += `${text === '[' ? '' : ','}${selected(one, body.select)}`
    return { jsonText: `${text}]` }
  }

  const path = '/api/threads/{thread_id}'
  const reading = { permission: 'threads:read', thread: 'read', rule: 'threads:read' } as const
  const pages = { ...reading, path: `${path}/history`, answers: one(arrayOf(selectable('State'))) } as const
  const shown = one(selectable('State'))
  const byGet = { ...reading, link: 'thread', method: 'GET', query: stateQuery, answers: shown, handler: get } as const
  return [
    route({ ...byGet, path: `${path}/state`, summary: 'The newest state' }),
    route({
      method: 'POST',
      path: `${path}/state`,
      permission: 'threads:write',
      thread: 'write',
      rule: 'threads:update',
      body: updateBody,
      bodyLimit: config.server.body_bytes,
      summary: 'Update the state; a title renames the thread',
      answers: one(ref('State')),
      refusals: [409],
      handler: update
    }),
    route({
      ...reading,
      method: 'POST',
      path: `${path}/state/checkpoint`,
      body: checkpointBody,
      summary: 'The state at a checkpoint',
      answers: shown,
      handler: getAt
    }),
    route({ ...byGet, path: `${path}/state/{checkpoint_id}`, summary: 'The state at a checkpoint' }),
    route({
      ...pages,
      method: 'POST',
      body: historyBody,
      bodyOptional: true,
      summary: 'Past states, newest first',
      handler: (call) => history(call, call.body)
    }),
    route({
      ...pages,
      method: 'GET',
      query: historyQuery,
      summary: 'Past states, newest first, without a body',
      handler: (call) => history(call, call.query)
    })
  ]
}
