// A process that is followed by another one when it is gone.
import { warnUnexpected } from '../../base/errors.ts'

interface Running {
  readonly isGone: boolean
  /** Replaced by a newer one: it ends with what it is doing. */
  retire(): void
}

export class Renewed<T extends Running> {
  readonly #start: () => Promise<T>
  #current: Promise<T>

  constructor(start: () => Promise<T>) {
    this.#start = start
    this.#current = start()
    this.#current.catch(() => {})
  }

  /** @throws Error of its start */
  first(): Promise<T> {
    return this.#current
  }

  /** The one in use, gone or not; null: it could not be started. */
  get newest(): Promise<T | null> {
    return this.#current.catch(() => null)
  }

  /** One that runs. @throws Error of its start */
  async get(): Promise<T> {
    const current = this.#current
    const running = await current.catch(() => null)
    if (running && !running.isGone) return running
    // Others that have waited find the new one.
    if (this.#current === current) this.#current = this.#start()
    this.#current.catch(() => {})
    return this.#current
  }

  /** @throws Error of the start, and the old one stays */
  async replace(start: () => Promise<T>): Promise<T> {
    const next = await start()
    const before = this.newest
    this.#current = Promise.resolve(next)
    const old = await before
    old?.retire()
    return next
  }
}

/** The uses of a process: one that was replaced is closed with the last of them. */
export class Uses {
  readonly #close: () => Promise<void>
  #count = 0
  #isRetired = false

  constructor(close: () => Promise<void>) {
    this.#close = close
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#count++
    try {
      return await work()
    } finally {
      this.#count--
      this.#closeIfIdle()
    }
  }

  retire(): void {
    this.#isRetired = true
    this.#closeIfIdle()
  }

  #closeIfIdle(): void {
    if (this.#isRetired && this.#count === 0) this.#close().catch(warnUnexpected)
  }
}
