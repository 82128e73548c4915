// Decides when the frames of ended runs are compressed: a frame repeats most of its neighbours, so that in blocks they cost little more
// than the text they carry. It has the store compress a few runs at a time, in short steps, when no run has ended for a while: while runs
// keep ending, new ones start, and those come first.
import type { Writer } from '../../store/store.ts'

/** Delay after the last end of a run, in ms; each further end postpones the work, but not beyond the second figure. */
const REST_MS = 500
const REST_MS_MAX = 5000
/** Runs with fewer bytes of frames are left alone: not worth the work for something kept a day. */
const SMALL_BYTES = 4 * 1024
/** Bytes per step, about. */
const STEP_BYTES = 64 * 1024
/** Bytes of all runs worked on at once: their steps share one transaction, which has to stay short. */
const AT_ONCE_BYTES = 4 * STEP_BYTES
/** Runs worked on at once, however short they are. */
const AT_ONCE_MAX = 16
/** Queue limit. Above it the oldest run is skipped: its frames stay uncompressed, which only costs disk space. */
const WAITING_MAX = 10_000

interface Ended {
  readonly key: number
  /** Bytes of its frames, about, capped at one step. */
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

  /** Queues an ended run. `bytes`: of its frames, about; undefined if unknown. */
  add(key: number, bytes = STEP_BYTES): void {
    if (this.#isStopped || bytes < SMALL_BYTES) return
    this.#waiting.push({ key, bytes: Math.min(bytes, STEP_BYTES) })
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
    if (this.#working === 0) this.#putOff()
  }

  #putOff(): void {
    if (!this.#rest) {
      this.#restsSince = performance.now()
      this.#rest = setTimeout(() => this.#work().catch(this.#onTrouble), REST_MS)
    } else if (performance.now() - this.#restsSince < REST_MS_MAX - REST_MS) this.#rest.refresh()
  }

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
