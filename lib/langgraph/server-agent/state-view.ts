// A state of a LangGraph server as our clients read it: under our thread and runs, its messages as we keep them.
import { type CheckpointPlace, checkpointView, type TaskFields, withValues } from '../../conversation/checkpoint.ts'
import { objectOr, objectsIn, textOr, textsIn } from '../../base/json.ts'
import { isObject, type Json, type JsonObject, type Message } from '../../base/types.ts'
import { readMessage, isSameMessage } from '../graph/message.ts'

interface About {
  readonly threadId: string
  /** The server's id of the thread. */
  readonly remote: string
  /** See checkpointView. */
  readonly isBare: boolean
}

/** What we have given the server's runs and threads beside the user's. */
const OURS = ['gateway_run_id', 'gateway_thread_id', 'gateway_key']

/** A state as JSON text, with these values. */
export function stateText(about: About, state: JsonObject, values: JsonObject): string {
  const { checkpoint, parent_checkpoint, created_at, next, tasks, metadata } = objectOr(renamed(state, about))
  const fields = {
    checkpoint: placeIn(checkpoint),
    parent: placeIn(parent_checkpoint),
    createdAt: textOr(created_at),
    next: textsIn(next),
    tasks: objectsIn(tasks).map(taskIn),
    metadata: metadataIn(objectOr(metadata), about)
  }
  return withValues(JSON.stringify(values), checkpointView(fields, about.isBare))
}

/** The values of a state; its messages as ours, where they say the same. */
export function withMessages(state: JsonObject, ours: JsonObject): JsonObject {
  const values = objectOr(state.values)
  if (!Array.isArray(values.messages)) return values
  const known = new Map(objectsIn(ours.messages).map((message) => [message.id, message]))
  return { ...values, messages: values.messages.map((message) => asOurs(message, known)) }
}

function asOurs(message: Json, known: ReadonlyMap<Json | undefined, JsonObject>): Json {
  const own = isObject(message) ? known.get(message.id) : undefined
  const read = own && readMessage(message, () => '')
  // Ours is serialised from a message.
  return own && read && isSameMessage(read, own as unknown as Message) ? own : message
}

function placeIn(given: Json | undefined): CheckpointPlace | null {
  const place = objectOr(given)
  const checkpoint_id = textOr(place.checkpoint_id)
  return checkpoint_id === null ? null : { checkpoint_ns: '', ...place, checkpoint_id }
}

function taskIn({ id, name, interrupts, ...more }: JsonObject): TaskFields {
  return { ...more, id: textOr(id) ?? '', name: textOr(name) ?? '', interrupts: interrupts ?? [] } as TaskFields
}

function metadataIn({ gateway_run_id, ...metadata }: JsonObject, { threadId }: About): JsonObject {
  const run = textOr(gateway_run_id)
  const kept = Object.entries(metadata).filter(([key]) => !OURS.includes(key))
  return { ...Object.fromEntries(kept), thread_id: threadId, ...(run !== null && { run_id: run }) }
}

/** The thread by our id, wherever it stands. */
function renamed(value: Json, about: About): Json {
  const { threadId, remote } = about
  if (threadId === remote || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => renamed(one, about))
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      key === 'thread_id' && one === remote ? threadId : renamed(one, about)
    ])
  )
}
