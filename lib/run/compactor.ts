// Makes the frames of ended runs small. Most of a frame is the same as in its neighbours, so that compressed in blocks they cost
// little more than the text they carry. Done by the writer in short steps, a few runs at a time, a while after their end: where many
// end at once, others begin, and what they wait for comes first.
import type { Writer } from '../store/store.ts'

/** From the end of a run to the work on it, when none is under way, in ms. */
const REST_MS = 250
/** Runs that are worked on at once: their steps make one transaction, which is to stay a matter of milliseconds. */
const LANES = 4
/** Runs that wait. Above it the oldest is passed over: its frames stay as they are, which costs space and nothing else. */
const WAITING_MAX = 10_000

export class Compactor {
  readonly #writer: Writer
  readonly #onTrouble: (error: unknown) => void
  readonly #waiting: number[] = []
  #working = 0
  #isStopped = false
  #rest: NodeJS.Timeout | null = null

  constructor(writer: Writer, onTrouble: (error: unknown) => void) {
    this.#writer = writer
    this.#onTrouble = onTrouble
  }

  /** The run with this key has ended. */
  add(runKey: number): void {
    if (this.#isStopped) return
    this.#waiting.push(runKey)
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
    if (this.#working === 0) this.#rest ??= setTimeout(() => void this.#work(), REST_MS)
  }

  /** Runs that wait, and those that are worked on. */
  get size(): number {
    return this.#waiting.length + this.#working
  }

  stop(): void {
    this.#isStopped = true
    this.#waiting.length = 0
    if (this.#rest) clearTimeout(this.#rest)
  }

  async #work(): Promise<void> {
    this.#rest = null
    while (this.#waiting.length) {
      const keys = this.#waiting.splice(0, LANES)
      this.#working = keys.length
      await Promise.all(keys.map((key) => this.#compact(key).catch(this.#onTrouble)))
    }
    this.#working = 0
  }

  async #compact(runKey: number): Promise<void> {
    for (let from: number | null = 0; from !== null && !this.#isStopped; ) {
      const step: { next: number | null } = await this.#writer.write({ name: 'frames.compact', run_key: runKey, from })
      from = step.next
    }
  }
}
