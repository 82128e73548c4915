// HTTP requests to model and graph servers. Uses node:http instead of fetch: in a `data` event everything up to the log happens
// in the same tick, while fetch passes each chunk through a web stream and half a dozen promises.
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { addAbortSignal } from 'node:stream'
import { warnUnexpected, codeOf } from '../../base/errors.ts'
import { traceHeaders } from '../../base/tracing.ts'

// ----------------------------------------- Aborts a request when it is silent for too long or its run is aborted

export class IdleTimeout {
  /** The request was aborted by the idle timeout. */
  isSilent = false

  readonly #run: AbortSignal
  readonly #request = new AbortController()
  #idleMs: number
  #isAlive: (() => Promise<boolean>) | undefined
  readonly #abort = () => this.#request.abort(this.#run.reason)
  #isOver = false
  #timer: NodeJS.Timeout | undefined
  #heardAt = 0

  /**
   * @param idleMs milliseconds of silence; 0: unlimited
   * @param isAlive asked after that silence, for servers that may work silently. True: wait again. Must not reject
   */
  constructor(run: AbortSignal, idleMs: number, isAlive?: () => Promise<boolean>) {
    this.#run = run
    this.#idleMs = idleMs
    this.#isAlive = isAlive
    run.addEventListener('abort', this.#abort, { once: true })
    if (run.aborted) this.#abort()
    this.#arm()
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  /** The server sends heartbeats: from now on this silence, in ms, means that it is gone, and nobody asks. */
  expectHeartbeats(silenceMs: number): void {
    if (this.#isAlive === undefined && this.#idleMs === silenceMs) return
    this.#idleMs = silenceMs
    this.#isAlive = undefined
    if (this.#timer) this.#arm()
  }

  /** Called for every chunk. The timer is not reset; it compares times when it fires. */
  beat(): void {
    this.#heardAt = performance.now()
  }

  /** Suspends the timeout while we do not read. */
  async pausedWhile(work: () => Promise<void>): Promise<void> {
    this.#stop()
    await work()
    this.#run.throwIfAborted()
    this.#arm()
  }

  /** @throws the reason of the run's abort */
  throwIfAborted(): void {
    this.#run.throwIfAborted()
  }

  /** Closes the connection of a request whose rest is not needed. */
  abandon(): void {
    this.#request.abort()
  }

  /** Stops the timer and the abort listener. A response may still be read to its end. */
  end(): void {
    this.#isOver = true
    this.#stop()
    this.#run.removeEventListener('abort', this.#abort)
  }

  #arm(): void {
    if (this.#idleMs <= 0 || this.#isOver) return
    this.beat()
    this.#checkIn(this.#idleMs)
  }

  get #leftMs(): number {
    return this.#heardAt + this.#idleMs - performance.now()
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #checkIn(ms: number): void {
    this.#stop()
    this.#timer = setTimeout(() => this.#check().catch(warnUnexpected), ms)
  }

  async #check(): Promise<void> {
    const timer = this.#timer
    // If the loop was held up, what has arrived meanwhile is read first.
    if (this.#leftMs < 1) await new Promise(setImmediate)
    if (timer !== this.#timer) return
    // Timers have millisecond resolution.
    if (this.#leftMs >= 1) return this.#checkIn(this.#leftMs)
    const isAlive = await this.#isAlive?.()
    // Paused or over meanwhile.
    if (timer !== this.#timer) return
    if (isAlive) return this.#arm()
    this.isSilent = true
    this.#request.abort()
  }
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/** Password and keys of an address. */
export function secretsIn(address: string): string[] {
  const url = URL.parse(address)
  return url ? [url.password, ...url.searchParams.values()] : []
}

/** An address below a base, whose query stays: gateways in front of models and graphs have versions and keys there. */
export function addressBelow(base: string, path: string): string {
  const [place = '', query = ''] = base.split('?', 2)
  const below = place.replace(/\/+$/, '') + path
  return query === '' ? below : `${below}${path.includes('?') ? '&' : '?'}${query}`
}

/**
 * Sends the request; resolves with the response head. Redirects are not followed, because they would leak the key.
 * @throws Error of the connection, or after an abort
 */
export async function send(request: HttpRequest): Promise<IncomingMessage> {
  try {
    return await sendOnce(request)
  } catch (error) {
    // The server was closing the reused connection and has not seen the request.
    if (!(error instanceof StaleConnection)) throw error
    return sendOnce(request)
  }
}

/** The connection was reused, and broke before any response. */
class StaleConnection extends Error {}

async function sendOnce({ method, url, headers, body, signal }: HttpRequest): Promise<IncomingMessage> {
  const request = url.startsWith('https:') ? httpsRequest : httpRequest
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
  const asked = request(url, {
    method,
    headers: { ...headers, ...traceHeaders(), 'user-agent': 'colloquy', ...length },
    signal
  })
  asked.setNoDelay(true)
  asked.end(body)
  try {
    return await headOf(asked)
  } catch (error) {
    const wasClosed = codeOf(error) === 'ECONNRESET'
    throw asked.reusedSocket && wasClosed && !signal.aborted ? new StaleConnection() : error
  }
}

/** The head of the answer to a request. @throws Error of the connection, also when it ends without an answer */
export function headOf(asked: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    asked.on('response', resolve)
    // After the head nobody needs this error; the response reports it too.
    asked.on('error', reject)
    // A server that switches protocols, which nobody has asked it to, is left by node:http without any other event.
    asked.on('close', () => reject(new Error('The server has ended the connection without an answer')))
  })
}

/** The connection failed. Returned, not thrown, so that a bug is never mistaken for a network failure. */
export class ConnectionLost {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

/** What a listener wants after a chunk: more, no more, or more once the promise resolves. */
type ReadControl = 'more' | 'enough' | Promise<void>

/** Maximum bytes of an error body. */
const EXPLANATION_BYTES = 64 * 1024
/** How long to wait for a body to end, in ms, before its connection is closed instead of reused. */
const DRAIN_MS = 1000

/** The body of a response, as it arrives, within the idle timeout. */
export class ResponseBody {
  readonly #message: IncomingMessage
  readonly #timeout: IdleTimeout
  #error: unknown

  constructor(message: IncomingMessage, timeout: IdleTimeout) {
    this.#message = message
    this.#timeout = timeout
    message.on('error', (error) => {
      this.#error = error
    })
    // The request may have been sent with another signal.
    addAbortSignal(timeout.signal, message)
  }

  /**
   * Passes on bytes in the tick they arrive, until the body ends or the listener has enough.
   * @returns the cause if the connection broke, else null
   * @throws what the listener throws; the reason of the run's abort
   */
  each(hear: (bytes: Buffer) => ReadControl): Promise<ConnectionLost | null> {
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
        this.#lost().then(resolve, reject)
      }
      const onData = (bytes: Buffer) => {
        this.#timeout.beat()
        try {
          const control = hear(bytes)
          if (control === 'more') return
          if (control === 'enough') return onEnd()
          message.pause()
          control.then(() => message.resume(), fail)
        } catch (error) {
          fail(error)
        }
      }
      // If the connection broke after the head, there is no further event.
      if (message.destroyed && !message.readableEnded) onClose()
      else message.on('data', onData).on('end', onEnd).on('close', onClose)
    })
  }

  async #lost(): Promise<ConnectionLost> {
    this.#timeout.throwIfAborted()
    return new ConnectionLost(this.#error)
  }

  /**
   * The first `max` bytes as text; the rest is not read.
   * @throws the reason of the run's abort
   */
  async text(max = EXPLANATION_BYTES): Promise<string> {
    const { text } = await this.read(max)
    return text
  }

  /** The same, whether there was more, and the cause if the connection broke. */
  async read(
    max: number
  ): Promise<{ readonly text: string; readonly isCut: boolean; readonly lost: ConnectionLost | null }> {
    const chunks: Buffer[] = []
    let bytes = 0
    const lost = await this.each((chunk) => {
      chunks.push(chunk)
      bytes += chunk.length
      return bytes <= max ? 'more' : 'enough'
    })
    this.close()
    return { text: Buffer.concat(chunks).toString('utf8', 0, max), isCut: bytes > max, lost }
  }

  close(): void {
    this.#message.destroy()
  }

  /** Drains the body in the background, so that the connection can be reused. */
  drain(): void {
    const message = this.#message
    const timer = setTimeout(() => message.destroy(), DRAIN_MS)
    timer.unref()
    message.once('close', () => clearTimeout(timer)).resume()
  }
}

export function isOk({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300
}

/** Whether a status is a temporary failure. */
export function isForNow(status: number): boolean {
  return status === 408 || status === 429 || status >= 500
}
