// A limiter: what one client address may do how often. Tables in this process alone, bounded, so that a flood of addresses costs
// old entries and not memory.

export interface LimiterOptions {
  /** Entries of the table at most. */
  readonly size?: number
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number
}

const SIZE = 10_000
const FAILURES = 5
const LOCK_MS = 300_000
const COOLDOWN_MS = 60_000
const monotonic = () => performance.now()

interface Tries {
  failures: number
  /** 0: not locked. */
  lockedUntil: number
}

/** Failed sign-ins per address: the fifth one locks it for five minutes, a success forgets them [Auth 9]. */
export class LoginLimiter {
  readonly #records = new Map<string, Tries>()
  readonly #failures: number
  readonly #lockMs: number
  readonly #size: number
  readonly #now: () => number

  constructor(options: LimiterOptions & { readonly failures?: number; readonly lockMs?: number } = {}) {
    this.#failures = options.failures ?? FAILURES
    this.#lockMs = options.lockMs ?? LOCK_MS
    this.#size = options.size ?? SIZE
    this.#now = options.now ?? monotonic
  }

  /**
   * Asked before the password is looked at: a locked address is refused even with the right one. 0: it is not; else whole seconds
   * until it can try again.
   */
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
    // Tries that were under way when the lock fell do not prolong it.
    if (record.failures >= this.#failures && record.lockedUntil === 0) record.lockedUntil = this.#now() + this.#lockMs
  }

  succeeded(address: string): void {
    this.#records.delete(address)
  }

  #add(address: string): Tries {
    if (this.#records.size >= this.#size) this.#evict()
    const record = { failures: 0, lockedUntil: 0 }
    this.#records.set(address, record)
    return record
  }

  // Locks that are over go first; if none is, the half that has the least time left, unlocked addresses before locked ones.
  #evict(): void {
    const now = this.#now()
    for (const [address, record] of this.#records) {
      if (record.lockedUntil !== 0 && record.lockedUntil <= now) this.#records.delete(address)
    }
    if (this.#records.size < this.#size) return
    const byLock = [...this.#records].sort(([, one], [, other]) => one.lockedUntil - other.lockedUntil)
    for (const [address] of byLock.slice(0, Math.ceil(this.#size / 2))) this.#records.delete(address)
  }
}

/** One answer per address and window; what is refused does not start the window again [Auth 10]. */
export class Cooldown {
  /** When each address was answered last, oldest first: an address that is answered again goes to the end. */
  readonly #answered = new Map<string, number>()
  readonly #windowMs: number
  readonly #size: number
  readonly #now: () => number

  constructor(options: LimiterOptions & { readonly windowMs?: number } = {}) {
    this.#windowMs = options.windowMs ?? COOLDOWN_MS
    this.#size = options.size ?? SIZE
    this.#now = options.now ?? monotonic
  }

  /** 0: go on, and the window begins. Else whole seconds to wait, at least 1: the value of Retry-After. */
  ask(address: string): number {
    const now = this.#now()
    const last = this.#answered.get(address)
    if (last !== undefined && now - last < this.#windowMs) {
      return Math.max(1, Math.floor((this.#windowMs - (now - last)) / 1000))
    }
    this.#answered.delete(address)
    if (this.#answered.size >= this.#size) this.#evict(now)
    this.#answered.set(address, now)
    return 0
  }

  #evict(now: number): void {
    for (const [address, at] of this.#answered) {
      if (now - at < this.#windowMs) break
      this.#answered.delete(address)
    }
    if (this.#answered.size < this.#size) return
    let excess = Math.ceil(this.#size / 2)
    for (const address of this.#answered.keys()) {
      if (excess-- <= 0) break
      this.#answered.delete(address)
    }
  }
}

const ALLOWANCE = 120
const REFILL_MS = 2_000

/** So many at once, and then one in a while: what each address may do that costs us much and is done rarely. */
export class Allowance {
  /** When each address will have its whole allowance again; who has it is not in the table. */
  readonly #fullAt = new Map<string, number>()
  readonly #refillMs: number
  readonly #burstMs: number
  readonly #size: number
  readonly #now: () => number

  constructor(options: LimiterOptions & { readonly burst?: number; readonly refillMs?: number } = {}) {
    this.#refillMs = options.refillMs ?? REFILL_MS
    this.#burstMs = (options.burst ?? ALLOWANCE) * this.#refillMs
    this.#size = options.size ?? SIZE
    this.#now = options.now ?? monotonic
  }

  /** 0: go on, and one is used. Else whole seconds until there is another one. */
  ask(address: string): number {
    const now = this.#now()
    const fullAt = Math.max(now, this.#fullAt.get(address) ?? 0) + this.#refillMs
    const excess = fullAt - now - this.#burstMs
    if (excess > 0) return Math.ceil(excess / 1000)
    this.#fullAt.delete(address)
    if (this.#fullAt.size >= this.#size) this.#evict(now)
    this.#fullAt.set(address, fullAt)
    return 0
  }

  /** Whoever is full again goes; if nobody is, those who asked longest ago. */
  #evict(now: number): void {
    for (const [address, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(address)
    let excess = this.#fullAt.size < this.#size ? 0 : Math.ceil(this.#size / 2)
    for (const address of this.#fullAt.keys()) {
      if (excess-- <= 0) break
      this.#fullAt.delete(address)
    }
  }
}
