// Parses the event stream of a model or graph server, synchronously, and counts what one event takes while it arrives.
import { StringDecoder } from 'node:string_decoder'
import { createParser, type EventSourceMessage, type EventSourceParser } from 'eventsource-parser'
import type { PeerFailures } from './failures.ts'

/** Characters of one event, which may hold a whole state. */
export const EVENT_CHARACTERS = 32 * 1024 * 1024
/** What a line of an unfinished event takes besides its characters. */
const LINE_CHARACTERS = 64

export class EventStream {
  /** Three times as fast as a streaming TextDecoder. */
  readonly #decoder = new StringDecoder('utf8')
  readonly #parser: EventSourceParser
  readonly #failures: PeerFailures
  readonly #max: number
  #hasText = false
  #events = 0
  /** Characters of the event in progress, at most. */
  #held = 0

  /**
   * @param onEvent called for every event, in the tick its last byte arrives
   * @param onComment called for every comment: servers send them as heartbeats
   */
  constructor(
    onEvent: (event: EventSourceMessage) => void,
    failures: PeerFailures,
    max = EVENT_CHARACTERS,
    onComment?: () => void
  ) {
    this.#failures = failures
    this.#max = max
    this.#parser = createParser({
      onEvent: (event) => {
        this.#events++
        onEvent(event)
      },
      ...(onComment && { onComment })
    })
  }

  /**
   * Incomplete characters, lines and events wait for the next bytes.
   * @throws what `onEvent` throws; AgentError for an event that is too large
   */
  feed(bytes: Buffer): void {
    const text = this.#textOf(bytes)
    const before = this.#events
    this.#parser.feed(text)
    if (this.#events !== before) this.#held = text.length
    else this.#hold(text)
  }

  /** Many short lines take more than their characters until their event is complete. */
  #hold(text: string): void {
    const border = text.lastIndexOf('\n\n')
    if (border >= 0) this.#held = 0
    for (let at = text.indexOf('\n', border + 2); at >= 0; at = text.indexOf('\n', at + 1))
      this.#held += LINE_CHARACTERS
    this.#held += text.length
    if (this.#held > this.#max) throw this.#failures.garbage('an event without an end')
  }

  #textOf(bytes: Buffer): string {
    const text = this.#decoder.write(bytes)
    if (this.#hasText || text === '') return text
    this.#hasText = true
    // Skips a byte order mark.
    return text.startsWith('\ufeff') ? text.slice(1) : text
  }
}
