// Times to live of threads.
import type { Timestamp } from '../../types.ts'

export interface ThreadTtl {
  readonly thread_id: string
  /** created_at of the thread: a thread recreated under the same id has no TTL. */
  readonly made_at: Timestamp
  readonly minutes: number
  readonly expires_at: Timestamp
}

export interface TtlReads {
  get(threadId: string): Promise<ThreadTtl | null>
  /** TTLs that expired before a time, earliest first. */
  due(before: Timestamp, limit: number): Promise<ThreadTtl[]>
}
