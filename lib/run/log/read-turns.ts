// Turns for reading the store. SQLite answers without leaving the turn, so a reader that catches up would read again and again and
// let nobody else have the loop: here reads wait for their turn, first come first served, and a turn of the loop has a few ms of them.

/** What reads may take of one turn of the loop, in ms; one read may exceed it. */
const TURN_MS = 4
/** Reads that are begun in one turn at most: where the store answers later, they do not count by time. */
const READS_A_TURN = 16

export class ReadTurns {
  readonly #waiting: (() => void)[] = []
  /** When the first read of this turn began; 0: none has. */
  #since = 0
  #begun = 0

  /** Resolves when it is this reader's turn. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      setImmediate(() => this.#one())
    })
  }

  /** One immediate a read: what a read leads to in microtasks is done, and counted, before the next one begins. */
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

/** One for the process, as it has one loop. */
export const readTurns = new ReadTurns()
