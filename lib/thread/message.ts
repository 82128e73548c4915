// The messages of an input or a state update, and the ids of stored ones.
import { randomUUID } from 'node:crypto'
import { checkedMessage, type InputMessage, MessageInvalid } from '../conversation/message.ts'
import type { Json, Message } from '../types.ts'

/** Removing this id clears the conversation. */
export const REMOVE_ALL = '__remove_all__'

/**
 * Reads the messages of an input or a state update: one or a list. Missing ids are created here, once, so that frames, state,
 * history and events show the same.
 * @throws MessageInvalid for the first invalid one.
 */
export function readMessages(given: Json | undefined): InputMessage[] {
  if (given === undefined || given === null) return []
  const list = Array.isArray(given) ? given : [given]
  return list.map((one, index) => {
    try {
      return checkedMessage(one, randomUUID)
    } catch (error) {
      if (error instanceof MessageInvalid) error.index = index
      throw error
    }
  })
}

const ID_KEY = '"id":'

/**
 * The id of a stored message. Avoids parsing, because a conversation has thousands: if the text contains only one member
 * `id`, that is it.
 */
export function idOfText(json: string): string {
  const at = json.indexOf(ID_KEY)
  const from = at + ID_KEY.length + 1
  if (at >= 0 && json[from - 1] === '"' && json.indexOf(ID_KEY, from) < 0) {
    const id = json.slice(from, json.indexOf('"', from))
    if (!id.includes('\\')) return id
  }
  // Serialised from a message.
  return (JSON.parse(json) as Message).id
}
