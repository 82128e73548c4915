// Identifiers that sort by time.
import { randomUUID } from 'node:crypto'

let lastMs = 0
let counter = 0

/** Time and counter of our ids. */
const OURS = /^([0-9a-f]{8})-([0-9a-f]{4})-7([0-9a-f]{3})-/

/**
 * A checkpoint id: UUIDv7 with a counter, so that ids of one process sort in creation order, even within a millisecond and when
 * the clock is set back. Clients sort branches by id, so an id is also greater than `parent`, even if another process made that.
 * Stores order checkpoints by their own numbers [Store 11].
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
  // The last two fields are those of a random UUID: variant and random bits.
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
