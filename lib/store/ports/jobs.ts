// Jobs: what is to be done at some time, by one process of many, whatever crashes.
import type { JobKind, Timestamp } from '../../base/types.ts'

export type { JobKind } from '../../base/types.ts'

/** Limit of a payload, in characters. */
export const JOB_PAYLOAD_MAX = 64 * 1024

/** A job is found by its kind and key. Every change of a thread's jobs names the thread, by which writers are kept apart. */
export interface JobId {
  readonly kind: JobKind
  readonly key: string
  readonly thread_id: string | null
}

/** A time, or milliseconds from now on the clock of the database. */
export type Due = Timestamp | number

export interface NewJob extends JobId {
  readonly user_id: string | null
  readonly due: Due
  /** JSON, of at most JOB_PAYLOAD_MAX. */
  readonly payload: string
}

export interface Job extends JobId {
  readonly user_id: string | null
  /** null: dead. It has failed as often as it may, and waits for an operator. */
  readonly due_at: Timestamp | null
  /** Number of claims, including this one. */
  readonly attempts: number
  readonly last_error: string | null
  /** The process that is at it. */
  readonly owner: string | null
  readonly payload: string
}

export interface JobCount {
  readonly kind: JobKind
  readonly is_dead: boolean
  readonly jobs: number
}

export interface JobReads {
  get(kind: JobKind, key: string): Promise<Job | null>
  /** Jobs of a thread. */
  ofThread(threadId: string): Promise<Job[]>
  /** Earliest first, the dead ones last. `isDead`: only those. */
  list(page: { readonly isDead?: boolean; readonly limit: number; readonly offset: number }): Promise<Job[]>
  /** When a claim by this owner would find a job, in ms from now on the clock of the database; 0: now, null: never. */
  dueIn(claim: JobClaim): Promise<number | null>
  counts(): Promise<JobCount[]>
  /** The clock of the database. */
  now(): Promise<Timestamp>
}

export interface JobClaim {
  /** The claiming process [Store 10]. */
  readonly owner: string
  /** Jobs of one user that may be in progress, on all processes together. */
  readonly perUser: number
  readonly kinds: readonly JobKind[]
}
