// The messages of a request: read once, refused with their index.
import { fail } from '../errors.ts'
import { type InputMessage, MessageInvalid, readMessages } from '../thread/message.ts'
import type { Json } from '../types.ts'

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
