// A store that takes nothing: since when, why, and the batch that stays in front until it is taken. When that takes too long the store is
// stuck, and requests are refused.
import { Failure } from '../../base/errors.ts'
import { backoffMs } from '../../base/waiting.ts'
import { type Group, type Outcome, refusal, StoreUnavailable } from '../../store/store.ts'

export interface OutageOptions {
  /** How long a slow or locked store is waited for before it counts as stuck, in ms. Default 30,000. */
  readonly stuckAfterMs?: number
  /** The same for a store that fails outright: only its administrator can help. In ms, default 1,000. */
  readonly downAfterMs?: number
  /** What the store knows about a batch it has not answered yet. */
  readonly troubleOf?: () => StoreUnavailable | null
  /** The batch in front was written after this many failed attempts. */
  readonly onRecovered?: (attempts: number) => void
}

const RETRY_MS = { first: 50, most: 1000 }
const RETRY_AFTER_S = 5

export interface Entry {
  readonly group: Group
  /** A request waits for this write. */
  readonly isCall?: boolean
  done(outcome: Outcome): void
  /** Called when it will not be written. Absent: it stays until it is written. */
  rejectPending?(failure: Failure): void
}

/** A write to try when everything in front was withdrawn: otherwise nobody would notice that the store takes writes again. */
export const PING: Entry = { group: { ops: [{ name: 'store.ping' }] }, done: () => {} }

/** The store refused a group: a constraint, or a thread that is gone. */
export class WriteRefused extends Error {}

export function unavailable(reason: string): Failure {
  return new Failure('store_unavailable', { reason }, { 'Retry-After': String(RETRY_AFTER_S) })
}

export class Outage {
  readonly #options: Required<OutageOptions>
  /** When the batch in front was begun, by `performance.now()`; null: there is none. */
  since: number | null = null
  /** The batch the store has not taken yet; nothing overtakes it. */
  batch: Entry[] | null = null
  /** Failed ones, of the batch in front. */
  attempts = 0
  /** Why it failed. */
  #trouble: StoreUnavailable | null = null
  #retry: NodeJS.Timeout | null = null

  constructor(options: Required<OutageOptions>) {
    this.#options = options
  }

  get waitingMs(): number {
    return this.since === null ? 0 : performance.now() - this.since
  }

  /** Why the store has taken nothing for too long; null: it is fine, or just slow. */
  get stuck(): string | null {
    const { stuckAfterMs, downAfterMs, troubleOf } = this.#options
    const trouble = this.#trouble ?? troubleOf()
    const isDown = trouble !== null && !trouble.passes
    if (this.waitingMs <= (isDown ? Math.min(downAfterMs, stuckAfterMs) : stuckAfterMs)) return null
    return trouble?.message ?? 'it does not answer'
  }

  /** The batch in front has failed. */
  begin(error: StoreUnavailable): void {
    this.attempts++
    this.#trouble = error
  }

  /** It stays in front, and is tried again after a while. */
  hold(batch: Entry[], again: (batch: Entry[]) => void): void {
    this.batch = batch
    this.#retry = setTimeout(
      () => {
        this.#retry = null
        this.batch = null
        again(batch)
      },
      backoffMs(this.attempts - 1, RETRY_MS)
    )
  }

  /** It was taken. */
  end(): void {
    const { attempts } = this
    this.attempts = 0
    this.#trouble = null
    this.#options.onRecovered(attempts)
  }

  stop(): void {
    if (this.#retry) clearTimeout(this.#retry)
  }
}

/** Refuses those that can be; returns the others. */
export function refuse(entries: readonly Entry[], failure: Failure): Entry[] {
  for (const entry of entries) entry.rejectPending?.(failure)
  return entries.filter(({ rejectPending: withdraw }) => !withdraw)
}

/**
 * A permanent failure is about one group, e.g. one that cannot be copied to the writer thread. Written alone it is found, and fails
 * without blocking the others for ever. null: that was all; else what is left, for the store became unavailable meanwhile.
 */
export async function oneByOne(
  batch: readonly Entry[],
  write: (entry: Entry) => Promise<Outcome>,
  answer: (entry: Entry, outcome: Outcome) => void
): Promise<{ readonly batch: Entry[]; readonly error: StoreUnavailable } | null> {
  for (const [index, entry] of batch.entries()) {
    try {
      answer(entry, await write(entry))
    } catch (error) {
      if (error instanceof StoreUnavailable) return { batch: batch.slice(index), error }
      answer(entry, refusal(error))
    }
  }
  return null
}
