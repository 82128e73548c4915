// The grace of a creator that has gone: a run with on_disconnect cancel ends after it, unless somebody watches the run then.
import type { Run } from '../../types.ts'

export class Grace {
  readonly #isAsked: boolean
  readonly #ms: number
  readonly #over: () => void
  #timer: NodeJS.Timeout | null = null
  #isForgotten = false

  /** `over` is called `ms` after the last creator has gone, if the run asks for that. */
  constructor(run: Run, ms: number, over: () => void) {
    this.#isAsked = run.kwargs.on_disconnect === 'cancel'
    this.#ms = ms
    this.#over = over
  }

  /** A creating request is gone: there may be several, of one Idempotency-Key. */
  begin(): void {
    if (!this.#isAsked || this.#isForgotten) return
    this.end()
    this.#timer = setTimeout(this.#over, this.#ms)
  }

  end(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  /** A creator that goes away has no say any more. */
  forget(): void {
    this.#isForgotten = true
    this.end()
  }
}
