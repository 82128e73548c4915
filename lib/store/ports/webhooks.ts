// Webhooks: who is to be told of the end of a run, until they have been.
import type { Timestamp } from '../../types.ts'

export interface Webhook {
  readonly run_id: string
  readonly url: string
  /** How often it was claimed, this time included. */
  readonly attempts: number
  /** What is sent, where it was made while the run was still there; null: it is to be made of the run. */
  readonly payload: string | null
}

export interface WebhookReads {
  /** Whether a claim at this moment would find one. */
  areDue(now: Timestamp): Promise<boolean>
}
