// Rate limiters per client address. Tables in this process only, and bounded, so that a flood of addresses costs old
// entries and not memory.

export interface LimiterOptions {
  /** Entries of the table at most. */
  readonly size?: number
  /** Monotonic milliseconds. */
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

/** Failed sign-ins per address: the fifth one locks it for five minutes, a success resets the count [Auth 9]. */
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

  // Expired locks are dropped first; if there are none, the half with the least time left, unlocked addresses first.
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

/** One answer per address and window; refused requests do not restart the window [Auth 10]. */
export class Cooldown {
  /** Last answer by address, oldest first. */
  readonly #answered = new Map<string, number>()
  readonly #windowMs: number
  readonly #size: number
  readonly #now: () => number

  constructor(options: LimiterOptions & { readonly windowMs?: number } = {}) {
    this.#windowMs = options.windowMs ?? COOLDOWN_MS
    this.#size = options.size ?? SIZE
    this.#now = options.now ?? monotonic
  }

  /** 0: allowed, and the window starts. Else whole seconds to wait, at least 1: the Retry-After. */
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

/** A token bucket per address, for expensive and rare actions. */
export class Allowance {
  /** When each address's bucket is full again; full ones are not in the table. */
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

  /** 0: allowed, and a token is used. Else seconds until the next one. */
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

  /** Full buckets are dropped; if there are none, the oldest. */
  #evict(now: number): void {
    for (const [address, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(address)
    let excess = this.#fullAt.size < this.#size ? 0 : Math.ceil(this.#size / 2)
    for (const address of this.#fullAt.keys()) {
      if (excess-- <= 0) break
      this.#fullAt.delete(address)
    }
  }
}
