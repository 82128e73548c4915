// The grace of a client that has created a run and gone: when it is over, the run may be cancelled.
import type { Run } from '../../base/types.ts'

export class DisconnectTimer {
  readonly #isAsked: boolean
  readonly #ms: number
  readonly #onAway: () => void
  /** null: its client is there. */
  #timer: NodeJS.Timeout | null = null
  #isForgotten = false

  /** `onAway` is called `ms` after the creator's last departure, if the run asks for it, or as late as its protocol wants. */
  constructor(run: Run, ms: number, onAway: () => void) {
    this.#isAsked = run.kwargs.on_disconnect === 'cancel'
    const { disconnect_grace_ms: own } = run.kwargs
    this.#ms = typeof own === 'number' ? own : ms
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
