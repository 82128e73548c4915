// Who waits for the next run of a thread. Runs that are admitted here are told at once; where other processes admit runs too, whoever
// waits looks again after a while.

/** How often whoever waits looks for runs that other processes have admitted, in ms. */
const LOOK_MS = 1000

export class ThreadWatchers {
  readonly #byThread = new Map<string, Set<() => void>>()
  readonly #isShared: boolean
  #timer: NodeJS.Timeout | null = null

  /** @param isShared other processes admit runs as well */
  constructor(isShared: boolean) {
    this.#isShared = isShared
  }

  /** Threads that are waited for. */
  get size(): number {
    return this.#byThread.size
  }

  watch(threadId: string, listener: () => void): () => void {
    const listeners = this.#byThread.get(threadId) ?? new Set()
    listeners.add(listener)
    this.#byThread.set(threadId, listeners)
    if (this.#isShared) this.#timer ??= setInterval(() => this.#tellAll(), LOOK_MS).unref()
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#byThread.delete(threadId)
      if (this.#byThread.size === 0) this.stop()
    }
  }

  /** There may be another run in the thread. */
  tell(threadId: string): void {
    for (const listener of this.#byThread.get(threadId) ?? []) listener()
  }

  #tellAll(): void {
    for (const threadId of [...this.#byThread.keys()]) this.tell(threadId)
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer)
    this.#timer = null
  }
}
