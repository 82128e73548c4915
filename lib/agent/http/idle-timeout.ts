// Aborts a request when it is silent for too long or its run is aborted.
import { warnUnexpected } from '../../base/unexpected.ts'

export class IdleTimeout {
  /** The request was aborted by the idle timeout. */
  isSilent = false

  readonly #run: AbortSignal
  readonly #request = new AbortController()
  readonly #idleMs: number
  readonly #isAlive: (() => Promise<boolean>) | undefined
  readonly #abort = () => this.#request.abort(this.#run.reason)
  #isOver = false
  #timer: NodeJS.Timeout | undefined
  #heardAt = 0

  /**
   * @param idleMs milliseconds of silence; 0: unlimited
   * @param isAlive asked after that silence, for servers that may work silently. True: wait again. Must not reject
   */
  constructor(run: AbortSignal, idleMs: number, isAlive?: () => Promise<boolean>) {
    this.#run = run
    this.#idleMs = idleMs
    this.#isAlive = isAlive
    run.addEventListener('abort', this.#abort, { once: true })
    if (run.aborted) this.#abort()
    this.#arm()
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  /** Called for every chunk. The timer is not reset; it compares times when it fires. */
  beat(): void {
    this.#heardAt = performance.now()
  }

  /** Suspends the timeout while we do not read. */
  async pausedWhile(work: () => Promise<void>): Promise<void> {
    this.#stop()
    await work()
    this.#run.throwIfAborted()
    this.#arm()
  }

  /** @throws the reason of the run's abort */
  throwIfAborted(): void {
    this.#run.throwIfAborted()
  }

  /** Closes the connection of a request whose rest is not needed. */
  abandon(): void {
    this.#request.abort()
  }

  /** Stops the timer and the abort listener. A response may still be read to its end. */
  end(): void {
    this.#isOver = true
    this.#stop()
    this.#run.removeEventListener('abort', this.#abort)
  }

  #arm(): void {
    if (this.#idleMs <= 0 || this.#isOver) return
    this.beat()
    this.#checkIn(this.#idleMs)
  }

  get #leftMs(): number {
    return this.#heardAt + this.#idleMs - performance.now()
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #checkIn(ms: number): void {
    this.#stop()
    this.#timer = setTimeout(() => this.#check().catch(warnUnexpected), ms)
  }

  async #check(): Promise<void> {
    const timer = this.#timer
    // If the loop was held up, what has arrived meanwhile is read first.
    if (this.#leftMs < 1) await new Promise(setImmediate)
    if (timer !== this.#timer) return
    // Timers have millisecond resolution.
    if (this.#leftMs >= 1) return this.#checkIn(this.#leftMs)
    const isAlive = await this.#isAlive?.()
    // Paused or over meanwhile.
    if (timer !== this.#timer) return
    if (isAlive) return this.#arm()
    this.isSilent = true
    this.#request.abort()
  }
}
