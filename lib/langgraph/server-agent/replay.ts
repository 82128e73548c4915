// The sink of a run whose stream is read again from its start: what an earlier attempt has recorded is dropped, the rest goes on.
import type { AgentRecord, Sink, StreamPart } from '../../agent/runtime.ts'
import type { Part } from './graph.ts'
import { FROM_START } from './offset.ts'

export class Replay implements Pick<Sink, 'emit' | 'record'> {
  readonly #sink: Sink
  readonly #last: string
  /** The last recorded event has not come yet. */
  isMuted: boolean

  /** @param last id of the last event that is recorded */
  constructor(sink: Sink, last: string) {
    this.#sink = sink
    this.#last = last
    this.isMuted = last !== FROM_START
  }

  /** Takes note of an event that was read. @returns whether it is the last recorded one */
  isAt({ id }: Part): boolean {
    if (id !== this.#last) return false
    this.isMuted = false
    return true
  }

  emit(part: StreamPart): boolean {
    return this.isMuted || this.#sink.emit(part)
  }

  record(record: AgentRecord): boolean {
    return this.isMuted || this.#sink.record(record)
  }
}
