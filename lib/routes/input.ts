// Parses the conversation parts of requests: messages, and the checkpoint to start from.
import type { StatePlace } from '../agent/states.ts'
import { fail, Invalid } from '../errors.ts'
import { issue } from '../http/schema.ts'
import { type InputMessage, MessageInvalid, readMessages } from '../thread/message.ts'
import { isObject, type Json, type JsonObject } from '../types.ts'

/** Maximum messages per request: enough to import a conversation, and no more than can be stored at once. */
const MESSAGES_MAX = 10_000
/** Maximum channels one request may set. */
export const CHANNELS_MAX = 1_000

/** @throws Invalid for too many messages: before one of them is looked at */
export function checkCount(given: Json | undefined, where: string): void {
  if (Array.isArray(given) && given.length > MESSAGES_MAX)
    throw new Invalid([issue('too_long', ['body', ...where.split('.')], { max_length: MESSAGES_MAX })])
}

/** @throws Failure `message_invalid` for the first that is none. */
export function readInput(given: Json | undefined, where: string): InputMessage[] {
  checkCount(given, where)
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
export function placeIn(given: JsonObject | null | undefined, threadId: string | null): StatePlace {
  const fields = isObject(given?.configurable) ? given.configurable : given
  const { checkpoint_id: id, thread_id: named, checkpoint_ns: namespace } = fields ?? {}
  if (typeof named === 'string' && named !== threadId) throw fail('checkpoint_elsewhere', { id: named })
  return {
    checkpointId: typeof id === 'string' && id !== '' ? id : null,
    namespace: typeof namespace === 'string' ? namespace : ''
  }
}
