// Parses the event stream of a graph's run, synchronously.
import { EventStream } from '../http/event-stream.ts'
import type { PeerFailures } from '../http/failures.ts'
import { parseJson } from '../../json.ts'
import type { Part } from './graph.ts'

/** LangGraph's modes whose events have another name. */
const MODES: Readonly<Record<string, string>> = { 'messages-tuple': 'messages' }

export class EventStreamParser {
  /** Events so far. */
  count = 0
  /** Id of the last event; null: none had one. */
  #lastId: string | null = null
  readonly #hear: (part: Part) => boolean
  readonly #failures: PeerFailures
  readonly #eventCharacters: number | undefined
  #stream: EventStream
  #hasSpace = true

  /** @param hear receives every part; returns false when there is no more space for now */
  constructor(hear: (part: Part) => boolean, failures: PeerFailures, eventCharacters?: number) {
    this.#hear = hear
    this.#failures = failures
    this.#eventCharacters = eventCharacters
    this.#stream = this.#newStream()
  }

  /** Id to resume after, `-1`: from the start; null: events without ids cannot be resumed. */
  get resumeAfter(): string | null {
    return this.count === 0 ? '-1' : this.#lastId
  }

  /** Resets the parser for a resumed stream. */
  begin(): void {
    this.#stream = this.#newStream()
  }

  /** @returns whether there is space for more. @throws what `hear` throws; AgentError for an invalid event */
  feed(bytes: Buffer): boolean {
    this.#hasSpace = true
    this.#stream.feed(bytes)
    return this.#hasSpace
  }

  #newStream(): EventStream {
    const onEvent = ({
      id,
      event = '',
      data
    }: {
      id?: string | undefined
      event?: string | undefined
      data: string
    }) => {
      this.#tell(event, data)
      // After passing it on: a part that failed is requested again.
      if (id) this.#lastId = id
    }
    return new EventStream(onEvent, this.#failures, this.#eventCharacters)
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
