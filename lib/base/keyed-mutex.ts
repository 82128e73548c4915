// Fairness by key: a queue whose keys take turns, and a mutex on it, which limits concurrent work in total and per key.
import { onAbort } from './waiting.ts'

/** What waits, by key. Keys (users, threads) come round-robin, so the one with the most work waits longest. */
export class FairQueue<T> {
  /** Keys in the order of their turns, each with what waits in the order of asking. */
  readonly #byKey = new Map<string, T[]>()
  /** Of all keys. */
  size = 0

  add(key: string, one: T): void {
    const own = this.#byKey.get(key)
    if (own) own.push(one)
    else this.#byKey.set(key, [one])
    this.size++
  }

  sizeOf(key: string): number {
    return this.#byKey.get(key)?.length ?? 0
  }

  /** Takes the first of the first key that may go. */
  next(may: (key: string) => boolean = () => true): T | undefined {
    for (const [key, own] of this.#byKey) {
      if (!may(key)) continue
      const [first] = own
      this.remove(key, first!)
      return first
    }
    return undefined
  }

  /** The key moves behind all other keys. */
  remove(key: string, one: T): void {
    const own = this.#byKey.get(key) ?? []
    const at = own.indexOf(one)
    if (at < 0) return
    own.splice(at, 1)
    this.#byKey.delete(key)
    if (own.length > 0) this.#byKey.set(key, own)
    this.size--
  }
}

interface MutexLimits {
  /** Concurrent turns. */
  readonly all: number
  /** Of one key. */
  readonly each: number
  /** Maximum waiters in total and per key; default: unlimited. */
  readonly waiting?: number
  readonly waitingEach?: number
}

export class MutexBusy extends Error {
  override readonly name = 'MutexBusy'
}

export class KeyedMutex {
  readonly #limits: MutexLimits
  readonly #running = new Map<string, number>()
  #runningOfAll = 0
  readonly #waiting = new FairQueue<() => void>()

  constructor(limits: MutexLimits) {
    this.#limits = limits
  }

  /**
   * Runs `work` when it is its key's turn.
   * @throws MutexBusy; the signal's reason if it aborts first; what `work` throws
   */
  async run<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const leave = await this.enter(key, signal)
    try {
      return await work()
    } finally {
      leave()
    }
  }

  /**
   * Resolves when it is the key's turn, with the function that ends the turn.
   * @throws MutexBusy; the signal's reason when it aborts before that
   */
  enter(key: string, signal?: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const { waiting = Number.POSITIVE_INFINITY, waitingEach = waiting } = this.#limits
      let unlisten: (() => void) | undefined
      const go = () => {
        unlisten?.()
        this.#running.set(key, (this.#running.get(key) ?? 0) + 1)
        this.#runningOfAll++
        resolve(() => this.#leave(key))
      }
      const giveUp = () => {
        this.#waiting.remove(key, go)
        reject(signal?.reason)
      }
      if (this.#hasTurn(key)) return go()
      if (this.#waiting.size >= waiting || this.#waiting.sizeOf(key) >= waitingEach)
        throw new MutexBusy('too many are waiting')
      unlisten = signal && onAbort(signal, giveUp)
      this.#waiting.add(key, go)
    })
  }

  #hasTurn(key: string): boolean {
    return this.#runningOfAll < this.#limits.all && (this.#running.get(key) ?? 0) < this.#limits.each
  }

  #leave(key: string): void {
    const running = (this.#running.get(key) ?? 1) - 1
    if (running > 0) this.#running.set(key, running)
    else this.#running.delete(key)
    this.#runningOfAll--
    this.#waiting.next((next) => this.#hasTurn(next))?.()
  }
}
