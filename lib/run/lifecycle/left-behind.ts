// Runs admitted here behind runs that are not taken over yet. They are queued with those, in order; until then their readers wait here
// instead of following them as runs of another process, which would end with a reset.
import { withTimeout } from '../../base/waiting.ts'

/** A takeover is a few queries. Readers that wait longer, in ms, read from the store. */
const TAKEOVER_MS = 10_000

export class LeftBehind {
  readonly #runs = new Map<string, { readonly isQueued: Promise<unknown>; release(): void }>()

  get size(): number {
    return this.#runs.size
  }

  add(runId: string): void {
    let release = (): void => {}
    const isReleased = new Promise<void>((resolve) => {
      release = resolve
    })
    const isQueued = withTimeout(isReleased, TAKEOVER_MS).then(() => this.#runs.delete(runId))
    this.#runs.set(runId, { isQueued, release })
  }

  /** Resolves when the run is queued, or is not waited for any longer. */
  async queued(runId: string): Promise<void> {
    await this.#runs.get(runId)?.isQueued
  }

  has(runId: string): boolean {
    return this.#runs.has(runId)
  }

  /** It is queued, or never will be. */
  release(runId: string): void {
    this.#runs.get(runId)?.release()
  }

  /** This process takes nothing over any more. */
  releaseAll(): void {
    for (const { release } of this.#runs.values()) release()
  }
}
