// A fair mutex by key: limits concurrent work in total and per key, and serves waiting keys round-robin.

interface MutexLimits {
  /** Concurrent turns. */
  readonly all: number
  /** Of one key. */
  readonly each: number
  /** Maximum waiters in total and per key; default: unlimited. */
  readonly waiting?: number
  readonly waitingEach?: number
}

export class MutexBusy extends Error {
  override readonly name = 'MutexBusy'
}

export class KeyedMutex {
  readonly #limits: MutexLimits
  readonly #running = new Map<string, number>()
  #runningOfAll = 0
  /** Waiters by key; keys in the order of their turns. */
  readonly #waiting = new Map<string, (() => void)[]>()
  #waitingOfAll = 0

  constructor(limits: MutexLimits) {
    this.#limits = limits
  }

  /**
   * Runs `work` when it is its key's turn.
   * @throws MutexBusy; the signal's reason if it aborts first; what `work` throws
   */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const leave = await this.enter(key, signal)
    try {
      return await work()
    } finally {
      leave()
    }
  }

  /**
   * Resolves when it is the key's turn, with the function that ends the turn.
   * @throws MutexBusy; the signal's reason when it aborts before that
   */
  enter(key: string, signal?: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const { waiting = Number.POSITIVE_INFINITY, waitingEach = waiting } = this.#limits
      const go = () => {
        signal?.removeEventListener('abort', giveUp)
        resolve(() => this.#leave(key))
      }
      const giveUp = () => {
        this.#take(key, go)
        reject(signal?.reason)
      }
      if (this.#hasTurn(key)) return this.#begin(key, go)
      const queue = this.#waiting.get(key) ?? []
      if (this.#waitingOfAll >= waiting || queue.length >= waitingEach) throw new MutexBusy('too many are waiting')
      signal?.addEventListener('abort', giveUp, { once: true })
      queue.push(go)
      this.#waiting.set(key, queue)
      this.#waitingOfAll++
    })
  }

  #hasTurn(key: string): boolean {
    return this.#runningOfAll < this.#limits.all && (this.#running.get(key) ?? 0) < this.#limits.each
  }

  #begin(key: string, go: () => void): void {
    this.#runningOfAll++
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1)
    go()
  }

  #leave(key: string): void {
    const running = (this.#running.get(key) ?? 1) - 1
    if (running > 0) this.#running.set(key, running)
    else this.#running.delete(key)
    this.#runningOfAll--
    for (const [next, [first]] of this.#waiting) {
      if (first === undefined || !this.#hasTurn(next)) continue
      this.#take(next, first)
      return this.#begin(next, first)
    }
  }

  /** Removes a waiter; the key moves behind all other keys. */
  #take(key: string, one: () => void): void {
    const rest = (this.#waiting.get(key) ?? []).filter((other) => other !== one)
    this.#waiting.delete(key)
    if (rest.length > 0) this.#waiting.set(key, rest)
    this.#waitingOfAll--
  }
}
