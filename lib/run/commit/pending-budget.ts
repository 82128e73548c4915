// The process-wide budget of bytes that runs have produced and the store has not taken. Above it every agent pauses,
// however little its own run has waiting: many small runs must not fill the memory while the store is stuck.
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

  /** A run has that many more bytes pending, or fewer. */
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
