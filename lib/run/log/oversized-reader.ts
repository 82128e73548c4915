// Reads the full data of oversized frames part by part, so that a range of a 50 MB result costs only what it returns.
import { bit, Kind } from './frame.ts'
import { type Filter, filterOf } from './filter.ts'
import { readWhole, type Whole } from './oversized.ts'
import type { RunLog } from './run-log.ts'
import { framesOf, type RawFrame } from './segment.ts'

/** Size and position of the full data of frame `n`; null: it is not oversized, or is gone. `shown`: of these kinds alone. */
export async function findWhole(log: RunLog, n: number, shown: Filter | null = null): Promise<Whole | null> {
  for await (const frame of framesFrom(log, n)) {
    if (frame.n === n && (shown === null || (shown.mask & bit(frame.kind)) !== 0)) continue
    return frame.n === n + 1 && frame.kind === Kind.whole ? readWhole(frame.bytes) : null
  }
  return null
}

/**
 * Bytes `start` to `end`, inclusive, of the full data of frame `n`, as they are read.
 * @throws Error when they are deleted meanwhile: a partial answer must not look complete
 */
export async function* wholeBytes(
  log: RunLog,
  n: number,
  whole: Whole,
  start: number,
  end: number
): AsyncGenerator<Buffer> {
  const first = Math.floor(start / whole.part_bytes)
  let at = first * whole.part_bytes
  for await (const { kind, bytes } of framesFrom(log, n + 2 + first)) {
    if (kind !== Kind.part) break
    yield bytes.subarray(Math.max(0, start - at), end + 1 - at)
    at += bytes.length
    if (at > end) return
  }
  throw new Error('a part of an oversized frame is gone')
}

/** Reads no states. */
const NO_STATES = filterOf(['custom'])

export async function* framesFrom(log: RunLog, from: number): AsyncGenerator<RawFrame> {
  for (let next = from; next < log.head; ) {
    // Frames that are not in memory are stored, and stay stored: each step locates its frames again.
    const before = next
    const frames =
      next >= log.first
        ? log.frames(next)
        : (await log.load(next, NO_STATES)).segments.flatMap((segment) => [...framesOf(segment)])
    for (const frame of frames) {
      if (frame.n < next) continue
      next = frame.n + 1
      yield frame
    }
    if (next === before) return
  }
}

/** The frames with every cut one restored, for consumers that need the full data. */
export async function* madeWhole(frames: AsyncIterable<RawFrame>): AsyncGenerator<RawFrame> {
  let last: RawFrame | null = null
  let parts: Buffer[] = []
  for await (const frame of frames) {
    if (frame.kind === Kind.whole) continue
    if (frame.kind === Kind.part) {
      parts.push(frame.bytes)
      continue
    }
    if (last) yield joined(last, parts)
    last = frame
    parts = []
  }
  if (last) yield joined(last, parts)
}

const BEFORE_DATA = Buffer.from('\ndata: ')
const AFTER_DATA = Buffer.from('\n\n')

function joined(frame: RawFrame, parts: readonly Buffer[]): RawFrame {
  return parts.length === 0 ? frame : { ...frame, bytes: Buffer.concat([BEFORE_DATA, ...parts, AFTER_DATA]) }
}
