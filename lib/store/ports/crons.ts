// Crons: runs that are to be started again and again, as they are kept and as they fall due.
import type { Cron, Timestamp } from '../../types.ts'
import type { Owner } from '../../scope.ts'

/** What an update may change; what is left out stays. */
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
  /** Whether a claim at this moment would find one. */
  areDue(now: Timestamp): Promise<boolean>
}

/** What falls due, and whose turn it is: of several processes one is given it, until a moment at which it is taken for dead. */
export interface Claim {
  readonly now: Timestamp
  readonly until: Timestamp
  readonly limit: number
}
