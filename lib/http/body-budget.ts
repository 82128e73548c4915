// The body budget: how many bytes of requests still arriving may be in memory, per sender and in total.

interface BudgetLimits {
  /** Bytes of one sender's bodies. */
  readonly each: number
  /** Bytes of everybody's. */
  readonly all: number
}

/** One request's share of the budget while its body arrives. */
export interface BodyShare {
  /** An address, or a user. */
  readonly sender: string
  /** False: over budget; these bytes are not counted. */
  take(bytes: number): boolean
  /** Releases everything. Safe to call twice. */
  release(): void
}

export class BodyBudget {
  readonly #limits: BudgetLimits
  readonly #held = new Map<string, number>()
  #heldByAll = 0

  constructor(limits: BudgetLimits) {
    this.#limits = limits
  }

  get held(): number {
    return this.#heldByAll
  }

  share(sender: string): BodyShare {
    let taken = 0
    return {
      sender,
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
