// The ids of stored messages.
import type { Message } from '../base/types.ts'

/** Removing this id clears the conversation. */
export const REMOVE_ALL = '__remove_all__'

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
