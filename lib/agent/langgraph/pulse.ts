// A watch over a stream that may be silent for as long as its work takes: after a while without a byte the server is asked whether it
// is still there, and the stream is given up when it is not.
import type { Watching } from './body.ts'

/** The longest that a timer takes. */
const FOR_EVER_MS = 2_147_483_647

export interface PulseOptions {
  /** Milliseconds without a byte after which the server is asked; 0 is never. */
  readonly silenceMs: number
  /** Asks it; false: no answer. Never rejects. */
  readonly isThere: () => Promise<boolean>
  /** Breaks the stream off: the run is aborted, or the server does not answer. */
  readonly stop: () => void
}

export class Pulse implements Watching {
  /** The stream was given up because its server does not answer. */
  isDead = false
  #isOver = false
  readonly #run: AbortSignal
  readonly #options: PulseOptions
  readonly #timer: NodeJS.Timeout

  constructor(run: AbortSignal, options: PulseOptions) {
    this.#run = run
    this.#options = options
    this.#timer = setTimeout(() => void this.#ask(), options.silenceMs || FOR_EVER_MS)
    run.addEventListener('abort', options.stop, { once: true })
  }

  beat(): void {
    this.#timer.refresh()
  }

  throwIfAborted(): void {
    this.#run.throwIfAborted()
  }

  /** Lets go of the timer and of the run's signal. */
  end(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#run.removeEventListener('abort', this.#options.stop)
  }

  async #ask(): Promise<void> {
    const isThere = await this.#options.isThere()
    if (this.#isOver) return
    if (isThere) {
      this.#timer.refresh()
      return
    }
    this.isDead = true
    this.#options.stop()
  }
}
