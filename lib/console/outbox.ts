// The start of a run that the gateway has not answered yet. It outlives a reload; its key keeps a second try from being a second run.

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
    // Written below, by this very origin.
    return text === null ? null : (JSON.parse(text) as Unsent)
  }

  keep(unsent: Unsent): void {
    sessionStorage.setItem(this.#name, JSON.stringify(unsent))
  }

  clear(): void {
    sessionStorage.removeItem(this.#name)
  }
}
