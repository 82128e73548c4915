// The state of a thread and its history.
import * as v from 'valibot'
import { fail } from '../errors.ts'
import type { Call } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import { integer, jsonObject, objectOf } from '../http/schema.ts'
import type { StoredCheckpoint } from '../store/store.ts'
import { decorated, headView, historyView, messageIds, stateView } from '../thread/checkpoint.ts'
import { checkpointId } from '../thread/ids.ts'
import { INTERRUPTS } from '../thread/interrupts.ts'
import { isInternal } from '../thread/state.ts'
import { displayName } from '../thread/title.ts'
import { type Json, type JsonObject, timestamp } from '../types.ts'
import { checkpointIdIn, readInput } from './input.ts'
import type { Services } from './services.ts'

const updateBody = objectOf({
  values: v.nullish(jsonObject),
  checkpoint_id: v.nullish(v.string()),
  checkpoint: v.nullish(jsonObject),
  as_node: v.nullish(v.string())
})

const checkpointBody = objectOf({ checkpoint: v.nullish(jsonObject) })

const historyBody = objectOf({
  limit: v.nullish(integer({ min: 1, max: 100 }), 10),
  // A text, or LangGraph's config of a checkpoint.
  before: v.nullish(v.union([v.string(), jsonObject]))
})

/** Channels that a history shows: of its entries but the first all except the messages. */
const HISTORY_CHANNELS = ['messages', 'title', 'thread_data', INTERRUPTS]

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

  /** With what is known beside its messages. */
  const withDecorations = async (stored: StoredCheckpoint): Promise<StoredCheckpoint> => {
    const ids = messageIds(stored)
    if (ids.length === 0) return stored
    const { thread_id: threadId } = stored
    if (!store.feedback) return decorated(stored, ids, await store.events.runsOfMessages(threadId, ids), null)
    const { origins, feedback } = await store.feedback.besideMessages(threadId, ids)
    return decorated(stored, ids, origins, feedback)
  }

  /** The newest entry has its messages, the others only what a list shows. */
  const history = async ({ params, body }: Call<v.InferOutput<typeof historyBody>>) => {
    const threadId = params.thread_id!
    const before = typeof body.before === 'string' ? body.before : checkpointIdIn(body.before, threadId)
    const [newest, ...older] = await store.checkpoints.history(threadId, {
      limit: body.limit ?? 10,
      channels: HISTORY_CHANNELS,
      ...(before !== null && { before })
    })
    if (!newest) return { jsonText: '[]' }
    // Added and not joined: it is long, and is copied once, when it is sent.
    let text = `[${historyView(await withDecorations(newest))}`
    for (const one of older) text += `,${historyView(one)}`
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
