// How long threads are kept that their makers have given a time to live.
import type { Timestamp } from '../../types.ts'

export interface ThreadTtl {
  readonly thread_id: string
  /** When the thread was made: one that was made anew under its id has none of it. */
  readonly made_at: Timestamp
  readonly minutes: number
  readonly expires_at: Timestamp
}

export interface TtlReads {
  get(threadId: string): Promise<ThreadTtl | null>
  /** Those that ended before a time, the first that ended first. */
  due(before: Timestamp, limit: number): Promise<ThreadTtl[]>
}
