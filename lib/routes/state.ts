// The state of a thread and its history.
import * as v from 'valibot'
import { fail } from '../errors.ts'
import type { Call } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import { fewKeys, integer, jsonObject, objectOf } from '../http/schema.ts'
import type { StoredCheckpoint } from '../store/store.ts'
import { decorated, headView, historyView, messageIds, stateView } from '../thread/checkpoint.ts'
import { historyPage } from '../thread/history.ts'
import { checkpointId } from '../thread/ids.ts'
import { isInternal } from '../thread/state.ts'
import { displayName } from '../thread/title.ts'
import { type Json, type JsonObject, timestamp } from '../types.ts'
import { CHANNELS_MAX, checkpointIdIn, readInput } from './input.ts'
import type { Services } from './services.ts'

const name = v.pipe(v.string(), v.maxLength(256))

const updateBody = objectOf({
  values: v.nullish(fewKeys(CHANNELS_MAX)),
  checkpoint_id: v.nullish(name),
  checkpoint: v.nullish(jsonObject),
  as_node: v.nullish(name)
})

const checkpointBody = objectOf({ checkpoint: v.nullish(jsonObject) })

const historyBody = objectOf({
  limit: v.nullish(integer({ min: 1, max: 100 }), 10),
  // A text, or LangGraph's config of a checkpoint.
  before: v.nullish(v.union([v.string(), jsonObject]))
})

/** Characters of a history's page: it ends before the entry with which it would be longer. */
const HISTORY_LENGTH = 16 * 1024 * 1024

/** An update as texts by channel. An empty title is no title: it neither renames nor takes the name away. */
function changesOf(values: JsonObject): {
  messages: string[] | null
  channels: Record<string, string>
  title: string | null
} {
  const { messages, ...rest } = values
  const title = displayName(rest.title)
  const kept = Object.entries(rest).filter(
    ([channel]) => !isInternal(channel) && (channel !== 'title' || title !== null)
  )
  const given: Json | undefined = messages
  const replaced =
    given === undefined || given === null
      ? null
      : readInput(given, 'values.messages').filter((one) => one.type !== 'remove')
  return {
    messages: replaced?.map((message) => JSON.stringify(message)) ?? null,
    channels: Object.fromEntries(kept.map(([channel, value]) => [channel, JSON.stringify(value)])),
    title
  }
}

export function stateRoutes({ config, store, writer }: Services): Route[] {
  const load = async (threadId: string, id: string | null): Promise<StoredCheckpoint> => {
    const stored = await store.checkpoints.load(threadId, id)
    if (stored) return stored
    throw id === null ? fail('thread_not_found', { id: threadId }) : fail('checkpoint_not_found', { id })
  }

  const get = async ({ params }: Call) => ({
    jsonText: stateView(await load(params.thread_id!, params.checkpoint_id ?? null))
  })

  const getAt = async ({ params, body }: Call<v.InferOutput<typeof checkpointBody>>) => ({
    jsonText: stateView(await load(params.thread_id!, checkpointIdIn(body.checkpoint, params.thread_id!)))
  })

  const update = async ({ params, body }: Call<v.InferOutput<typeof updateBody>>) => {
    const threadId = params.thread_id!
    const named = checkpointIdIn(body.checkpoint, threadId)
    const base = body.checkpoint_id ?? named
    const newest = await store.checkpoints.load(threadId, null, [])
    const written = await writer.write({
      name: 'state.update',
      thread_id: threadId,
      base,
      checkpoint_id: checkpointId(newest?.checkpoint_id),
      now: timestamp(),
      as_node: body.as_node ?? null,
      ...changesOf(body.values ?? {})
    })
    if (written.outcome !== 'written') {
      throw written.outcome === 'busy'
        ? fail('thread_in_flight', { id: threadId })
        : fail('checkpoint_not_found', { id: base ?? threadId })
    }
    const stored = await store.checkpoints.load(threadId, written.checkpoint.checkpoint_id)
    return stored ? { jsonText: stateView(stored) } : { json: headView(written.checkpoint) }
  }

  /** With what is known beside the messages: asked once for the whole page, whose entries share them. */
  const withDecorations = async (threadId: string, page: StoredCheckpoint[]): Promise<StoredCheckpoint[]> => {
    const idsByNo = messageIds(page)
    const ids = [...new Set(idsByNo.values())]
    if (ids.length === 0) return page
    const { feedback: reads } = store
    const { origins, feedback } = reads
      ? await reads.besideMessages(threadId, ids)
      : { origins: await store.events.runsOfMessages(threadId, ids), feedback: null }
    return decorated(page, idsByNo, origins, feedback)
  }

  const history = async ({ params, body }: Call<v.InferOutput<typeof historyBody>>) => {
    const threadId = params.thread_id!
    const before = typeof body.before === 'string' ? body.before : checkpointIdIn(body.before, threadId)
    const page = { limit: body.limit ?? 10, channels: null, ...(before !== null && { before }) }
    const entries = await historyPage(store.checkpoints, threadId, page, HISTORY_LENGTH)
    // Added and not joined: it is long, and is copied once, when it is sent.
    let text = '['
    for (const one of await withDecorations(threadId, entries)) text += `${text === '[' ? '' : ','}${historyView(one)}`
    return { jsonText: `${text}]` }
  }

  const path = '/api/threads/{thread_id}'
  return [
    route({
      method: 'GET',
      path: `${path}/state`,
      access: 'user',
      permission: 'threads:read',
      thread: 'read',
      handler: get
    }),
    route({
      method: 'POST',
      path: `${path}/state`,
      access: 'user',
      permission: 'threads:write',
      thread: 'write',
      body: updateBody,
      bodyLimit: config.server.body_bytes,
      handler: update
    }),
    route({
      method: 'POST',
      path: `${path}/state/checkpoint`,
      access: 'user',
      permission: 'threads:read',
      thread: 'read',
      body: checkpointBody,
      handler: getAt
    }),
    route({
      method: 'GET',
      path: `${path}/state/{checkpoint_id}`,
      access: 'user',
      permission: 'threads:read',
      thread: 'read',
      handler: get
    }),
    route({
      method: 'POST',
      path: `${path}/history`,
      access: 'user',
      permission: 'threads:read',
      thread: 'read',
      body: historyBody,
      bodyOptional: true,
      handler: history
    })
  ]
}
