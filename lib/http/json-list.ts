// A JSON list as an answer: encoded item by item, so that a long one leaves the event loop to others, and ended where it would be too long.
import { setImmediate as turn } from 'node:timers/promises'

/** Characters that are encoded in one turn of the loop. */
const TURN_LENGTH = 128 * 1024
/** Of an answer. */
const LENGTH_MAX = 4 * 1024 * 1024

export interface JsonList {
  readonly jsonText: string
  /** How many of the items it has; one at least. */
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
