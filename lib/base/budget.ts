// Budgets: how much of something (bytes, streams, connections) may be held at once, by one key and by all.
import { getHeapStatistics } from 'node:v8'

/** 0: no limit. */
export interface Limits {
  readonly each: number
  readonly all: number
}

/** Memory that a byte of a request takes until it is answered: as text, as values, as rows on their way to the store. */
export const BYTE_WEIGHT = 6
/** Memory of a piece of a body or message beside its bytes. */
const PIECE_BYTES = 256

/**
 * Bytes of the JavaScript heap: at most `bytes`, and no more than one part in `parts` of what V8 lets this process have. A limit that
 * ignores --max-old-space-size is passed only after the process has aborted.
 */
export function ofHeap(bytes: number, parts: number): number {
  return Math.min(bytes, Math.floor(getHeapStatistics().heap_size_limit / parts))
}

/** Counts what is held, by key (a user, an address) and in all. */
export class Budget<Key = string> {
  #limits: Limits
  readonly #byKey = new Map<Key, number>()
  #held = 0
  #waiting: (() => void)[] = []

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Counts from now on for whoever wants more; what is held stays. */
  limitTo(limits: Limits): void {
    this.#limits = limits
  }

  get held(): number {
    return this.#held
  }
  /** What one key may hold; 0: no limit. */
  get each(): number {
    return this.#limits.each
  }
  /** Keys that hold something. */
  get keys(): number {
    return this.#byKey.size
  }

  /** Whether the key may hold so much more. */
  hasRoom(key: Key, amount = 1): boolean {
    const { each, all } = this.#limits
    const own = (this.#byKey.get(key) ?? 0) + amount
    return (each === 0 || own <= each) && (all === 0 || this.#held + amount <= all)
  }

  /** Holds nothing yet. Release it in the end. */
  share(key: Key): Share<Key> {
    return new Share(this, key)
  }

  /** Resolves when anybody has given something back: it may have been this key. */
  whenLess(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Only for shares. */
  change(key: Key, amount: number): void {
    const own = (this.#byKey.get(key) ?? 0) + amount
    if (own > 0) this.#byKey.set(key, own)
    else this.#byKey.delete(key)
    this.#held += amount
    if (amount < 0) for (const wake of this.#waiting.splice(0)) wake()
  }
}

/** What one request, socket or stream holds of a budget. */
export class Share<Key = string> {
  readonly key: Key
  readonly #budget: Budget<Key>
  #held = 0

  constructor(budget: Budget<Key>, key: Key) {
    this.#budget = budget
    this.key = key
  }

  get held(): number {
    return this.#held
  }

  /** False: over budget; nothing is counted. */
  take(amount: number): boolean {
    if (!this.#budget.hasRoom(this.key, amount)) return false
    this.add(amount)
    return true
  }

  /** Counts what is held already, whether or not there is room. */
  add(amount: number): void {
    this.#held += amount
    if (amount !== 0) this.#budget.change(this.key, amount)
  }

  /** Gives back this much, or what there is. */
  give(amount: number): void {
    this.add(-Math.min(amount, this.#held))
  }

  /** Gives everything back. Safe to call twice. */
  release(): void {
    this.add(-this.#held)
  }
}

/** Counts a piece of a body or message that has arrived. False: over budget. */
export function takePiece(share: Share, bytes: number): boolean {
  return share.take(bytes * BYTE_WEIGHT + PIECE_BYTES)
}
