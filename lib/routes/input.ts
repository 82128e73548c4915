// What requests name of a conversation: messages, and the checkpoint to go on from. Read once, refused with their place.
import { fail } from '../errors.ts'
import { type InputMessage, MessageInvalid, readMessages } from '../thread/message.ts'
import { isObject, type Json, type JsonObject } from '../types.ts'

/** @throws Failure `message_invalid` for the first that is none. */
export function readInput(given: Json | undefined, where: string): InputMessage[] {
  try {
    return readMessages(given)
  } catch (error) {
    if (error instanceof MessageInvalid)
      throw fail('message_invalid', { where, index: error.index, reason: error.message })
    throw error
  }
}

/**
 * The checkpoint that is named, as LangGraph's clients do: by its fields, or by a config that holds them.
 * @throws Failure `checkpoint_elsewhere` when it says that it belongs to another thread
 */
export function checkpointIdIn(given: JsonObject | null | undefined, threadId: string | null): string | null {
  const fields = isObject(given?.configurable) ? given.configurable : given
  const { checkpoint_id: id, thread_id: named } = fields ?? {}
  if (typeof named === 'string' && named !== threadId) throw fail('checkpoint_elsewhere', { id: named })
  return typeof id === 'string' && id !== '' ? id : null
}
