// Identifiers that sort by time.
import { randomUUID } from 'node:crypto'

let lastMs = 0
let counter = 0

/**
 * A checkpoint id: UUIDv7 with a counter in its second field, so that ids of one process sort as texts in the order in which
 * they were made, also within a millisecond and when the clock is set back. Clients sort branches by them.
 */
export function checkpointId(now = Date.now()): string {
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
