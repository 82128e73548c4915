// A bound for what somebody waits for.
import { setTimeout as pause } from 'node:timers/promises'

/** What `work` resolves with, or undefined after `ms` milliseconds. Rejects as `work` does. */
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  const over = new AbortController()
  try {
    return await Promise.race([work, pause(ms, undefined, { signal: over.signal }).catch(() => undefined)])
  } finally {
    over.abort()
  }
}
