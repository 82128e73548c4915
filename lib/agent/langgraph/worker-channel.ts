// Calls between two threads: what one side asks, a handler of the other answers. Both sides have one; what is told is heard in its order.
import { AgentFileError } from '../agent-file.ts'
import { AgentError } from '../runtime.ts'

/** As much of a MessagePort as is used; a Worker is one. */
export interface ThreadPort {
  postMessage(message: unknown): void
  on(event: 'message', listener: (message: ThreadMessage) => void): unknown
}

/** An error between two threads, which keeps nothing of its class. */
interface SentError {
  readonly kind: 'agent' | 'file' | 'other'
  readonly name: string
  readonly message: string
  readonly stopReason: string | null
}

export type ThreadMessage =
  | { readonly call: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly tell: string; readonly args: readonly unknown[] }
  | { readonly answer: number; readonly value?: unknown; readonly error?: SentError }

/** What the other side may ask for. Both sides are of one build, and say to each other what those handlers take. */
// biome-ignore lint/suspicious/noExplicitAny: handlers are of different types, and called by name
export type Handlers = Readonly<Record<string, (...args: any[]) => unknown>>

export class WorkerChannel {
  readonly #port: ThreadPort
  readonly #handlers: Handlers
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  #count = 0
  #closed: Error | null = null

  constructor(port: ThreadPort, handlers: Handlers) {
    this.#port = port
    this.#handlers = handlers
    port.on('message', (message) => void this.#hear(message))
  }

  /** Calls that have no answer yet. */
  get size(): number {
    return this.#waiting.size
  }

  /** @returns what the other side's handler answers, whose type the caller knows. @throws what it throws, by its name and text */
  call<T>(name: string, ...args: readonly unknown[]): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(this.#closed)
      const call = ++this.#count
      this.#port.postMessage({ call, name, args })
      // Both sides agree on what this handler answers.
      this.#waiting.set(call, { resolve: (value) => resolve(value as T), reject })
    })
  }

  tell(name: string, ...args: readonly unknown[]): void {
    if (!this.#closed) this.#port.postMessage({ tell: name, args })
  }

  /** The other side is gone: whoever waits for it is told so. */
  close(error: Error): void {
    this.#closed = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  async #hear(message: ThreadMessage): Promise<void> {
    if ('tell' in message) return void this.#handlers[message.tell]!(...message.args)
    if ('answer' in message) {
      const { answer, value, error } = message
      const waiting = this.#waiting.get(answer)
      this.#waiting.delete(answer)
      return error ? waiting?.reject(received(error)) : waiting?.resolve(value)
    }
    const { call, name, args } = message
    try {
      const value = await this.#handlers[name]!(...args)
      this.#port.postMessage({ answer: call, value })
    } catch (error) {
      this.#port.postMessage({ answer: call, error: sent(error) })
    }
  }
}

function sent(error: unknown): SentError {
  const kind = error instanceof AgentError ? 'agent' : error instanceof AgentFileError ? 'file' : 'other'
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) }
  return { kind, name, message, stopReason: error instanceof AgentError ? error.stopReason : null }
}

function received({ kind, name, message, stopReason }: SentError): Error {
  if (kind === 'agent') return new AgentError(name, message, stopReason)
  if (kind === 'file') return new AgentFileError(message)
  return Object.assign(new Error(message), { name })
}
