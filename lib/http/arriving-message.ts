// A message of a WebSocket client as it arrives: its frames are followed [RFC 6455 5.2], only to know where it ends.

const FIN = 0x80
const CONTROL = 0x08
const LENGTH = 0x7f
const MASK_BYTES = 4

export class ArrivingMessage {
  /** A message has ended in the bytes taken last. */
  hasEnded = false
  readonly #head = Buffer.alloc(14)
  #headBytes = 0
  /** Bytes of the frame that are still to come. */
  #left = 0
  #isUnfinished = false

  /** @returns how many of these bytes belong to a message that is not whole */
  take(bytes: Buffer): number {
    this.hasEnded = false
    let from = 0
    for (let at = 0; at < bytes.length; ) {
      at = this.#left > 0 ? this.#skip(bytes, at) : this.#readHead(bytes, at)
      if (this.#left > 0 || this.#headBytes > 0 || !this.#endsMessage()) continue
      this.hasEnded = true
      from = at
    }
    return this.#isUnfinished || this.#headBytes > 0 || this.#left > 0 ? bytes.length - from : 0
  }

  #skip(bytes: Buffer, at: number): number {
    const length = Math.min(this.#left, bytes.length - at)
    this.#left -= length
    return at + length
  }

  #readHead(bytes: Buffer, at: number): number {
    this.#head[this.#headBytes++] = bytes[at]!
    const short = this.#headBytes < 2 ? 0 : this.#head[1]! & LENGTH
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0
    if (this.#headBytes < 2 + lengthBytes + MASK_BYTES) return at + 1
    this.#left = lengthBytes === 0 ? short : Number(`0x${this.#head.toString('hex', 2, 2 + lengthBytes)}`)
    this.#headBytes = 0
    return at + 1
  }

  /** A frame has ended. Control frames may come between those of a message. */
  #endsMessage(): boolean {
    const first = this.#head[0]!
    if ((first & CONTROL) !== 0) return false
    this.#isUnfinished = (first & FIN) === 0
    return !this.#isUnfinished
  }
}
