// Helpers of all rooms for waiting: a limit of time for work, giving up when a signal aborts, the delay before the next try, a stream's
// drain, and waiting with others.
import { setMaxListeners } from 'node:events'
import type { Writable } from 'node:stream'

/** Resolves like `work`, or with undefined after `ms` milliseconds; with `late` it rejects with that error then. Rejects like `work`. */
export async function withTimeout<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T>
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T | undefined>
export async function withTimeout<T>(work: Promise<T>, ms: number, late?: () => Error): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<undefined>((resolve, reject) => {
    timer = setTimeout(() => (late ? reject(late()) : resolve(undefined)), ms)
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Calls `stop` when a signal aborts that many may wait for at once: all webhooks, all tools of a run. That is no leak, of which Node would
 * warn from the eleventh on, as each takes its listener away by the function that this returns.
 */
export function onAbort(signal: AbortSignal, stop: () => void): () => void {
  setMaxListeners(0, signal)
  signal.addEventListener('abort', stop, { once: true })
  return () => signal.removeEventListener('abort', stop)
}

/** Awaits work that may ignore its abort signal: its result, or a rejection with the signal's reason as soon as that aborts. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    work.then(resolve, reject).finally(onAbort(signal, stop))
    if (signal.aborted) stop()
  })
}

/**
 * Does work whose signal aborts with `parent`, or after `ms` milliseconds. For a parent that lives as long as the process: on Node 20 it keeps
 * an entry for ever of each signal that AbortSignal.any has derived of it.
 */
export async function withDeadline<T>(
  parent: AbortSignal,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const own = new AbortController()
  const stop = () => own.abort(parent.reason)
  const leave = onAbort(parent, stop)
  if (parent.aborted) stop()
  const timer = setTimeout(() => own.abort(new DOMException('The deadline has passed', 'TimeoutError')), ms)
  try {
    return await work(own.signal)
  } finally {
    clearTimeout(timer)
    leave()
  }
}

/** Delays that grow from `first` to `most`, in ms. */
interface Backoff {
  readonly first: number
  readonly most: number
  /** Default: they double. */
  readonly factor?: number
}

/** The delay in ms before the next try, after `failed` failures more than one. */
export function backoffMs(failed: number, { first, most, factor = 2 }: Backoff): number {
  return Math.min(first * factor ** failed, most)
}

/** Adds a waiter to those who are all given the same. Resolves with what it is given, or with null when `signal` aborts; then it is gone. */
export function waitWith<T>(waiters: Set<(given: T | null) => void>, signal?: AbortSignal): Promise<T | null> {
  if (signal?.aborted) return Promise.resolve(null)
  return new Promise((resolve) => {
    const giveUp = () => settle(null)
    const settle = (given: T | null) => {
      waiters.delete(settle)
      leave?.()
      resolve(given)
    }
    waiters.add(settle)
    const leave = signal && onAbort(signal, giveUp)
  })
}

/** Of streams that somebody waits for. */
const draining = new WeakMap<Writable, Promise<void>>()

/**
 * Resolves when a stream that was written too much takes more, or is closed. All who wait for one stream share two listeners: one pair for
 * each would be a leak until it closes, and beyond ten Node warns of it.
 */
export function drained(stream: Writable): Promise<void> {
  if (stream.destroyed) return Promise.resolve()
  const known = draining.get(stream)
  if (known) return known
  const over = new Promise<void>((resolve) => {
    const go = () => {
      stream.off('drain', go).off('close', go)
      draining.delete(stream)
      resolve()
    }
    stream.on('drain', go).on('close', go)
  })
  draining.set(stream, over)
  return over
}
