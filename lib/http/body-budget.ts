// The budget of bodies: how many bytes of requests that are still arriving may lie in memory, for each sender and in all.

export interface BudgetLimits {
  /** Bytes of one sender's bodies. */
  readonly each: number
  /** Bytes of everybody's. */
  readonly all: number
}

/** What one request takes of the budget while its body arrives. */
export interface BodyShare {
  /** False: there is no space for so many more. They do not count then. */
  take(bytes: number): boolean
  /** Gives everything back; may be called again. */
  release(): void
}

export class BodyBudget {
  readonly #limits: BudgetLimits
  readonly #held = new Map<string, number>()
  #heldByAll = 0

  constructor(limits: BudgetLimits) {
    this.#limits = limits
  }

  /** Bytes that are held now. */
  get held(): number {
    return this.#heldByAll
  }

  /** @param sender an address, or a user */
  share(sender: string): BodyShare {
    let taken = 0
    return {
      take: (bytes) => {
        const held = this.#held.get(sender) ?? 0
        if (held + bytes > this.#limits.each || this.#heldByAll + bytes > this.#limits.all) return false
        this.#held.set(sender, held + bytes)
        this.#heldByAll += bytes
        taken += bytes
        return true
      },
      release: () => {
        const rest = (this.#held.get(sender) ?? 0) - taken
        if (rest > 0) this.#held.set(sender, rest)
        else this.#held.delete(sender)
        this.#heldByAll -= taken
        taken = 0
      }
    }
  }
}
