// The messages of a client's WebSocket: answered one after the other, and no faster than it reads the answers. What waits is counted.
import { BYTE_WEIGHT, type Share } from '../base/budget.ts'
import { warnUnexpected } from '../base/errors.ts'
import type { ResetReason } from '../base/stream-writer.ts'
import { POLICY, type TextSocket, textFrames } from './web-socket.ts'

/** Messages that wait; the socket is not read while there are any, but what has arrived at once is there already. */
const QUEUED_MAX = 1000
const TRY_AGAIN = 1013

/** What a queue is of. */
interface MessageQueueParts {
  readonly socket: TextSocket
  /** The user's budget: counts messages until they are answered. */
  readonly share: Share
  /** What else is written to the socket: an answer never splits it. */
  readonly stream: { readonly isAtBorder: boolean }
  /** Answers by `send`. One that rejects resets the socket. */
  answer(text: string): Promise<void> | void
  /** All that could be answered was. */
  onIdle?(): void
}

export class MessageQueue {
  readonly #parts: MessageQueueParts
  readonly #queue: string[] = []
  /** Answers that wait for a message boundary. */
  #held: Buffer[] = []
  /** Pong for the last ping while writing was not possible; only the last needs one [RFC 6455 5.5.3]. */
  #pong: Buffer | null = null
  #isFull = false
  #isWorking = false
  #isClosed = false

  constructor(parts: MessageQueueParts) {
    this.#parts = parts
  }

  /** Messages are answered from now on. */
  open(): void {
    const { socket } = this.#parts
    socket.onClose(() => {
      this.#isClosed = true
    })
    socket.onPing((pong) => {
      if (this.#takesAnswers) this.#write(pong)
      else this.#pong = pong
    })
    socket.onText((text) => this.#onText(text))
  }

  get isWorking(): boolean {
    return this.#isWorking
  }
  get isClosed(): boolean {
    return this.#isClosed
  }

  send(answer: object): void {
    this.#write(textFrames([JSON.stringify(answer)]))
  }

  /** What has not been answered yet is not. */
  close(code: number, reason: string): void {
    this.#stop()
    this.#parts.socket.close(code, reason)
  }

  reset(why?: ResetReason): void {
    this.#stop()
    this.#parts.socket.reset(why)
  }

  #stop(): void {
    this.#isClosed = true
    this.#queue.length = 0
  }

  /** On drain. */
  flush(): void {
    if (!this.#parts.stream.isAtBorder) return
    const held = this.#pong ? [...this.#held, this.#pong] : this.#held
    this.#held = []
    this.#pong = null
    this.#isFull = false
    for (const frame of held) this.#write(frame)
    this.#resumeWork()
  }

  /** False while the client does not read: its messages wait. */
  get #takesAnswers(): boolean {
    return !this.#isFull && this.#held.length === 0 && this.#parts.stream.isAtBorder
  }

  #write(frame: Buffer): void {
    const { socket, stream } = this.#parts
    if (this.#held.length > 0 || !stream.isAtBorder) this.#held.push(frame)
    else this.#isFull = !socket.write(frame)
  }

  #onText(text: string): void {
    if (this.#isClosed) return
    const { share, socket } = this.#parts
    this.#queue.push(text)
    if (this.#queue.length > QUEUED_MAX) return this.close(POLICY, 'too many messages at once')
    if (!share.take(text.length * BYTE_WEIGHT))
      return this.close(TRY_AGAIN, 'too many messages are on their way; try again')
    socket.pause()
    this.#resumeWork()
  }

  #resumeWork(): void {
    this.#work().catch((error: unknown) => {
      warnUnexpected(error)
      this.reset()
    })
  }

  /** The socket is not read until all are answered. */
  async #work(): Promise<void> {
    if (this.#isWorking) return
    const { share, socket } = this.#parts
    this.#isWorking = true
    while (this.#queue.length > 0 && this.#takesAnswers && !this.#isClosed) {
      const text = this.#queue.shift()!
      await this.#parts.answer(text)
      share.give(text.length * BYTE_WEIGHT)
    }
    this.#isWorking = false
    if (this.#queue.length === 0) socket.resume()
    this.#parts.onIdle?.()
  }
}
