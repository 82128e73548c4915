// Responses being sent: what a client does not read stays in memory, so above a limit a user's next response has to wait.
import type { ServerResponse } from 'node:http'

/** Shorter ones are not counted. */
const COUNTED_MIN = 64 * 1024

export class UnreadAnswers {
  readonly #max: number
  readonly #bytes = new Map<string, number>()
  #waiting: (() => void)[] = []

  /** @param max bytes of a user */
  constructor(max: number) {
    this.#max = max
  }

  /** A response was sent; what the client has not read yet counts until the response is closed. */
  add(user: string, res: ServerResponse): void {
    const bytes = res.writableLength
    if (bytes < COUNTED_MIN || res.closed) return
    this.#bytes.set(user, (this.#bytes.get(user) ?? 0) + bytes)
    res.once('close', () => {
      const left = (this.#bytes.get(user) ?? 0) - bytes
      if (left > 0) this.#bytes.set(user, left)
      else this.#bytes.delete(user)
      for (const wake of this.#waiting.splice(0)) wake()
    })
  }

  hasRoom(user: string): boolean {
    return (this.#bytes.get(user) ?? 0) < this.#max
  }

  /** Resolves when any response was closed: it may have been one of the user's. */
  less(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}
