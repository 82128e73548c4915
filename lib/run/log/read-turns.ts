// Turns for reading the store. SQLite answers without yielding, so one reader that catches up could keep the event loop
// to itself: reads queue here, first come first served, and each tick gives them a few ms.

/** Time for reads per tick, in ms; one read may exceed it. */
const TURN_MS = 4
/** Reads started per tick: with an asynchronous store, time says nothing. */
const READS_A_TURN = 16

export class ReadTurns {
  readonly #waiting: (() => void)[] = []
  /** When the first read of this tick began; 0: none yet. */
  #since = 0
  #begun = 0

  /** Resolves when it is this reader's turn. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      setImmediate(() => this.#one())
    })
  }

  /** One immediate per read: the microtasks a read leads to are done, and counted, before the next one starts. */
  #one(): void {
    if (this.#since === 0) {
      this.#since = performance.now()
      setImmediate(() => {
        this.#since = 0
        this.#begun = 0
      })
    }
    if (this.#begun < READS_A_TURN && performance.now() - this.#since < TURN_MS) {
      this.#begun++
      this.#waiting.shift()!()
    } else setImmediate(() => this.#one())
  }
}

/** One per process, as there is one event loop. */
export const readTurns = new ReadTurns()
