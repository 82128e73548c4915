// How a model is tried again: after what, and after which pause.
import type { AgentError } from './runtime.ts'

/** A try that failed before its first byte, and may therefore be repeated. */
export class Setback {
  readonly error: AgentError
  /** As the provider asks, in milliseconds; null: it did not say. */
  readonly retryAfterMs: number | null
  constructor(error: AgentError, retryAfterMs: number | null = null) {
    this.error = error
    this.retryAfterMs = retryAfterMs
  }
}

export interface RetryPolicy {
  /** Tries after the first one. */
  readonly retries: number
  /** First pause, in milliseconds; every further one is twice as long. */
  readonly backoffMs: number
  /** The longest pause that backing off comes to. */
  readonly backoffMaxMs: number
  /** The longest `Retry-After` that is waited for: a person sits in front of the run. Longer: given up at once. */
  readonly retryAfterMaxMs: number
  /** 0 <= x < 1, so that those who failed together do not come back together. */
  random(): number
}

export const RETRY: RetryPolicy = {
  retries: 3,
  backoffMs: 500,
  backoffMaxMs: 8000,
  retryAfterMaxMs: 30_000,
  random: Math.random
}

/**
 * Milliseconds to wait before the next try; null: there is none.
 * @param failed tries that failed before this one
 */
export function pauseMs(policy: RetryPolicy, failed: number, { retryAfterMs }: Setback): number | null {
  const { retries, backoffMs, backoffMaxMs, retryAfterMaxMs, random } = policy
  const asked = retryAfterMs ?? 0
  if (failed >= retries || asked > retryAfterMaxMs) return null
  const backoff = Math.min(backoffMs * 2 ** failed, backoffMaxMs)
  return Math.max(backoff / 2 + (random() * backoff) / 2, asked)
}

/** Milliseconds, of a header that is a number of seconds or a date; null: it is neither. */
export function readRetryAfter(header: string | null): number | null {
  if (header === null) return null
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}
