// Keeps the start of a run until the gateway has answered, also across a reload. Its idempotency key prevents a second run.

export interface Unsent {
  readonly key: string
  readonly message: object
  readonly body: object
}

export class Outbox {
  readonly #name: string

  constructor(threadId: string) {
    this.#name = `colloquy-unsent-${threadId}`
  }

  get unsent(): Unsent | null {
    const text = sessionStorage.getItem(this.#name)
    // Written by `keep`.
    return text === null ? null : (JSON.parse(text) as Unsent)
  }

  keep(unsent: Unsent): void {
    sessionStorage.setItem(this.#name, JSON.stringify(unsent))
  }

  clear(): void {
    sessionStorage.removeItem(this.#name)
  }
}
