// Whether the store takes writes, checked on demand: a recent commit is proof enough, otherwise a no-op is written.
import { withTimeout } from '../../base/waiting.ts'
import { StoreUnavailable } from '../../store/store.ts'
import type { CommitObserver } from './ports.ts'

/** A commit newer than this proves that the store takes writes, in ms. */
const FRESH_MS = 1000
/** How long to wait for an answer, in ms: the prober gives up after that anyway. */
const ANSWER_MS_MAX = 1500

export class WriteHealthCheck implements CommitObserver {
  readonly #wroteAt: () => number
  /** Why the store took no batch, and since when, by `performance.now()`. */
  #trouble: { readonly reason: string; readonly at: number } | null = null
  #isAsking = false
  #waiting: (() => void)[] = []

  /** @param wroteAt when the store last took a batch, by `performance.now()` */
  constructor(wroteAt: () => number) {
    this.#wroteAt = wroteAt
  }

  failed(error: unknown): void {
    // A lock passes by itself; and a refused write says nothing about the store.
    if (!(error instanceof StoreUnavailable) || error.passes) return
    this.#trouble = { reason: error.message, at: performance.now() }
    this.#answered()
  }

  /** Null: it takes writes. Otherwise why not, within two seconds. `ping` writes a no-op. */
  async failure(ping: () => Promise<unknown>): Promise<string | null> {
    if (this.#isFresh()) return null
    this.#ask(ping)
    if (this.#reason === null) await this.#answer()
    if (this.#isFresh()) return null
    return this.#reason ?? 'it does not answer'
  }

  #isFresh(): boolean {
    return performance.now() - this.#wroteAt() < FRESH_MS
  }

  get #reason(): string | null {
    return this.#trouble !== null && this.#trouble.at > this.#wroteAt() ? this.#trouble.reason : null
  }

  /** One probe at a time, however many ask. */
  #ask(ping: () => Promise<unknown>): void {
    if (this.#isAsking) return
    this.#isAsking = true
    const over = () => {
      this.#isAsking = false
      this.#answered()
    }
    ping().then(over, over)
  }

  #answer(): Promise<void> {
    return withTimeout(new Promise<void>((resolve) => this.#waiting.push(resolve)), ANSWER_MS_MAX)
  }

  #answered(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
