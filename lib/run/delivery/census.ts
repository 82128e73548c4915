// How many streams are open, and whose they are: what the caps are measured by.
export interface CensusLimits {
  /** Open streams of one user, and of all; 0 is no limit. */
  readonly perUser: number
  readonly total: number
}

export class Census {
  readonly #limits: CensusLimits
  readonly #byUser = new Map<string | null, number>()
  #total = 0

  constructor(limits: CensusLimits) {
    this.#limits = limits
  }

  get total(): number {
    return this.#total
  }
  /** Who has one open, at least. */
  get users(): number {
    return this.#byUser.size
  }

  /** Whether one more stream of this user is welcome. */
  hasSpace(userId: string | null): boolean {
    const { perUser, total } = this.#limits
    if (total > 0 && this.#total >= total) return false
    return perUser === 0 || (this.#byUser.get(userId) ?? 0) < perUser
  }

  opened(userId: string | null): void {
    this.#total++
    this.#byUser.set(userId, (this.#byUser.get(userId) ?? 0) + 1)
  }

  left(userId: string | null): void {
    this.#total--
    const open = (this.#byUser.get(userId) ?? 0) - 1
    if (open > 0) this.#byUser.set(userId, open)
    else this.#byUser.delete(userId)
  }
}
