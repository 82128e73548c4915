// Frames in memory: what joiners saw, as the bytes they got, for those who join late or come back.
import { Refused } from '../refused.ts'
import type { FrameReads, Segment } from '../store.ts'
import type { Undo } from './undo.ts'
import { type ThreadOwned, copyOf, firstNotBelow, type Noun } from './rows.ts'
import type { RunRows } from './runs.ts'
import type { ThreadRows } from './threads.ts'

/**
 * Bytes of frames that are kept in all. Frames are what grows fastest in a process that runs for months, and of an ended run
 * they only serve a late joiner, who is otherwise told of the gap and gets the final values. 64 MiB is some hundred long
 * answers, and little beside what node takes for itself.
 */
export const FRAME_BYTES_MAX = 64 * 1024 * 1024

/** Segments of one run, ascending by n. */
interface FrameLog {
  readonly segments: Segment[]
  bytes: number
}

export interface MemoryFrames
  extends Noun<FrameReads, 'frames.append' | 'frames.compact' | 'frames.sweep'>,
    ThreadOwned {
  /** The run is removed. */
  drop(runKey: number, undo: Undo): void
  /** The run is over: its frames may be dropped when space is needed. */
  ended(runKey: number): void
  /** Drops frames of ended runs, the first that ended first, until the rest fits. Frames of a run in flight always stay. */
  sweep(): void
}

export function memoryFrames(threads: ThreadRows, runs: RunRows, bytesMax = FRAME_BYTES_MAX): MemoryFrames {
  const logs = new Map<number, FrameLog>()
  /** Keys in the order in which the runs ended. */
  const ended = new Set<number>()
  let bytesKept = 0

  const count = (log: FrameLog, bytes: number): void => {
    log.bytes += bytes
    bytesKept += bytes
  }

  const drop = (key: number, undo: Undo): void => {
    undo.whenKept(() => ended.delete(key))
    const log = logs.get(key)
    if (!log) return
    undo.delete(logs, key)
    bytesKept -= log.bytes
    undo.add(() => {
      bytesKept += log.bytes
    })
  }

  return {
    reads: {
      async read(runKey, from, maxBytes) {
        const segments = logs.get(runKey)?.segments ?? []
        const page: Segment[] = []
        let bytes = 0
        for (let at = firstNotBelow(segments, ({ last }) => last < from); at < segments.length; at++) {
          page.push(segments[at]!)
          bytes += segments[at]!.data.length
          if (bytes >= maxBytes) break
        }
        return copyOf(page)
      },
      async bounds(runKey) {
        const segments = logs.get(runKey)?.segments
        if (!segments?.length) return null
        // n never goes back, so an epoch is one stretch of segments.
        const epochs = segments.filter(({ epoch }, at) => epoch !== segments[at - 1]?.epoch)
        return {
          first: segments[0]!.first,
          last: segments.at(-1)!.last,
          epochs: epochs.map(({ epoch, first }) => ({ epoch, first }))
        }
      }
    },
    writes: {
      'frames.append': ({ run_key, thread_id, segment }, undo) => {
        threads.require(thread_id)
        if (runs.threadOf(run_key) !== thread_id)
          throw new Refused(`thread ${thread_id} has no run with key ${run_key}`)
        let log = logs.get(run_key)
        if (!log) {
          log = { segments: [], bytes: 0 }
          undo.set(logs, run_key, log)
        }
        const last = log.segments.at(-1)?.last ?? -1
        if (segment.first <= last) throw new Refused(`frame ${segment.first} of run key ${run_key} is stored already`)
        undo.push(log.segments, segment)
        const bytes = segment.data.length + segment.index.length
        const counted = log
        count(counted, bytes)
        undo.add(() => count(counted, -bytes))
        return null
      },
      'frames.compact': () => ({ next: null }),
      // One step does it all: nobody waits for it.
      'frames.sweep': ({ before }, undo) => {
        let removed = 0
        for (const key of ended) {
          const log = logs.get(key)
          if (!log || !runs.isOlderThan(key, before)) continue
          removed += log.segments.length
          undo.delete(logs, key)
          const { bytes } = log
          count(log, -bytes)
          undo.add(() => count(log, bytes))
        }
        return { removed, next: null }
      }
    },
    forget(threadId, undo) {
      for (const { key } of runs.newestFirst(threadId)) drop(key, undo)
    },
    drop,
    ended(runKey) {
      ended.add(runKey)
    },
    sweep() {
      for (const key of ended) {
        if (bytesKept <= bytesMax) return
        bytesKept -= logs.get(key)?.bytes ?? 0
        logs.delete(key)
        ended.delete(key)
      }
    }
  }
}
