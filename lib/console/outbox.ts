// Keeps the start of a run until the gateway has answered, also across a reload. Its idempotency key prevents a second run.
import { keep, kept } from './tab-storage.ts'

export interface Unsent {
  readonly key: string
  readonly message: Readonly<Record<string, unknown>>
  readonly body: object
}

export class Outbox {
  readonly #name: string

  constructor(threadId: string) {
    this.#name = `colloquy-unsent-${threadId}`
  }

  get unsent(): Unsent | null {
    const text = kept(this.#name)
    // Written by `keep`.
    return text === null ? null : (JSON.parse(text) as Unsent)
  }

  keep(unsent: Unsent): void {
    keep(this.#name, JSON.stringify(unsent))
  }

  clear(): void {
    keep(this.#name, '')
  }
}
