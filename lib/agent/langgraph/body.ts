// The body of a response of `fetch`: its bytes as they come, under a watch. Those of a model, of which there are many more, are
// told by ../body.ts, without a promise a chunk.
import { Broken } from '../body.ts'

/** Is told that bytes come, and knows whether they are still wanted. */
export interface Watching {
  beat(): void
  /** @throws The reason of the run's abort. */
  throwIfAborted(): void
}

/** Bytes of a body that are read as a text: an explanation is short. */
const TEXT_BYTES = 64 * 1024
/** Milliseconds that a body may take to end by itself; then its connection is closed instead of kept. */
const DRAIN_MS = 1000

export class FetchedBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  readonly #watch: Watching

  constructor(response: Response, watch: Watching) {
    this.#reader = response.body?.getReader()
    this.#watch = watch
  }

  /** The next bytes; null at the end. @throws The reason of the run's abort. */
  async next(): Promise<Uint8Array | Broken | null> {
    try {
      const chunk = await this.#reader?.read()
      this.#watch.beat()
      return chunk?.value ?? null
    } catch (error) {
      this.#watch.throwIfAborted()
      return new Broken(error)
    }
  }

  /** As much of the text as can be had; the rest is not read. @throws The reason of the run's abort. */
  async text(): Promise<string> {
    const decoder = new TextDecoder()
    let text = ''
    for (let bytes = 0; bytes < TEXT_BYTES; ) {
      const chunk = await this.next()
      if (chunk === null || chunk instanceof Broken) break
      bytes += chunk.byteLength
      text += decoder.decode(chunk, { stream: true })
    }
    this.close()
    return text
  }

  /** Reads to the end what nobody needs, so that the connection can be used again. Nobody waits for it. */
  drain(): void {
    const timer = setTimeout(() => this.close(), DRAIN_MS)
    timer.unref()
    void this.#readToEnd()
      .catch(ignore)
      .finally(() => clearTimeout(timer))
  }

  async #readToEnd(): Promise<void> {
    let chunk = await this.#reader?.read()
    while (chunk?.done === false) chunk = await this.#reader?.read()
  }

  /** Closes the connection: nobody wants the rest. A `next` that waits has null. */
  close(): void {
    void this.#reader?.cancel().catch(ignore)
  }
}

function ignore(): void {}
