// Rate limiters per client address. Tables in this process only, and bounded, so that a flood of addresses costs old
// entries and not memory.

interface LimiterOptions {
  /** Maximum entries of the table. */
  readonly size?: number
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

const SIZE = 10_000
const monotonic = () => performance.now()

/** Makes room for one more entry: evicts those that are over and, if that is not enough, the first half. */
function makeRoom<Value>(
  table: Map<string, Value>,
  size: number,
  isOver: (value: Value) => boolean,
  inOrder: (entries: [string, Value][]) => [string, Value][] = (entries) => entries
): void {
  if (table.size < size) return
  for (const [address, value] of table) if (isOver(value)) table.delete(address)
  if (table.size < size) return
  for (const [address] of inOrder([...table]).slice(0, Math.ceil(size / 2))) table.delete(address)
}

const FAILURES = 5
const LOCK_MS = 300_000

interface Tries {
  failures: number
  /** 0: not locked. */
  lockedUntil: number
}

/** Failed sign-ins per address: the fifth one locks it for five minutes, a success resets the count [Auth 9]. */
export class LoginLimiter {
  readonly #records = new Map<string, Tries>()
  readonly #size: number
  readonly #now: () => number

  constructor({ size = SIZE, now = monotonic }: LimiterOptions = {}) {
    this.#size = size
    this.#now = now
  }

  /** Checked before the password: a locked address is refused even with the right one. 0: not locked; else seconds until it may retry. */
  lockedFor(address: string): number {
    const record = this.#records.get(address)
    if (record === undefined || record.lockedUntil === 0) return 0
    const left = record.lockedUntil - this.#now()
    if (left > 0) return Math.ceil(left / 1000)
    this.#records.delete(address)
    return 0
  }

  failed(address: string): void {
    const record = this.#records.get(address) ?? this.#add(address)
    record.failures++
    // Attempts already in progress do not extend the lock.
    if (record.failures >= FAILURES && record.lockedUntil === 0) record.lockedUntil = this.#now() + LOCK_MS
  }

  succeeded(address: string): void {
    this.#records.delete(address)
  }

  #add(address: string): Tries {
    const now = this.#now()
    const isOver = ({ lockedUntil }: Tries) => lockedUntil !== 0 && lockedUntil <= now
    // Those with the least time left go first, unlocked addresses before them.
    makeRoom(this.#records, this.#size, isOver, (all) => all.sort(([, a], [, b]) => a.lockedUntil - b.lockedUntil))
    const record = { failures: 0, lockedUntil: 0 }
    this.#records.set(address, record)
    return record
  }
}

const COOLDOWN_MS = 60_000

/** One answer per address and window; refused requests do not restart the window [Auth 10]. */
export class Cooldown {
  /** Last answer by address, oldest first. */
  readonly #answered = new Map<string, number>()
  readonly #size: number
  readonly #now: () => number

  constructor({ size = SIZE, now = monotonic }: LimiterOptions = {}) {
    this.#size = size
    this.#now = now
  }

  /** 0: allowed, and the window starts. Else whole seconds to wait, at least 1: the Retry-After. */
  ask(address: string): number {
    const now = this.#now()
    const last = this.#answered.get(address)
    if (last !== undefined && now - last < COOLDOWN_MS)
      return Math.max(1, Math.floor((COOLDOWN_MS - (now - last)) / 1000))
    this.#answered.delete(address)
    makeRoom(this.#answered, this.#size, (at) => now - at >= COOLDOWN_MS)
    this.#answered.set(address, now)
    return 0
  }
}

const ALLOWANCE = 120
const REFILL_MS = 2_000

/** A token bucket per address, for expensive and rare actions. */
export class Allowance {
  /** When each address's bucket is full again; full ones are not in the table. */
  readonly #fullAt = new Map<string, number>()

  /** 0: allowed, and a token is used. Else seconds until the next one. */
  ask(address: string): number {
    const now = monotonic()
    const fullAt = Math.max(now, this.#fullAt.get(address) ?? 0) + REFILL_MS
    const excess = fullAt - now - ALLOWANCE * REFILL_MS
    if (excess > 0) return Math.ceil(excess / 1000)
    this.#fullAt.delete(address)
    makeRoom(this.#fullAt, SIZE, (at) => at <= now)
    this.#fullAt.set(address, fullAt)
    return 0
  }
}
