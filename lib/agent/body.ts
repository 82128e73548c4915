// The body of a response: its bytes as they come, under a watch.
import type { IncomingMessage } from 'node:http'
import type { Watch } from './watch.ts'

/** Bytes of a body that are read as a text: an explanation is short. */
const TEXT_BYTES = 64 * 1024
/** Milliseconds that a body may take to end by itself; then its connection is closed instead of kept. */
const DRAIN_MS = 1000

/** The connection failed. A value, so that a failure of ours is never taken for one of the network. */
export class Broken {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

/** What a listener wants after a chunk: more, nothing any more, or more when it has space again. */
export type Wish = 'more' | 'enough' | Promise<void>

export class ResponseBody {
  readonly #message: IncomingMessage
  readonly #watch: Watch
  #error: unknown

  constructor(message: IncomingMessage, watch: Watch) {
    this.#message = message
    this.#watch = watch
    message.on('error', (error) => {
      this.#error = error
    })
  }

  /**
   * Tells the bytes in the turn they come, until they end or the listener has enough. @returns What broke them off; null: nothing
   * did. @throws What the listener throws; the reason of the run's abort.
   */
  each(hear: (bytes: Buffer) => Wish): Promise<Broken | null> {
    const message = this.#message
    return new Promise((resolve, reject) => {
      const over = () => message.pause().off('data', onData).off('end', onEnd).off('close', onClose)
      const fail = (error: unknown) => {
        over()
        reject(error)
      }
      const onEnd = () => {
        over()
        resolve(null)
      }
      const onClose = () => {
        over()
        this.#brokeOff().then(resolve, reject)
      }
      const onData = (bytes: Buffer) => {
        this.#watch.beat()
        try {
          const wish = hear(bytes)
          if (wish === 'more') return
          if (wish === 'enough') return onEnd()
          message.pause()
          wish.then(() => message.resume(), fail)
        } catch (error) {
          fail(error)
        }
      }
      // It may have broken between its head and now; then nobody tells any more.
      if (message.destroyed && !message.readableEnded) onClose()
      else message.on('data', onData).on('end', onEnd).on('close', onClose)
    })
  }

  async #brokeOff(): Promise<Broken> {
    this.#watch.throwIfAborted()
    return new Broken(this.#error)
  }

  /** As much of the text as can be had; the rest is not read. @throws The reason of the run's abort. */
  async text(): Promise<string> {
    const decoder = new TextDecoder()
    let text = ''
    let bytes = 0
    await this.each((chunk) => {
      bytes += chunk.length
      text += decoder.decode(chunk, { stream: true })
      return bytes < TEXT_BYTES ? 'more' : 'enough'
    })
    this.#message.destroy()
    return text
  }

  /** Reads to the end what nobody needs, so that the connection can be used again. Nobody waits for it. */
  drain(): void {
    const message = this.#message
    const timer = setTimeout(() => message.destroy(), DRAIN_MS)
    timer.unref()
    message.once('close', () => clearTimeout(timer)).resume()
  }
}
