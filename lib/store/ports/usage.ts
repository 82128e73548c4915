// Usage: what runs have taken, as sums by day, user, agent and model, which are kept when the runs are gone.
import type { Owner } from '../../base/scope.ts'

/** What one model has taken of a run. */
export interface ModelUsage {
  /** '': not known. */
  readonly model: string
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
  /** Millionths of the currency, at the prices of that time. */
  readonly money_micros: number
}

/** What a run adds to the sums when it ends: it counts once, beside the first model. */
export interface RunUsage {
  readonly user_id: string | null
  readonly agent: string | null
  readonly models: readonly [ModelUsage, ...ModelUsage[]]
}

export const USAGE_KEYS = ['day', 'user', 'agent', 'model'] as const
export type UsageKey = (typeof USAGE_KEYS)[number]

export interface UsageSearch {
  /** Days, as 2026-01-31, in UTC; both are included. */
  readonly since: string
  readonly until: string
  /** What rows are told apart by, and their order; days newest first. */
  readonly by: readonly UsageKey[]
  readonly agent?: string
  readonly model?: string
  readonly limit: number
  readonly offset: number
}

export interface UsageSums {
  readonly runs: number
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
  readonly money_micros: number
}

/** The keys that were asked for. `user_id` null: of runs without a user, or whose account is gone; so is `email`. */
export interface UsageRow extends UsageSums {
  readonly day?: string
  readonly user_id?: string | null
  readonly email?: string | null
  readonly agent?: string
  readonly model?: string
}

export interface UsageReads {
  /** Sums of the days asked for: rows, and all of them together. */
  list(
    search: UsageSearch,
    user: Owner
  ): Promise<{ readonly rows: readonly UsageRow[]; readonly total: UsageSums & { readonly rows: number } }>
  /** `day` in UTC. */
  quotaUse(userId: string, day: string): Promise<QuotaUse>
}

// ------------------------------------------------------------------------------------------------------ quotas

/** What is given away in blocks: runs and tokens of a day, money (in millionths) of a month. */
export type QuotaMeasure = 'runs' | 'tokens' | 'money'

export interface QuotaUse {
  /** Runs of the day: given away, or ended, whichever is more. */
  readonly runs: number
  /** Tokens of the day, and money of the month, of runs that have ended. */
  readonly tokens: number
  readonly money_micros: number
  /** Runs in flight, on every process. */
  readonly runs_at_once: number
  /** What their threads have stored, as `users.stored` counts it. */
  readonly bytes: number
}
