// Cancels a run with on_disconnect cancel when its creator, or a reader with the same wish, has been away too long.
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

  /** A stream of the creator's was closed by its client: counted from the last one. `isAsked`: its reader has asked for it too. */
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
