// One run for one reader of protocol v2.
import { type Selection as AnySelection, TranslatedFeed, type Encoding as AnyEncoding } from '../../protocols/feed.ts'
import type { RunLog } from '../../run/log/run-log.ts'
import type { Run } from '../../base/types.ts'
import { type ProtocolEvent, seqOf } from './event.ts'
import { type RunState, TRANSLATION } from './translate.ts'

export type Encoding = AnyEncoding<ProtocolEvent>
export type Selection = AnySelection<ProtocolEvent>

export class EventFeed extends TranslatedFeed<RunState, ProtocolEvent> {
  readonly #ordinal: number

  /** @param selectionAfter what its reader takes after the event with this seq */
  constructor(run: Run, log: RunLog, encoding: Encoding, selectionAfter: (seq: number) => Selection) {
    const { ordinal } = run
    super(run, log, { translation: TRANSLATION, encoding, selection: (n) => selectionAfter(seqOf(ordinal, n, 0) - 1) })
    this.#ordinal = ordinal
  }

  /** Complete up to and including this seq. */
  get seq(): number {
    return (this.hasEnded ? seqOf(this.#ordinal + 1, 0, 0) : seqOf(this.#ordinal, this.at, 0)) - 1
  }
}
