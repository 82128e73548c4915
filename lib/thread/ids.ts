// Identifiers that sort by time.
import { randomBytes } from 'node:crypto'

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
  const tail = randomBytes(8)
  // The variant bits of RFC 9562.
  tail[0] = (tail[0]! & 0x3f) | 0x80
  const rest = tail.toString('hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, '0')}-${rest.slice(0, 4)}-${rest.slice(4)}`
}
