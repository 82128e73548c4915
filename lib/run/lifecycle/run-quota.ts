// How many runs of a user may be in flight here: those that are live, and those being started [design 5].
import type { Run } from '../../base/types.ts'

interface Reservation {
  readonly userId: string | null
  readonly key: string | null
}

export class RunQuota {
  readonly #perUser: number
  readonly #live: () => Iterable<Run>
  readonly #reserved = new Set<Reservation>()

  /** @param perUser 0: no limit */
  constructor(perUser: number, live: () => Iterable<Run>) {
    this.#perUser = perUser
    this.#live = live
  }

  get size(): number {
    return this.#reserved.size
  }

  /**
   * Reserves a place until the returned function is called: by then the run counts, or was refused. Null: no place
   * left. A repeated idempotency key makes no new run and needs no place.
   */
  reserve(userId: string | null, key: string | null = null): (() => void) | null {
    if (this.#perUser === 0) return () => {}
    const live = [...this.#live()].map((run): Reservation => ({ userId: run.user_id, key: run.idempotency_key }))
    const own = [...live, ...this.#reserved].filter((one) => one.userId === userId)
    if (key !== null && own.some((one) => one.key === key)) return () => {}
    if (own.length >= this.#perUser) return null
    const reservation = { userId, key }
    this.#reserved.add(reservation)
    return () => void this.#reserved.delete(reservation)
  }
}
