// Retry policy: which failures are retried, and after which delay.
import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentError } from '../runtime.ts'

/** An attempt that failed before its first byte and may be repeated. Returned; thrown errors are not retried. */
export class RetryableError {
  readonly error: AgentError
  /** The server's Retry-After in ms; null: none. */
  readonly retryAfterMs: number | null
  constructor(error: AgentError, retryAfterMs: number | null = null) {
    this.error = error
    this.retryAfterMs = retryAfterMs
  }
}

export interface RetryPolicy {
  /** Retries after the first attempt. */
  readonly retries: number
  /** First delay in ms; doubles each time. */
  readonly backoffMs: number
  /** Maximum delay when backing off. */
  readonly backoffMaxMs: number
  /** Longest `Retry-After` to wait for; a longer one fails at once, because the user is waiting. */
  readonly retryAfterMaxMs: number
  /** Random in [0, 1), for jitter: clients that failed together should not retry together. */
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
 * Result of the first successful attempt.
 * @param onRetry called after every failed attempt but the last, with its number from 1
 * @throws AgentError of the last attempt; what an attempt throws; the signal's reason
 */
export async function retrying<T>(
  attempt: () => Promise<T | RetryableError>,
  policy: RetryPolicy,
  signal: AbortSignal,
  onRetry: (error: AgentError, attempts: number, waitMs: number) => void = () => {}
): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    signal.throwIfAborted()
    const result = await attempt()
    if (!(result instanceof RetryableError)) return result
    const waitMs = pauseMs(policy, attempts - 1, result)
    if (waitMs === null) throw result.error
    onRetry(result.error, attempts, waitMs)
    // An abort ends the wait; it is thrown at the top of the loop.
    await sleep(waitMs, undefined, { signal }).catch(() => {})
  }
}

/**
 * Delay before the next attempt in ms; null: there is none.
 * @param failed attempts failed so far
 */
export function pauseMs(policy: RetryPolicy, failed: number, { retryAfterMs }: RetryableError): number | null {
  const { retries, backoffMs, backoffMaxMs, retryAfterMaxMs, random } = policy
  const asked = retryAfterMs ?? 0
  if (failed >= retries || asked > retryAfterMaxMs) return null
  const backoff = Math.min(backoffMs * 2 ** failed, backoffMaxMs)
  return Math.max(backoff / 2 + (random() * backoff) / 2, asked)
}

/** Parses a header that is a number of seconds or a date, to ms; null: neither. */
export function readRetryAfter(header: string | undefined): number | null {
  if (header === undefined) return null
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}
