// The channel between two threads: calls and one-way messages, in order. Each side has one, with handlers for the other.
import { warnUnexpected } from './errors.ts'

/** The part of MessagePort we use; Worker has it too. */
export interface ThreadPort {
  postMessage(message: unknown): void
  on(event: 'message', listener: (message: ThreadMessage) => void): unknown
}

/** An error as sent to the other thread, which would lose its class. */
export interface SentError {
  readonly name: string
  readonly message: string
}

type ThreadMessage =
  | { readonly call: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly send: string; readonly args: readonly unknown[] }
  | { readonly answer: number; readonly value?: unknown; readonly error?: SentError }

/** Handlers by name. Both sides are of the same build and agree on the arguments. */
// biome-ignore lint/suspicious/noExplicitAny: handlers are of different types, and called by name
export type Handlers = Readonly<Record<string, (...args: any[]) => unknown>>

/** How errors cross: with more than name and message where their class matters. */
interface ErrorForm<Sent extends SentError> {
  sent(error: unknown): Sent
  received(sent: Sent): Error
}

const PLAIN: ErrorForm<SentError> = {
  sent: (error) =>
    error instanceof Error ? { name: error.name, message: error.message } : { name: 'Error', message: String(error) },
  received: ({ name, message }) => Object.assign(new Error(message), { name })
}

export class ThreadChannel<Sent extends SentError = SentError> {
  readonly #port: ThreadPort
  readonly #handlers: Handlers
  readonly #errors: ErrorForm<Sent>
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  #count = 0
  #closed: Error | null = null

  constructor(port: ThreadPort, handlers: Handlers, errors?: ErrorForm<Sent>) {
    this.#port = port
    this.#handlers = handlers
    // Without a form of its own, Sent is what the plain one makes.
    this.#errors = errors ?? (PLAIN as unknown as ErrorForm<Sent>)
    port.on('message', (message) => this.#received(message).catch(warnUnexpected))
  }

  /** Calls that wait for their answers. */
  get size(): number {
    return this.#waiting.size
  }

  /** @returns the result of the other side's handler. @throws its error */
  call<T>(name: string, ...args: readonly unknown[]): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(this.#closed)
      const call = ++this.#count
      this.#port.postMessage({ call, name, args })
      // Both sides agree on the handler's type.
      this.#waiting.set(call, { resolve: (value) => resolve(value as T), reject })
    })
  }

  /** A message without an answer. */
  send(name: string, ...args: readonly unknown[]): void {
    if (!this.#closed) this.#port.postMessage({ send: name, args })
  }

  /** The other side is gone: pending and later calls reject. */
  close(error: Error): void {
    this.#closed = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  async #received(message: ThreadMessage): Promise<void> {
    if ('send' in message) return void (await this.#handlers[message.send]!(...message.args))
    if ('answer' in message) {
      const { answer, value, error } = message
      const waiting = this.#waiting.get(answer)
      this.#waiting.delete(answer)
      // Sent by the same form on the other side.
      return error ? waiting?.reject(this.#errors.received(error as Sent)) : waiting?.resolve(value)
    }
    const { call, name, args } = message
    try {
      // A handler that is done at once is answered in its turn: between the questions of a busy thread nothing else runs.
      const value = this.#handlers[name]!(...args)
      this.#port.postMessage({ answer: call, value: value instanceof Promise ? await value : value })
    } catch (error) {
      this.#port.postMessage({ answer: call, error: this.#errors.sent(error) })
    }
  }
}
