// Identifiers that sort by time.
import { randomUUID } from 'node:crypto'

let lastMs = 0
let counter = 0

/** Time and counter of an id of ours. */
const OURS = /^([0-9a-f]{8})-([0-9a-f]{4})-7([0-9a-f]{3})-/

/**
 * A checkpoint id: UUIDv7 with a counter in its second field, so that ids of one process sort as texts in the order in which
 * they were made, also within a millisecond and when the clock is set back. Clients sort branches by them, which is why one that
 * follows `parent` is greater, whatever clock that was made by. Stores order checkpoints by numbers of their own [Store 11].
 */
export function checkpointId(parent?: string | null, now = Date.now()): string {
  follow(parent)
  if (now > lastMs) {
    lastMs = now
    counter = 0
  } else if (++counter > 0xfff) {
    lastMs++
    counter = 0
  }
  const time = lastMs.toString(16).padStart(12, '0')
  // The last two fields of a random UUID are what they are here: the variant of RFC 9562, and chance.
  const tail = randomUUID().slice(19)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, '0')}-${tail}`
}

/** Advances to the time of an id, if that is ahead. */
function follow(id: string | null | undefined): void {
  const [, high, low, count] = (id && OURS.exec(id)) || []
  if (high === undefined) return
  const ms = Number.parseInt(`${high}${low}`, 16)
  if (ms < lastMs) return
  const used = Number.parseInt(count!, 16)
  counter = ms === lastMs ? Math.max(counter, used) : used
  lastMs = ms
}
