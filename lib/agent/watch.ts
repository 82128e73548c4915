// A watch over one request: it ends the request when its run is aborted, or when nothing has come for too long.

export class Watch {
  /** The request was ended because nothing came. */
  isSilent = false

  readonly #run: AbortSignal
  readonly #request = new AbortController()
  readonly #idleMs: number
  readonly #abort = () => this.#request.abort(this.#run.reason)
  #timer: NodeJS.Timeout | undefined
  #heardAt = 0

  /** @param idleMs milliseconds without a byte after which the request is given up; 0 is never */
  constructor(run: AbortSignal, idleMs: number) {
    this.#run = run
    this.#idleMs = idleMs
    run.addEventListener('abort', this.#abort, { once: true })
    this.#arm()
  }

  /** The request's. */
  get signal(): AbortSignal {
    return this.#request.signal
  }

  /** Something came. Said of every chunk of every answer: the timer is not touched, and looks when it rings. */
  beat(): void {
    this.#heardAt = performance.now()
  }

  /** Silence that we cause ourselves by not reading is not the provider's. */
  async pausedWhile(work: () => Promise<void>): Promise<void> {
    clearTimeout(this.#timer)
    await work()
    this.#run.throwIfAborted()
    this.#arm()
  }

  /** @throws The reason of the run's abort. */
  throwIfAborted(): void {
    this.#run.throwIfAborted()
  }

  /** Closes the connection of a request whose rest nobody wants. */
  abandon(): void {
    this.#request.abort()
  }

  /** Lets go of the timer and of the run's signal. A response that is read to its end goes on. */
  end(): void {
    clearTimeout(this.#timer)
    this.#run.removeEventListener('abort', this.#abort)
  }

  #arm(): void {
    if (this.#idleMs <= 0) return
    this.beat()
    this.#lookIn(this.#idleMs)
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => this.#look(), ms)
  }

  #look(): void {
    const leftMs = this.#heardAt + this.#idleMs - performance.now()
    // Timers are of whole milliseconds.
    if (leftMs >= 1) return this.#lookIn(leftMs)
    this.isSilent = true
    this.#request.abort()
  }
}
