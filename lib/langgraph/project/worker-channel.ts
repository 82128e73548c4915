// Calls and one-way messages between two threads, in order. Each side has a channel with handlers for the other.
import { AgentFileError } from '../../agent/agent-file.ts'
import { AgentError } from '../../agent/runtime.ts'
import { warnUnexpected } from '../../base/errors.ts'

/** The part of MessagePort we use; Worker has it too. */
export interface ThreadPort {
  postMessage(message: unknown): void
  on(event: 'message', listener: (message: ThreadMessage) => void): unknown
}

/** An error as sent to the other thread, which would lose its class. */
interface SentError {
  readonly kind: 'agent' | 'file' | 'other'
  readonly name: string
  readonly message: string
  readonly stopReason: string | null
}

type ThreadMessage =
  | { readonly call: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly tell: string; readonly args: readonly unknown[] }
  | { readonly answer: number; readonly value?: unknown; readonly error?: SentError }

/** Handlers by name. Both sides are of the same build and agree on the arguments. */
// biome-ignore lint/suspicious/noExplicitAny: handlers are of different types, and called by name
type Handlers = Readonly<Record<string, (...args: any[]) => unknown>>

export class WorkerChannel {
  readonly #port: ThreadPort
  readonly #handlers: Handlers
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  #count = 0
  #closed: Error | null = null

  constructor(port: ThreadPort, handlers: Handlers) {
    this.#port = port
    this.#handlers = handlers
    port.on('message', (message) => this.#hear(message).catch(warnUnexpected))
  }

  get size(): number {
    return this.#waiting.size
  }

  /** @returns the result of the other side's handler. @throws its error, with name and message */
  call<T>(name: string, ...args: readonly unknown[]): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(this.#closed)
      const call = ++this.#count
      this.#port.postMessage({ call, name, args })
      // Both sides agree on the handler's type.
      this.#waiting.set(call, { resolve: (value) => resolve(value as T), reject })
    })
  }

  tell(name: string, ...args: readonly unknown[]): void {
    if (!this.#closed) this.#port.postMessage({ tell: name, args })
  }

  /** The other side is gone: pending and later calls reject. */
  close(error: Error): void {
    this.#closed = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  async #hear(message: ThreadMessage): Promise<void> {
    if ('tell' in message) return void (await this.#handlers[message.tell]!(...message.args))
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

/** Calls a method of a port; the other thread names only methods of its type. */
export function called(port: unknown, method: string, args: readonly unknown[]): unknown {
  return (port as Record<string, (...given: readonly unknown[]) => unknown>)[method]!(...args)
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
