// Drains: who waits until everything that the committer had been handed at one moment is written, and for nothing that came later.
// Batches are counted: once the last of what a drain waits for has been taken, the number of that batch is known.

interface Drain {
  /** Sources that had something then and have not been asked since. */
  readonly sources: Set<object>
  /** The newest call that waited then. */
  readonly call: number
  /** The batch that holds the last of it; null: not known yet. */
  batch: number | null
  resolve(): void
}

export class Drains {
  #waiting: Drain[] = []
  /** Number of the batch that is being made, or was made last. */
  #batch = 0

  /** Somebody waits. */
  get any(): boolean {
    return this.#waiting.length > 0
  }

  /** Resolves when `sources`, the calls up to `call` (0: none waits) and, if there is one, the batch under way are written. */
  wait(sources: ReadonlySet<object>, call: number, isUnderWay: boolean): Promise<void> {
    const nothingLeft = sources.size === 0 && call === 0
    if (nothingLeft && !isUnderWay) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.push({ sources: new Set(sources), call, batch: nothingLeft ? this.#batch : null, resolve })
    })
  }

  sourceTaken(source: object): void {
    for (const { sources } of this.#waiting) sources.delete(source)
  }

  /** A batch has been made; `oldest` is the first call that is not in it. */
  taken(oldest: number): void {
    this.#batch++
    for (const drain of this.#waiting) {
      if (drain.sources.size === 0 && drain.call < oldest) drain.batch ??= this.#batch
    }
  }

  /** The batch that was made last is written. */
  written(): void {
    const isOver = ({ batch }: Drain) => batch !== null && batch <= this.#batch
    const over = this.#waiting.filter(isOver)
    this.#waiting = this.#waiting.filter((drain) => !isOver(drain))
    for (const { resolve } of over) resolve()
  }
}
