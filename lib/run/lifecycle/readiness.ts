// Readiness: whether this process accepts new runs, and if not, why.
import { withTimeout } from '../../base/waiting.ts'
import { StoreUnavailable } from '../../store/store.ts'
import type { CommitObserver } from '../commit/ports.ts'

type Phase = 'starting' | 'serving' | 'leaving' | 'stopping'

/** Most starts take less, so that a request that comes meanwhile is served and not refused. */
const PATIENCE_MS = 10_000

/** What readiness asks of the store. Null: all is well. */
interface Writes {
  /** Why nothing can be written for now. */
  readonly stuck: () => string | null
  /** The same, also when nothing was written lately. */
  readonly trouble: () => Promise<string | null>
}

export class Readiness {
  readonly #writes: Writes
  readonly #patienceMs: number
  readonly #waiting = new Set<() => void>()
  #phase: Phase = 'starting'

  constructor(writes: Writes, patienceMs = PATIENCE_MS) {
    this.#writes = writes
    this.#patienceMs = patienceMs
  }

  /** Recovery of the previous process's runs is done. */
  serve(): void {
    if (this.#phase === 'starting') this.#enter('serving')
  }

  /** Load balancers are to send nothing more; what comes all the same is served. */
  leave(): void {
    if (this.#phase === 'serving') this.#enter('leaving')
  }

  stop(): void {
    this.#enter('stopping')
  }

  /** Whether requests are refused: runs of the previous process are still being recovered. Null: they are not. */
  readonly notYet = (): Promise<string | null> | null => (this.#phase === 'starting' ? this.#started() : null)

  /** Waits for the end of the start; answers why it is not there yet. */
  async #started(): Promise<string | null> {
    let go = (): void => {}
    const over = new Promise<void>((resolve) => {
      go = resolve
    })
    this.#waiting.add(go)
    await withTimeout(over, this.#patienceMs)
    this.#waiting.delete(go)
    return this.#phase === 'starting' ? this.reason : null
  }

  #enter(phase: Phase): void {
    this.#phase = phase
    for (const go of this.#waiting) go()
  }

  /** null: new runs are accepted. */
  get reason(): string | null {
    if (this.#phase === 'starting') return 'the server is starting'
    if (this.#phase === 'stopping') return 'the server is shutting down'
    const stuck = this.#writes.stuck()
    return stuck === null ? null : `the database does not take writes: ${stuck}`
  }

  /** The same for the readiness endpoint: probes the database when nothing was written lately. */
  async check(): Promise<string | null> {
    const { reason } = this
    if (reason !== null) return reason
    if (this.#phase === 'leaving') return 'the server is about to shut down'
    const trouble = await this.#writes.trouble()
    return this.reason ?? (trouble === null ? null : `the database does not take writes: ${trouble}`)
  }
}

// ------------------------------------------------------------------------------------ whether the store takes writes

/** A commit newer than this proves that the store takes writes, in ms. */
const FRESH_MS = 1000
/** How long to wait for an answer, in ms: the prober gives up after that anyway. */
const ANSWER_MS_MAX = 1500

/** Asked on demand: a recent commit is proof enough, otherwise a no-op is written. */
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
