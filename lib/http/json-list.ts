// A JSON list as a response: encoded in steps, so that a long one does not block the event loop, and truncated where it would be too long.
import { setImmediate as turn } from 'node:timers/promises'

/** Characters encoded per turn of the event loop. */
const TURN_LENGTH = 128 * 1024
/** Characters of the whole list. */
const LENGTH_MAX = 4 * 1024 * 1024

interface JsonList {
  readonly jsonText: string
  /** Number of items in it, at least one. */
  readonly count: number
}

export async function jsonList<Item>(
  items: readonly Item[],
  encoded: (item: Item) => string = JSON.stringify,
  lengthMax = LENGTH_MAX
): Promise<JsonList> {
  const texts: string[] = []
  let [length, thisTurn] = [0, 0]
  for (const item of items) {
    if (thisTurn > TURN_LENGTH) {
      await turn()
      thisTurn = 0
    }
    const text = encoded(item)
    length += text.length
    thisTurn += text.length
    if (length > lengthMax && texts.length > 0) break
    texts.push(text)
  }
  return { jsonText: `[${texts.join(',')}]`, count: texts.length }
}
