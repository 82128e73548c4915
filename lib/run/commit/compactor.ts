// Makes the frames of ended runs small. Most of a frame is the same as in its neighbours, so that compressed in blocks they cost
// little more than the text they carry. Done by the writer in short steps, a few runs at a time, when no run has ended for a while:
// where many end at once, others begin, and what they wait for comes first.
import type { Writer } from '../../store/store.ts'

/** From the last end of a run to the work, in ms; it is put off by those that follow, but for no longer than the second figure. */
const REST_MS = 500
const REST_MS_MAX = 5000
/** Bytes of frames below which a run stays as it is: what is saved of a page for a day is not worth the work. */
const SMALL_BYTES = 4 * 1024
/** A step takes about so many bytes of a run. */
const STEP_BYTES = 64 * 1024
/** Bytes of all that are worked on at once: their steps make one transaction, which is to stay a matter of milliseconds. */
const AT_ONCE_BYTES = 4 * STEP_BYTES
/** Runs that are worked on at once, however short they are. */
const AT_ONCE_MAX = 16
/** Runs that wait. Above it the oldest is passed over: its frames stay as they are, which costs space and nothing else. */
const WAITING_MAX = 10_000

interface Ended {
  readonly key: number
  /** Of its frames, about, as far as a step takes them. */
  readonly bytes: number
}

export class Compactor {
  readonly #writer: Writer
  readonly #onTrouble: (error: unknown) => void
  readonly #waiting: Ended[] = []
  #working = 0
  #isStopped = false
  #rest: NodeJS.Timeout | null = null
  #restsSince = 0

  constructor(writer: Writer, onTrouble: (error: unknown) => void) {
    this.#writer = writer
    this.#onTrouble = onTrouble
  }

  /** The run with this key has ended, with about so many bytes of frames; undefined: nobody knows. */
  add(key: number, bytes = STEP_BYTES): void {
    if (this.#isStopped || bytes < SMALL_BYTES) return
    this.#waiting.push({ key, bytes: Math.min(bytes, STEP_BYTES) })
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
    if (this.#working === 0) this.#putOff()
  }

  #putOff(): void {
    if (!this.#rest) {
      this.#restsSince = performance.now()
      this.#rest = setTimeout(() => void this.#work(), REST_MS)
    } else if (performance.now() - this.#restsSince < REST_MS_MAX - REST_MS) this.#rest.refresh()
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
      const runs = this.#take()
      this.#working = runs.length
      await Promise.all(runs.map(({ key }) => this.#compact(key).catch(this.#onTrouble)))
    }
    this.#working = 0
  }

  #take(): Ended[] {
    let count = 0
    for (let bytes = 0; count < Math.min(this.#waiting.length, AT_ONCE_MAX) && bytes < AT_ONCE_BYTES; count++)
      bytes += this.#waiting[count]!.bytes
    return this.#waiting.splice(0, count)
  }

  async #compact(runKey: number): Promise<void> {
    for (let from: number | null = 0; from !== null && !this.#isStopped; ) {
      const step: { next: number | null } = await this.#writer.write({ name: 'frames.compact', run_key: runKey, from })
      from = step.next
    }
  }
}
