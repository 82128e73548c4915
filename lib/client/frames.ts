// Frames of a run's stream, parsed as they arrive.

/** One event of a stream. `data` is parsed; `id` is its cursor, null for events outside of the log (`end`, `gap`). */
export interface Frame {
  readonly event: string
  // Any JSON, depending on the event.
  // biome-ignore lint/suspicious/noExplicitAny: a union over events would have to be narrowed by every reader
  readonly data: any
  readonly id: string | null
}

/** Parses an event stream. */
export class FrameParser {
  hasEnded = false
  readonly #decoder = new TextDecoder()
  #rest = ''
  #event = ''
  #id: string | null = null
  #data: string[] = []

  feed(bytes: Uint8Array): Frame[] {
    const text = this.#decoder.decode(bytes, { stream: true })
    this.#rest += text
    // A long line is only scanned when it is complete.
    if (!text.includes('\n')) return []
    const lines = this.#rest.split(/\r?\n/)
    this.#rest = lines.pop() ?? ''
    return lines.map((line) => this.#line(line)).filter((frame) => frame !== null)
  }

  #line(line: string): Frame | null {
    if (line === '') return this.#finish()
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'event') this.#event = value
    else if (name === 'data') this.#data.push(value)
    else if (name === 'id') this.#id = value
    return null
  }

  #finish(): Frame | null {
    const [event, data, id] = [this.#event || 'message', this.#data.join('\n'), this.#id]
    this.#event = ''
    this.#data = []
    this.#id = null
    if (data === '') return null
    this.hasEnded ||= event === 'end'
    return { event, data: JSON.parse(data), id }
  }
}

/** A cursor's parts; null: it is none. */
export function positionOf(cursor: string | null): { epoch: number; n: number } | null {
  const [, epoch, n] = /^(\d+)-(\d+)$/.exec(cursor ?? '') ?? []
  return n === undefined ? null : { epoch: Number(epoch), n: Number(n) }
}
