// The channel's messages over a pipe: JSON, each behind its length, as pipe.py reads and writes them.
import type { Duplex } from 'node:stream'
import type { ThreadPort } from '../../base/thread-channel.ts'

/** Whatever the channel sends. */
type ThreadMessage = Parameters<Parameters<ThreadPort['on']>[1]>[0]

const HEAD = 4
/** Larger than any state can be: what claims more is no message. */
const LENGTH_MAX = 1 << 30

export class PipePort implements ThreadPort {
  readonly #pipe: Duplex
  #parts: Buffer[] = []
  #size = 0
  /** Bytes of the next message with its head; `HEAD`: not known yet. */
  #wanted = HEAD

  constructor(pipe: Duplex) {
    this.#pipe = pipe
  }

  postMessage(message: unknown): void {
    const body = Buffer.from(JSON.stringify(message))
    const head = Buffer.alloc(HEAD)
    head.writeUInt32BE(body.length)
    this.#pipe.cork()
    this.#pipe.write(head)
    this.#pipe.write(body)
    this.#pipe.uncork()
  }

  on(_event: 'message', listener: (message: ThreadMessage) => void): this {
    this.#pipe.on('data', (bytes: Buffer) => {
      this.#parts.push(bytes)
      this.#size += bytes.length
      if (this.#size >= this.#wanted) this.#read(listener)
    })
    return this
  }

  #read(listener: (message: ThreadMessage) => void): void {
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    let at = 0
    this.#wanted = HEAD
    while (bytes.length - at >= HEAD) {
      const length = bytes.readUInt32BE(at)
      if (length > LENGTH_MAX) return void this.#pipe.destroy(new Error('it sends what is no message'))
      this.#wanted = HEAD + length
      if (bytes.length - at < this.#wanted) break
      // Both sides are of the same build.
      listener(JSON.parse(bytes.toString('utf8', at + HEAD, at + this.#wanted)) as ThreadMessage)
      at += this.#wanted
      this.#wanted = HEAD
    }
    this.#parts = at < bytes.length ? [bytes.subarray(at)] : []
    this.#size = bytes.length - at
  }
}
