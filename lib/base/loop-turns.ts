// Spreads synchronous work over turns of the event loop: a few ms per turn, so that everything else runs in between.
// Its keys take turns.
import { FairQueue } from './keyed-mutex.ts'

/** Time for such work per turn of the loop, in ms; one piece may exceed it. */
const TURN_MS = 4
/**
 * Turns left to others after a longer piece: one per ms it took, up to this many. libuv accepts one connection per turn, so a client
 * behind fifty others would wait for fifty pieces; an empty turn costs nothing.
 */
const FREE_TURNS_MAX = 64

/** While connections arrive, work is put off for this many turns and then has as many, so that an endless stream of them holds up nothing. */
const ARRIVAL_TURNS = 256

/**
 * Arriving connections. libuv accepts one per turn, so a client behind two hundred others waits for two hundred turns. To keep those
 * short, work that takes turns waits until all are accepted.
 */
class Arrivals {
  /** Successive turns in which connections arrived; 0: there was none in the last one. */
  #turns = 0
  #hasCome = false

  /** A connection was accepted. */
  came(): void {
    this.#hasCome = true
    if (this.#turns > 0) return
    this.#turns = 1
    setImmediate(() => this.#turn())
  }

  get comeFirst(): boolean {
    return this.#turns > 0 && this.#turns <= ARRIVAL_TURNS
  }

  #turn(): void {
    this.#turns = this.#hasCome ? (this.#turns % (2 * ARRIVAL_TURNS)) + 1 : 0
    this.#hasCome = false
    if (this.#turns > 0) setImmediate(() => this.#turn())
  }
}

/** One for the process's one loop. */
export const arrivals = new Arrivals()

export class LoopTurns {
  readonly #most: number
  readonly #waiting = new FairQueue<() => void>()
  #isDriven = false
  /** Pieces of this turn; not 0 while turns are left to others. */
  #begun = 0
  #underWay = 0
  /** Time spent on pieces of this turn, in ms. */
  #spent = 0

  /** @param most pieces begun per turn, for work that continues asynchronously and takes no time here */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most
  }

  /** Resolves when it is the key's turn, never in this turn of the loop. */
  next(key = ''): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.add(key, resolve)
      if (!this.#isDriven) setImmediate(() => this.#drive())
      this.#isDriven = true
    })
  }

  /** The same, but undefined if nobody waits and this turn has time left: go on at once. */
  enter(key: string): Promise<void> | undefined {
    const isFirst = this.#waiting.size === 0 && this.#underWay === 0
    return isFirst && !arrivals.comeFirst && this.#begin(true) ? undefined : this.next(key)
  }

  #drive(): void {
    this.#isDriven = this.#waiting.size > 0
    if (!this.#isDriven) return
    if (arrivals.comeFirst || !this.#begin(false)) return void setImmediate(() => this.#drive())
    this.#waiting.next()!()
    afterMicrotasks(() => this.#drive())
  }

  /** @param isEarly this turn's immediates are still to come, and count as part of it */
  #begin(isEarly: boolean): boolean {
    if (this.#begun === 0) setImmediate(() => (isEarly ? setImmediate(() => this.#end()) : this.#end()))
    else if (this.#begun >= this.#most || this.#spent >= TURN_MS) return false
    this.#begun++
    this.#underWay++
    const began = performance.now()
    afterMicrotasks(() => {
      this.#spent += performance.now() - began
      this.#underWay--
    })
    return true
  }

  #end(): void {
    this.#rest(this.#spent < TURN_MS ? 0 : Math.min(this.#spent, FREE_TURNS_MAX))
  }

  #rest(turns: number): void {
    if (turns > 0) return void setImmediate(() => this.#rest(turns - 1))
    this.#begun = 0
    this.#spent = 0
  }
}

/** A nextTick scheduled by a microtask runs after all microtasks. */
function afterMicrotasks(work: () => void): void {
  queueMicrotask(() => process.nextTick(work))
}

/** For reads of the store: SQLite answers synchronously, so a reader that catches up would never yield. One for the process. */
export const readTurns = new LoopTurns(16)
