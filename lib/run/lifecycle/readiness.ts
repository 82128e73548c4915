// Readiness: whether this process accepts new runs, and if not, why.
import type { Committer } from '../commit/committer.ts'
import type { WriteHealthCheck } from '../commit/write-health-check.ts'

type Phase = 'starting' | 'serving' | 'stopping'

export class Readiness {
  readonly #committer: Committer
  readonly #health: WriteHealthCheck
  #phase: Phase = 'starting'

  constructor(committer: Committer, health: WriteHealthCheck) {
    this.#committer = committer
    this.#health = health
  }

  /** Recovery of the previous process's runs is done. */
  serve(): void {
    if (this.#phase === 'starting') this.#phase = 'serving'
  }

  stop(): void {
    this.#phase = 'stopping'
  }

  /** Why requests are refused: runs of the previous process are still being recovered. Null: they are not. */
  readonly notYet = (): string | null => (this.#phase === 'starting' ? this.reason : null)

  /** null: new runs are accepted. */
  get reason(): string | null {
    if (this.#phase === 'starting') return 'the server is starting'
    if (this.#phase === 'stopping') return 'the server is shutting down'
    const { stuck } = this.#committer
    return stuck === null ? null : `the database does not take writes: ${stuck}`
  }

  /** The same for the readiness endpoint: probes the database when nothing was written lately. */
  async check(): Promise<string | null> {
    const { reason } = this
    if (reason !== null) return reason
    const trouble = await this.#health.failure(() => this.#committer.write({ name: 'store.ping' }, 'limited'))
    return this.reason ?? (trouble === null ? null : `the database does not take writes: ${trouble}`)
  }
}
