// The body of a response of `fetch`: its bytes as they come, under a watch. Those of a model, of which there are many more, are
// told by ../body.ts, without a promise a chunk.
import { Broken } from '../body.ts'

/** Is told that bytes come, and knows whether they are still wanted. */
export interface Watching {
  beat(): void
  /** @throws The reason of the run's abort. */
  throwIfAborted(): void
}

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

  /** Closes the connection: nobody wants the rest. A `next` that waits has null. */
  close(): void {
    void this.#reader?.cancel().catch(ignore)
  }
}

function ignore(): void {}
