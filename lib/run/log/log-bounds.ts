// What is known of a run's log without reading it: its epochs, and how far it goes.
import type { Run } from '../../base/types.ts'
import type { LogBounds } from './frame.ts'
import type { LogStore } from './stored-frames.ts'

/** What is stored of a run's log. */
export async function boundsOf(store: Pick<LogStore, 'frames'>, run: Run): Promise<LogBounds> {
  const bounds = await store.frames.bounds(run.key)
  return bounds ? { epochs: bounds.epochs, head: bounds.last + 1 } : { epochs: [], head: 0 }
}

/** When all frames are swept, the row still has the last cursor: a client with that cursor has everything. */
export function rowBounds({ last_cursor }: Run): LogBounds {
  if (last_cursor === null) return { epochs: [], head: 0 }
  // A cursor is two numbers: written by this service.
  const [epoch, n] = last_cursor.split('-').map(Number)
  return { epochs: [{ epoch: epoch!, first: 0 }], head: n! + 1 }
}

let lastEpoch = 0

/**
 * A new epoch: greater than any before it in this process and than those of the run's `past` attempts, even if the
 * clock was set back, and by the clock than those of other processes.
 */
export function newEpoch(past: readonly { readonly epoch: number }[] = [], now = Date.now()): number {
  lastEpoch = Math.max(now, lastEpoch + 1, ...past.map(({ epoch }) => epoch + 1))
  return lastEpoch
}

/**
 * Which attempt comes next, from 1. `past`: what is stored of the run's log, where another process had it. One that waited there counts as
 * begun: its readers were shown what it begins with.
 */
export function attemptAfter({ attempts }: Pick<Run, 'attempts'>, past: LogBounds | undefined): number {
  if (past) return Math.max(1, attempts) + 1
  return attempts === 1 ? 1 : attempts + 1
}
