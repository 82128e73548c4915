// Builds the checkpoint of a state update: new bodies for the channels it names, the parent's for the rest.
import type { Json, JsonObject } from '../base/types.ts'
import type { CheckpointHead, CheckpointWrite, OpOf } from './store.ts'

type Update = OpOf<'state.update'>

/**
 * The checkpoint after `parent`; new bodies are numbered from `nextBody`.
 * @throws SyntaxError when a text is not JSON
 */
export function updated(parent: CheckpointHead, update: Update, nextBody: number): CheckpointWrite {
  const messages = (update.messages ?? []).map((json, at) => ({ no: nextBody + at, json }))
  const firstChannel = nextBody + messages.length
  const channels = Object.entries(update.channels).map(([name, json], at) => ({ name, no: firstChannel + at, json }))
  return {
    thread_id: update.thread_id,
    checkpoint_id: update.checkpoint_id,
    parent_checkpoint_id: parent.checkpoint_id,
    run_id: null,
    created_at: update.now,
    metadata: metadataOf(parent, update),
    next: [],
    messages: update.messages === null ? parent.messages : messages.length ? [[nextBody, firstChannel - 1]] : [],
    channels: { ...parent.channels, ...Object.fromEntries(channels.map(({ name, no }) => [name, no])) },
    bodies: [...messages, ...channels.map(({ no, json }) => ({ no, json }))]
  }
}

function metadataOf(parent: CheckpointHead, update: Update): JsonObject {
  const step = typeof parent.metadata.step === 'number' ? parent.metadata.step + 1 : 0
  const metadata: JsonObject = { source: 'update', step, parents: {}, updated_at: update.now }
  if (update.as_node !== null) metadata.writes = { [update.as_node]: valuesOf(update) }
  return metadata
}

/** The `writes` of the node the update is attributed to [contract 2.2]. */
function valuesOf({ messages, channels }: Update): JsonObject {
  // The op promises JSON; a text that is not refuses the group.
  const parse = (json: string) => JSON.parse(json) as Json
  const values = Object.fromEntries(Object.entries(channels).map(([name, json]) => [name, parse(json)]))
  return messages === null ? values : { messages: messages.map(parse), ...values }
}
