// The default title of a thread: the first words of its first message.
import { type Message, textOf } from '../base/types.ts'

export interface TitleOptions {
  readonly enabled: boolean
  readonly max_words: number
  readonly max_chars: number
}

/** Maximum characters of a display name. */
const DISPLAY_NAME_MAX = 256

/** Only the start of a message is searched for words. */
const FIRST_CHARS = 2000

/** A title from the first human message; null: it has no text. */
export function titleOf(messages: Iterable<Message>, options: TitleOptions): string | null {
  const first = firstHuman(messages)
  if (!first) return null
  const words = textOf(first.content).slice(0, FIRST_CHARS).trim().split(/\s+/u).slice(0, options.max_words).join(' ')
  return words === '' ? null : cutAt(words, options.max_chars)
}

/** Stops at the first, because later messages need not be parsed. */
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
  // A character has at most two UTF-16 units, so a prefix is enough.
  const points = [...text.slice(0, max * 2 + 2)]
  return points.length <= max ? text : points.slice(0, max).join('')
}
