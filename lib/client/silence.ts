// Connections that break, for clients in browsers and Node: silence is noticed, and the next attempt waits longer after each failure.

/** A gateway that does not say how often it sends heartbeats sends them every 5 s. */
const BEAT_MS = 5000

/** Limit for an attempt to be answered, in ms. */
export const CONNECT_MS = 10_000

/** The end of a connection may come so long behind that of the run, in ms. */
export const END_MS = 1000
/** An attempt without an answer for this long may hang, in ms. */
export const HANGING_MS = 500
const SHORT_ATTEMPTS = 5
const SHORT_MS = 1000
const SILENT_MS = 6000
const SILENT_PAUSE_MS = 3000

/** Between the heartbeats of a stream, in ms. */
export function beatMsOf({ headers }: Response): number {
  return Number(headers.get('x-heartbeat-ms') ?? BEAT_MS)
}

/** Silence after which a stream counts as dead, in ms. */
export function silenceMsOf(response: Response): number {
  return beatMsOf(response) * 1.5
}

/** At most this long is waited after so many failures, in ms. */
export function grownMs(failures: number, firstMs: number, mostMs: number): number {
  return Math.min(mostMs, firstMs * 2 ** failures)
}

export class Silence extends Error {}

/**
 * Attempts to connect after a silence. The connections that a browser keeps alive may be dead as well, and each attempt uses one up: the
 * first ones are short, and follow each other without delay. Behind those an attempt and the pause before it stay below 10 s together:
 * nothing says when a network is good again that has swallowed everything, and an attempt that has begun before may hang.
 */
export class AttemptsAfterSilence {
  /** Short ones that are left; null: nothing has been silent since a connection was open. */
  #left: number | null = null

  /** A stream was silent and is over, by whomever it was ended: what carries it may have noticed first, with an error of its own. */
  begin(): void {
    this.#left = SHORT_ATTEMPTS
  }
  end(): void {
    this.#left = null
  }

  /** Limit of the next attempt, in ms. */
  limitMs(usualMs: number): number {
    if (this.#left === null) return usualMs
    return Math.min(usualMs, this.#left > 0 ? SHORT_MS : SILENT_MS)
  }

  /** Longest pause behind one that has failed, in ms. */
  pauseMs(error: unknown, usualMs: number): number {
    return error instanceof Silence ? Math.min(usualMs, SILENT_PAUSE_MS) : usualMs
  }

  /** Whether the next one is made without delay: of the short ones, which end with one that is not short. */
  isHasty(error: unknown): boolean {
    if (!(error instanceof Silence) || this.#left === 0) return false
    this.#left = (this.#left ?? SHORT_ATTEMPTS + 1) - 1
    return true
  }
}

/** Aborts a request when nothing has arrived for a while, or when `parent` is aborted. */
export class Watchdog {
  readonly #abort = new AbortController()
  readonly #parent: AbortSignal | undefined
  readonly #onParent = () => this.giveUp(this.#parent?.reason)
  #ms: number | null
  #restartedAt = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param ms null: until something has arrived, it may take as long as it likes */
  constructor(ms: number | null, parent?: AbortSignal) {
    this.#ms = ms
    this.#parent = parent
    if (parent?.aborted) this.#onParent()
    else parent?.addEventListener('abort', this.#onParent)
    this.restart()
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }
  get silentMs(): number {
    return performance.now() - this.#restartedAt
  }

  /** Something has arrived; from now on it may be silent for `ms`. */
  restart(ms = this.#ms): void {
    if (this.#abort.signal.aborted) return
    const isSame = ms === this.#ms
    this.#ms = ms
    this.#restartedAt = performance.now()
    // One that runs looks again when it is due: pieces come by the hundred a second, and none of them makes a timer.
    if (isSame && this.#timer !== undefined) return
    this.#stopTimer()
    if (ms !== null) this.#timer = setTimeout(() => this.#look(ms), ms)
  }

  #look(ms: number): void {
    const left = ms - this.silentMs
    if (left <= 0) return this.giveUp(new Silence('The connection is silent'))
    this.#timer = setTimeout(() => this.#look(ms), left)
  }

  /** The text of a response: each piece of it has arrived. */
  async textOf({ body }: Response): Promise<string> {
    const reader = body?.getReader()
    const decoder = new TextDecoder()
    let text = ''
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true }
      text += decoder.decode(value, { stream: !done })
      if (done) return text
      this.restart()
    }
  }

  giveUp(error: unknown): void {
    this.stop()
    this.#abort.abort(error)
  }

  stop(): void {
    this.#stopTimer()
    this.#parent?.removeEventListener('abort', this.#onParent)
  }
  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
