// Parses the conversation parts of requests (messages, and the checkpoint to start from), and makes the 422s that a schema cannot.
import { randomUUID } from 'node:crypto'
import type { StatePlace } from '../agent/states.ts'
import { fail, Invalid } from '../base/errors.ts'
import { issue } from '../http/schema.ts'
import { TooCostly } from '../thread/contains.ts'
import { type InputMessage, MessageInvalid, readMessages } from '../conversation/message.ts'
import { isObject, type Json, type JsonObject } from '../base/types.ts'

/** Messages per request: enough to import a conversation, few enough for one transaction. */
const MESSAGES_MAX = 10_000
/** Maximum channels one request may set. */
export const CHANNELS_MAX = 1_000

/** 422 for a value that its schema accepts. */
export function refusedValue(loc: readonly (string | number)[], why: string): Invalid {
  return new Invalid([{ ...issue('value_error', loc), msg: `Value error, ${why}` }])
}

export function tooLong(loc: readonly string[], max: number): Invalid {
  return new Invalid([issue('too_long', loc, { max_length: max })])
}

/** A search that is too expensive is a 422. */
export function costly(error: unknown): never {
  throw error instanceof TooCostly ? refusedValue(['body', 'metadata'], error.message) : error
}

/** @throws Invalid for too many messages, before any of them is parsed */
export function checkCount(given: Json | undefined, where: string): void {
  if (Array.isArray(given) && given.length > MESSAGES_MAX) throw tooLong(['body', ...where.split('.')], MESSAGES_MAX)
}

/** @throws Failure `message_invalid` for the first invalid message */
export function readInput(given: Json | undefined, where: string): InputMessage[] {
  checkCount(given, where)
  try {
    return readMessages(given, randomUUID)
  } catch (error) {
    if (error instanceof MessageInvalid)
      throw fail('message_invalid', { where, index: error.index, reason: error.message })
    throw error
  }
}

/**
 * The checkpoint a request names, either by its fields or, as LangGraph's clients also do, by a config that holds them.
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
