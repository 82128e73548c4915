// Writes to one reader's socket in parts: every drain counts as progress, which tells a slow reader of a large frame from a dead one.
import type { StreamWriter } from '../../base/stream-writer.ts'
import { counters } from '../log/counters.ts'

const PART_BYTES = 64 * 1024

export class PacedWriter {
  /** The socket takes no more for now. */
  isFull = false
  /** Since when nothing has moved, by `performance.now()`. */
  waitsSince = 0
  readonly #writer: StreamWriter
  /** What the full socket has not been given yet. */
  #rest: Buffer | null = null

  constructor(writer: StreamWriter) {
    this.#writer = writer
  }

  /** Everything that was sent is written: something else may be written to the same socket. */
  get isAtBorder(): boolean {
    return this.#rest === null
  }

  /** Must not be called while the socket is full. */
  send(bytes: Buffer): void {
    counters.bytes += bytes.length
    if (bytes.length > PART_BYTES) this.#writeParts(bytes)
    else if (bytes.length > 0 && !this.#writer.write(bytes)) this.#fill(null)
  }

  /** The socket has space again; afterwards it may be full again. */
  drained(): void {
    const rest = this.#rest
    this.isFull = false
    this.#rest = null
    if (rest) this.#writeParts(rest)
  }

  /** The reader has left: nothing more is written. */
  drop(): void {
    this.#rest = null
  }

  #writeParts(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += PART_BYTES) {
      const end = at + PART_BYTES
      if (!this.#writer.write(bytes.subarray(at, end)))
        return this.#fill(end < bytes.length ? bytes.subarray(end) : null)
    }
  }

  #fill(rest: Buffer | null): void {
    this.isFull = true
    this.#rest = rest
    this.waitsSince = performance.now()
  }
}
