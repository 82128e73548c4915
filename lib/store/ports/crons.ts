// Crons: runs that start again and again.
import type { Cron } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

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
}
