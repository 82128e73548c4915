// Turns at something of which there are few: one owner has one at a time, so that a patient one cannot take them from all others.

interface Waiting {
  readonly owner: string
  go(): void
}

export class Turns {
  readonly #busy = new Set<string>()
  readonly #max: number
  #waiting: Waiting[] = []

  /** @param max turns at one time */
  constructor(max: number) {
    this.#max = max
  }

  /**
   * Does `work` when it is this owner's turn, in the order of asking.
   * @throws the signal's reason when it aborts before that; what `work` throws
   */
  async take<T>(owner: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(owner, signal)
    try {
      return await work()
    } finally {
      this.#busy.delete(owner)
      this.#next()
    }
  }

  #turn(owner: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const leave = () => {
        this.#waiting = this.#waiting.filter((one) => one !== mine)
        reject(signal.reason)
      }
      const mine = {
        owner,
        go: () => {
          signal.removeEventListener('abort', leave)
          resolve()
        }
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(mine)
      this.#next()
    })
  }

  #next(): void {
    for (const one of this.#waiting) {
      if (this.#busy.size >= this.#max) return
      if (this.#busy.has(one.owner)) continue
      this.#busy.add(one.owner)
      this.#waiting = this.#waiting.filter((other) => other !== one)
      one.go()
    }
  }
}
