// Ends a run with on_disconnect cancel when its creator has been away for too long.
import type { Run } from '../../types.ts'

export class DisconnectTimer {
  readonly #isAsked: boolean
  readonly #ms: number
  readonly #onAway: () => void
  #timer: NodeJS.Timeout | null = null
  #isForgotten = false

  /** `onAway` is called `ms` after the creator has left for the last time, if the run asks for that. */
  constructor(run: Run, ms: number, onAway: () => void) {
    this.#isAsked = run.kwargs.on_disconnect === 'cancel'
    this.#ms = ms
    this.#onAway = onAway
  }

  /** A stream of the creator's was closed by its client: counted from the last one. */
  left(): void {
    if (!this.#isAsked || this.#isForgotten) return
    this.stop()
    this.#timer = setTimeout(this.#onAway, this.#ms)
    this.#timer.unref()
  }

  /** The creator is back, or the run is over. */
  stop(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  /** A creator that goes away has no say any more. */
  forget(): void {
    this.#isForgotten = true
    this.stop()
  }
}
