// A task for one reader: the pieces of its runs, one after the other, in the reader's encoding. It ends behind the run that is the last
// one for the reader; behind a question it may wait for the run that answers it.
import type { StreamWriter } from '../base/stream-writer.ts'
import { type Call, HANDLED } from '../http/route.ts'
import { openEvents, readerOf } from '../routes/join-request.ts'
import type { Services } from '../routes/services.ts'
import type { Place } from '../run/delivery/streams.ts'
import type { Fed, RunFeed } from '../run/delivery/thread-reader.ts'
import type { Filter } from '../run/log/filter.ts'
import { HEARTBEAT } from '../run/log/frame.ts'
import type { Loaded } from '../run/log/stored-frames.ts'
import type { Run } from '../base/types.ts'
import { type Selection, TranslatedFeed } from './feed.ts'
import { PART_FILTER } from './parts.ts'
import { type Ended, type Piece, type PieceState, pieces } from './pieces.ts'
import { type FramePlace, isBehind, isPast } from './places.ts'
import { eventsOfRun } from './stream.ts'

/** How one reader is shown a task. */
export interface TaskView {
  /** Where it begins: the run, and behind which place of it; null: from its beginning. */
  readonly run: Run
  readonly after: FramePlace | null
  /** Sent at once. */
  readonly first?: Buffer
  readonly headers?: Readonly<Record<string, string>>
  /** Empty where the reader is told nothing of a piece. */
  encode(run: Run, piece: Piece): string
  /** Whether nothing follows the end of this run. */
  isLast(run: Run): boolean
  /** Its leaving counts as its creator's: see `graceMs` of a task. */
  readonly isCreator?: boolean
}

/** Opens the stream in a reserved place. */
export function openTask(services: Services, call: Call, view: TaskView, place: Place): typeof HANDLED {
  const { registry } = services
  const { run, headers = {} } = view
  const wire = new Watched(openEvents(services, call, headers))
  if (view.isCreator) {
    registry.ends.creatorCame(run.run_id)
    // One that was reset by us comes back, or not: it counts from then on.
    wire.onClose(() => {
      if (!wire.isEnded) registry.ends.creatorLeft(run.run_id)
    })
  }
  const joiner = registry.readers.joinThread(
    run.thread_id,
    {
      writer: wire,
      reader: readerOf(services, call),
      heartbeat: HEARTBEAT,
      after: run.ordinal - 1,
      feed: (shown, log) => {
        const after = shown.run_id === run.run_id ? view.after : null
        const selection = selectionAfter(after)
        const encoding = {
          bytes: (told: readonly Piece[]) => Buffer.from(told.map((one) => view.encode(shown, one)).join(''))
        }
        const feed = new TranslatedFeed(shown, log, {
          translation: pieces,
          encoding,
          selection: () => selection,
          isPast: (_, place) => isPast(place, after),
          isResumed: after !== null
        })
        return new TaskFeed(feed, () => {
          const isLast = view.isLast(log.run)
          if (isLast) wire.end(NOTHING)
          return isLast
        })
      }
    },
    place
  )
  if (view.first) joiner.send(view.first)
  joiner.pump()
  return HANDLED
}

/** How a run has ended, or how far it has come. Rejects when the store does. */
export async function endedOf(services: Services, run: Run): Promise<Ended> {
  const all = await eventsOfRun(services, run, pieces, { filter: PART_FILTER })
  const last = all.at(-1)
  if (last?.type === 'end') return last.ended
  const texts = all.flatMap((one) => (one.type === 'text' ? [one] : []))
  const message = texts.at(-1)?.message
  const answer =
    message === undefined ? null : texts.flatMap((one) => (one.message === message ? [one.text] : [])).join('')
  return { run, answer, questions: [], calls: [], failure: null, reason: null, usage: null }
}

/** A run of a task. Behind the one that is its last nothing follows. */
class TaskFeed implements RunFeed {
  readonly #feed: TranslatedFeed<PieceState, Piece>
  readonly #onEnd: () => boolean
  #isOver = false

  /** `onEnd`: everything was sent; true: nothing follows. */
  constructor(feed: TranslatedFeed<PieceState, Piece>, onEnd: () => boolean) {
    this.#feed = feed
    this.#onEnd = onEnd
  }

  get filter(): Filter {
    return this.#feed.filter
  }

  get at(): number {
    return this.#feed.at
  }

  next(loaded: Loaded | null): Fed {
    if (this.#isOver) return 'tail'
    const fed = this.#feed.next(loaded)
    if (fed === 'end') this.#isOver = this.#onEnd()
    return this.#isOver ? 'tail' : fed
  }

  load(): Promise<Loaded> {
    return this.#feed.load()
  }
}

/** What a reader takes of a run: what is behind a place of it. */
function selectionAfter(after: FramePlace | null): Selection<Piece> {
  const key = after ? `${after.epoch}-${after.n}.${after.part}` : ''
  return { filter: PART_FILTER, withValues: false, takes: ({ at }) => after === null || isBehind(at, after), key }
}

const NOTHING = Buffer.alloc(0)

/** A writer of which it is known whether everything was sent. */
class Watched implements StreamWriter {
  readonly #writer: StreamWriter
  isEnded = false

  constructor(writer: StreamWriter) {
    this.#writer = writer
  }

  write(bytes: Uint8Array): boolean {
    return this.#writer.write(bytes)
  }

  end(last: Uint8Array): void {
    this.isEnded = true
    this.#writer.end(last)
  }

  reset(...why: Parameters<StreamWriter['reset']>): void {
    this.#writer.reset(...why)
  }

  onDrain(listener: () => void): void {
    this.#writer.onDrain(listener)
  }

  onClose(listener: () => void): void {
    this.#writer.onClose(listener)
  }
}
