// Crons: runs that start again and again.
import type { Cron, Timestamp } from '../../types.ts'
import type { Owner } from '../../scope.ts'

/** Fields an update may change; omitted ones stay. */
export type CronPatch = Partial<
  Pick<
    Cron,
    'schedule' | 'timezone' | 'payload' | 'metadata' | 'on_run_completed' | 'enabled' | 'end_time' | 'next_run_date'
  >
>

export interface CronReads {
  get(cronId: string, user: Owner): Promise<Cron | null>
  /** Newest first. */
  list(user: Owner): Promise<Cron[]>
  /** Whether a claim now would find one. */
  areDue(now: Timestamp): Promise<boolean>
}

/** Due crons are claimed: one process gets each, until a time at which it is taken for dead. */
export interface Claim {
  readonly now: Timestamp
  readonly until: Timestamp
  readonly limit: number
}
