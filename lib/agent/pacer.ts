// The pace of the demo: when the next delta is due. At most one timer, and none at full speed.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { ModelRequest } from './model.ts'

/** Deltas per turn of the event loop, which delays everything else in the process. */
const BURST = 64

export class Pacer {
  readonly #rate: number
  readonly #request: ModelRequest
  #begun = performance.now()
  #told = 0

  /** @param rate deltas a second; 0: as fast as the log takes them */
  constructor(rate: number, request: ModelRequest) {
    this.#rate = rate
    this.#request = request
  }

  /** Counts a delta. True: `wait` before the next one. */
  told(): boolean {
    this.#told++
    return this.#told % BURST === 0 || this.#aheadMs() >= 1
  }

  /** Waits until the next delta is due, and at least for one turn of the event loop. */
  async wait(): Promise<void> {
    const aheadMs = this.#aheadMs()
    if (aheadMs >= 1) await this.#sleep(aheadMs)
    else await nextTurn()
    this.#request.signal.throwIfAborted()
  }

  async pause(ms: number): Promise<void> {
    if (ms === 0) return
    await this.#sleep(ms)
    this.#begun += ms
  }

  /** Waits for space in the log; the lost time is not made up for by a burst. */
  async space(): Promise<void> {
    const since = performance.now()
    await this.#request.space?.()
    this.#request.signal.throwIfAborted()
    this.#begun += performance.now() - since
  }

  async #sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#request.signal })
  }

  #aheadMs(): number {
    return this.#rate === 0 ? 0 : this.#begun + (this.#told * 1000) / this.#rate - performance.now()
  }
}
