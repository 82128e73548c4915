// Deletes old frames: a run can be replayed frame by frame for `streams.retention_hours` after its end. Its messages,
// events and state stay. Works in small steps, so that no commit waits long behind one.
import { setTimeout as pause } from 'node:timers/promises'
import { Poller } from '../../base/poller.ts'
import { timestamp } from '../../base/types.ts'
import type { Writer } from '../../store/store.ts'

const HOUR_MS = 3_600_000
const EVERY_MS = 600_000
const STEP_SEGMENTS = 200
const PAUSE_MS = 20

export class Sweeper {
  readonly #writer: Writer
  readonly #retentionMs: number
  readonly #poller: Poller
  #isStopped = false

  /** `retentionHours` 0: frames are kept for ever. */
  constructor(writer: Writer, retentionHours: number, onTrouble: (error: unknown) => void) {
    this.#writer = writer
    this.#retentionMs = retentionHours * HOUR_MS
    this.#poller = new Poller({ everyMs: EVERY_MS, work: () => this.sweep().then(() => {}), onError: onTrouble })
  }

  start(): void {
    if (this.#retentionMs > 0) this.#poller.start(0)
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#poller.stop()
  }

  /** Removes what is too old. Resolves with the number of segments removed. */
  async sweep(now = Date.now()): Promise<number> {
    const before = timestamp(now - this.#retentionMs)
    let removed = 0
    for (let after: number | null = 0; after !== null && !this.#isStopped; ) {
      const step: { removed: number; next: number | null } = await this.#writer.write({
        name: 'frames.sweep',
        before,
        after,
        limit: STEP_SEGMENTS
      })
      removed += step.removed
      after = step.next
      if (after !== null) await pause(PAUSE_MS)
    }
    return removed
  }
}
