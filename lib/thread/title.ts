// The title of a thread that has none: the first words of what its user asked.
import { type Message, textOf } from '../types.ts'

export interface TitleOptions {
  readonly enabled: boolean
  readonly max_words: number
  readonly max_chars: number
}

/** Characters that the column and the wire allow a display name. */
export const DISPLAY_NAME_MAX = 256

/** Where the first words of a message are looked for. */
const FIRST_CHARS = 2000

/** A title from the first human message, or null when there is nothing to make one of. */
export function titleOf(messages: Iterable<Message>, options: TitleOptions): string | null {
  const first = firstHuman(messages)
  if (!first) return null
  const words = textOf(first.content).slice(0, FIRST_CHARS).trim().split(/\s+/u).slice(0, options.max_words).join(' ')
  return words === '' ? null : cutAt(words, options.max_chars)
}

/** No message behind it is looked at. */
function firstHuman(messages: Iterable<Message>): Message | null {
  for (const message of messages) if (message.type === 'human') return message
  return null
}

/** A display name of any text, or null when it is empty or none. */
export function displayName(title: unknown): string | null {
  return typeof title === 'string' && title !== '' ? cutAt(title, DISPLAY_NAME_MAX) : null
}

/** At most `max` characters; never half of one. */
function cutAt(text: string, max: number): string {
  // Two UTF-16 units a character at most: a long text is not taken apart for its first words.
  const points = [...text.slice(0, max * 2 + 2)]
  return points.length <= max ? text : points.slice(0, max).join('')
}
