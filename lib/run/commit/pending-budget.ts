// The pending budget: bytes that all runs of this process have said and the store has not taken yet. Above its limit every agent
// pauses, also those whose own run waits with little: a store that is stuck must not fill the memory by many small runs.
export class PendingBudget {
  readonly #limit: number
  readonly #store: { readonly isLate: boolean }
  #bytes = 0
  readonly #waiting = new Set<() => void>()

  /** @param limit 0: none. @param store late: what waits for it has waited for too long, and a kill would take too much back */
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

  /** A run has so many bytes more that wait, or fewer. */
  add(bytes: number): void {
    this.#bytes += bytes
    if (bytes >= 0 || this.#waiting.size === 0 || !this.hasSpace) return
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const tell of waiting) tell()
  }

  /** `tell` is called once, when there is space again. */
  whenSpace(tell: () => void): void {
    this.#waiting.add(tell)
  }
}
