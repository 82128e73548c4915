// Cancels a run when its creator (with on_disconnect cancel), or a reader that asked for it, has been away too long.
import type { Run } from '../../types.ts'

export class DisconnectTimer {
  readonly #isAsked: boolean
  readonly #ms: number
  readonly #onAway: () => void
  #timer: NodeJS.Timeout | null = null
  #isForgotten = false

  /** `onAway` is called `ms` after the creator's last departure, if the run asks for it. */
  constructor(run: Run, ms: number, onAway: () => void) {
    this.#isAsked = run.kwargs.on_disconnect === 'cancel'
    this.#ms = ms
    this.#onAway = onAway
  }

  /** The client closed a stream: the time runs from the last one. `isAsked`: this reader asked for the cancellation. */
  left(isAsked: boolean): void {
    if (!(this.#isAsked || isAsked) || this.#isForgotten) return
    this.stop()
    this.#timer = setTimeout(this.#onAway, this.#ms)
    this.#timer.unref()
  }

  /** The creator is back, or the run has ended. */
  stop(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  /** Ignores further departures. */
  forget(): void {
    this.#isForgotten = true
    this.stop()
  }
}
