// Does one piece of work again and again: at an interval, when woken, and at the time that the work itself names. Never twice at once.
import { withoutUser } from './scope.ts'

/** Maximum of a timer. */
const TIMER_MS_MAX = 2 ** 31 - 1

interface PollerOptions {
  /** The longest time between the end of the work and the next, in ms. */
  readonly everyMs: number
  /** A number: there is more to do in so many ms; else after `everyMs`. */
  readonly work: () => Promise<unknown>
  /** The next turn comes as usual. */
  readonly onError: (error: unknown) => void
}

export class Poller {
  readonly #options: PollerOptions
  #timer: NodeJS.Timeout | null = null
  #dueAt = Number.POSITIVE_INFINITY
  #working: Promise<void> | null = null
  #isStopped = true

  constructor(options: PollerOptions) {
    this.#options = options
  }

  start(firstMs = this.#options.everyMs): void {
    this.#isStopped = false
    this.wakeIn(firstMs)
  }

  /** Works in `ms` at the latest; while it works, after that. */
  wakeIn(ms: number): void {
    const dueAt = performance.now() + ms
    if (this.#isStopped || dueAt >= this.#dueAt) return
    this.#dueAt = dueAt
    if (this.#timer) clearTimeout(this.#timer)
    if (!this.#working) this.#timer = setTimeout(() => this.#turn(), Math.min(ms, TIMER_MS_MAX)).unref()
  }

  /** Resolves when no work is in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer) clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
    await this.#working
  }

  #turn(): void {
    const { work, onError, everyMs } = this.#options
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#working = withoutUser(work)
      .catch((error: unknown) => onError(error))
      .then((nextMs) => {
        this.#working = null
        // Woken meanwhile: by then, unless the work asks for less.
        const wokenMs = this.#dueAt - performance.now()
        this.#dueAt = Number.POSITIVE_INFINITY
        const asked = typeof nextMs === 'number' ? nextMs : everyMs
        this.wakeIn(Math.max(0, Math.min(asked, everyMs, wokenMs)))
      })
  }
}
