// Makes the frames of ended runs small. Most of a frame is the same as in its neighbours, so that compressed in blocks they cost
// little more than the text they carry. Done by the writer in short steps, one run after the other, behind everything that
// somebody waits for.
import type { Writer } from '../store/store.ts'

/** Runs that wait. Above it the oldest is passed over: its frames stay as they are, which costs space and nothing else. */
const WAITING_MAX = 10_000

export class Compactor {
  readonly #writer: Writer
  readonly #onTrouble: (error: unknown) => void
  readonly #waiting: number[] = []
  #isWorking = false
  #isStopped = false

  constructor(writer: Writer, onTrouble: (error: unknown) => void) {
    this.#writer = writer
    this.#onTrouble = onTrouble
  }

  /** The run with this key has ended. */
  add(runKey: number): void {
    if (this.#isStopped) return
    this.#waiting.push(runKey)
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
    if (!this.#isWorking) void this.#work()
  }

  /** Runs that wait, and the one that is worked on. */
  get size(): number {
    return this.#waiting.length + (this.#isWorking ? 1 : 0)
  }

  stop(): void {
    this.#isStopped = true
    this.#waiting.length = 0
  }

  async #work(): Promise<void> {
    this.#isWorking = true
    for (let key = this.#waiting.shift(); key !== undefined; key = this.#waiting.shift()) {
      await this.#compact(key).catch(this.#onTrouble)
    }
    this.#isWorking = false
  }

  async #compact(runKey: number): Promise<void> {
    for (let from: number | null = 0; from !== null && !this.#isStopped; ) {
      const step: { next: number | null } = await this.#writer.write({ name: 'frames.compact', run_key: runKey, from })
      from = step.next
    }
  }
}
