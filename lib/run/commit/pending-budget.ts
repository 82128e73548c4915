// The budget of bytes that runs have produced and the store has not taken: of the process, and of each run. Above the
// first every agent pauses, however little its own run has waiting: many small runs must not fill the memory while the
// store is stuck.
export class PendingBudget {
  readonly #limit: number
  readonly #store: { readonly isLate: boolean }
  #bytes = 0
  readonly #waiting = new Set<() => void>()

  /**
   * @param limit 0: none
   * @param store late: the oldest pending record is too old, and a kill would lose too much
   */
  constructor(limit: number, store: { readonly isLate: boolean }) {
    this.#limit = limit
    this.#store = store
  }

  get bytes(): number {
    return this.#bytes
  }
  get hasSpace(): boolean {
    return (this.#limit === 0 || this.#bytes < this.#limit) && !this.#store.isLate
  }

  /** The pending bytes of a run change by this many. */
  add(bytes: number): void {
    this.#bytes += bytes
    if (bytes >= 0 || this.#waiting.size === 0 || !this.hasSpace) return
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const tell of waiting) tell()
  }

  /** `tell` is called once, as soon as there is space again. */
  whenSpace(tell: () => void): void {
    this.#waiting.add(tell)
  }
}

/** What one run has used of the budget, with a limit of its own. */
export class BudgetShare {
  readonly #budget: PendingBudget
  readonly #limit: number
  #bytes = 0
  #isClosed = false
  #waiting: (() => void)[] = []

  /** @param limit 0: none */
  constructor(budget: PendingBudget, limit: number) {
    this.#budget = budget
    this.#limit = limit
  }

  /** Sets the run's pending bytes. True: there is space for more. */
  use(bytes: number): boolean {
    const more = bytes - this.#bytes
    this.#bytes = bytes
    if (more !== 0) this.#budget.add(more)
    if (this.#waiting.length > 0) this.#wake()
    return this.#hasSpace()
  }

  #hasSpace(): boolean {
    return (this.#limit === 0 || this.#bytes < this.#limit) && this.#budget.hasSpace
  }

  /** Resolves when there is space, or the share is closed. */
  space(): Promise<void> {
    if (this.#isClosed || this.#hasSpace()) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#budget.whenSpace(this.#wake)
    })
  }

  /** There may be space again. */
  readonly #wake = (): void => {
    if (!this.#isClosed && !this.#hasSpace()) {
      // Others were woken first and have used the space up.
      if (this.#waiting.length > 0) this.#budget.whenSpace(this.#wake)
      return
    }
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Releases everyone who waits. */
  close(): void {
    this.#isClosed = true
    this.#wake()
  }
}
