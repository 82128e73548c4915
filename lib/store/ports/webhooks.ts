// Webhooks: notifications of ended runs, until delivered.
import type { Timestamp } from '../../types.ts'

export interface Webhook {
  readonly run_id: string
  /** Whose run it is. */
  readonly user_id: string | null
  readonly url: string
  /** Number of claims, including this one. */
  readonly attempts: number
  /** The payload, if it was stored before the run was removed; null: build it from the run. */
  readonly payload: string | null
}

/** Users that a claim can leave out, at most. */
export const FULL_MAX = 4

export interface WebhookReads {
  /** Whether a claim now would find one. */
  areDue(now: Timestamp): Promise<boolean>
}
