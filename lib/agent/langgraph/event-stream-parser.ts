// Parses the event stream of a graph's run, synchronously.
import { createParser, type EventSourceParser } from 'eventsource-parser'
import type { PeerFailures } from '../http/failures.ts'
import { parseJson } from '../json.ts'
import type { Part } from './graph.ts'

/** Maximum characters of one event, which may hold a whole state: a stream without line ends must not fill the memory. */
const EVENT_MAX = 128 * 1024 * 1024

/** LangGraph's modes whose events have another name. */
const MODES: Readonly<Record<string, string>> = { 'messages-tuple': 'messages' }

export class EventStreamParser {
  /** Events so far. */
  count = 0
  /** Id of the last event; null: none had one. */
  #lastId: string | null = null
  readonly #hear: (part: Part) => boolean
  readonly #failures: PeerFailures
  #decoder = new TextDecoder()
  #parser: EventSourceParser
  #hasSpace = true

  /** @param hear receives every part; returns false when there is no more space for now */
  constructor(hear: (part: Part) => boolean, failures: PeerFailures) {
    this.#hear = hear
    this.#failures = failures
    this.#parser = this.#newParser()
  }

  /** Id to resume after, `-1`: from the start; null: events without ids cannot be resumed. */
  get resumeAfter(): string | null {
    return this.count === 0 ? '-1' : this.#lastId
  }

  /** Resets the parser for a resumed stream. */
  begin(): void {
    this.#decoder = new TextDecoder()
    this.#parser = this.#newParser()
  }

  /** @returns whether there is space for more. @throws what `hear` throws; AgentError for an invalid event */
  feed(bytes: Uint8Array): boolean {
    this.#hasSpace = true
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }))
    return this.#hasSpace
  }

  #newParser(): EventSourceParser {
    return createParser({
      maxBufferSize: EVENT_MAX,
      onEvent: ({ id, event = '', data }) => {
        this.#tell(event, data)
        // After passing it on: a part that failed is requested again.
        if (id) this.#lastId = id
      },
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded') throw this.#failures.garbage('an event without an end')
      }
    })
  }

  #tell(event: string, text: string): void {
    this.count++
    if (event === '' || event === 'end') return
    const data = text === '' ? null : parseJson(text)
    if (data === undefined) throw this.#failures.garbage(`a frame "${event.slice(0, 32)}" that is no JSON`)
    const [name = '', ...namespace] = event.split('|')
    if (!this.#hear({ mode: MODES[name] ?? name, namespace, data })) this.#hasSpace = false
  }
}
