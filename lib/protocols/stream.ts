// A run in the words of a protocol that is not ours: as a stream that ends with it, or whole, when it is over.
import type { StreamWriter } from '../base/stream-writer.ts'
import { Refused } from '../base/errors.ts'
import type { Run } from '../base/types.ts'
import { type Call, HANDLED } from '../http/route.ts'
import { openEvents, readerOf } from '../routes/join-request.ts'
import type { Services } from '../routes/services.ts'
import type { Place } from '../run/delivery/streams.ts'
import { HEARTBEAT } from '../run/log/frame.ts'
import type { FramePlace } from './places.ts'
import { eventsOf, TranslatedFeed, type Translation, type View } from './feed.ts'
import type { Filter } from '../run/log/filter.ts'

interface RunStream<State, Event> extends View<State, Event> {
  readonly run: Run
  /** Runs of the same thread that are sent first, in order. */
  readonly before?: readonly Run[]
  /** How those are shown. Default: as the run. */
  readonly earlier?: Translation<State, Event>
  readonly headers?: Readonly<Record<string, string>>
  /** Where it is sent. Default: the response, as server-sent events. */
  readonly writer?: StreamWriter
  /** Default: a comment between two server-sent events. */
  readonly heartbeat?: Buffer
  /** Sent behind the last event. */
  readonly last?: Buffer
  /** Its disconnect may cancel the run (on_disconnect). */
  readonly isCreator?: boolean
}

/** Streams a run until its end. `place`: the stream's reserved place (`streams.hold`). */
export function streamRun<State, Event>(
  services: Pick<Services, 'config' | 'registry' | 'isValid'>,
  call: Call,
  place: Place,
  {
    run,
    before = [],
    earlier,
    headers = {},
    writer,
    heartbeat = HEARTBEAT,
    last,
    isCreator = false,
    ...view
  }: RunStream<State, Event>
): typeof HANDLED {
  const { registry } = services
  const past = earlier ? { ...view, translation: earlier } : view
  if (isCreator) registry.ends.creatorCame(run.run_id)
  const joiner = registry.readers.joinRun(
    run,
    {
      writer: writer ?? openEvents(services, call, headers),
      reader: readerOf(services, call),
      heartbeat,
      ...(last && { last }),
      feed: (one, log) => new TranslatedFeed(one, log, one.run_id === run.run_id ? view : past)
    },
    place,
    (why) => {
      if (isCreator && why === 'left') registry.ends.creatorLeft(run.run_id)
    },
    before
  )
  joiner.pump()
  return HANDLED
}

/**
 * A place of a run that a client says it was sent, where the run has it; null: the beginning, as for one that was never sent.
 * @throws Refused 410 where the frames behind it are gone, unless its end tells the whole (`isWholeAtEnd`)
 */
export async function sentPlace<At extends FramePlace>(
  { registry, store }: Pick<Services, 'registry' | 'store'>,
  run: Run,
  at: At | null,
  isWholeAtEnd = false
): Promise<At | null> {
  if (at === null) return null
  const log = await registry.readers.logOf(run)
  if (log.isClosed && at.epoch === log.epoch && at.n === log.head) return at
  const isGone = log.isClosed && (await store.frames.bounds(run.key)) === null
  if (isGone && isWholeAtEnd) return at
  if (isGone) throw new Refused(410, 'What follows this position is no longer kept: read the run from its start')
  return log.place({ epoch: at.epoch, n: at.n }) === 0 ? null : at
}

/** All events of a run so far; of one that has ended, all. Rejects when the store does. */
export async function eventsOfRun<State, Event>(
  { registry }: Pick<Services, 'registry'>,
  run: Run,
  translation: Translation<State, Event>,
  { filter, withValues = false }: { readonly filter: Filter; readonly withValues?: boolean }
): Promise<Event[]> {
  const log = await registry.readers.logOf(run)
  const selection = { filter, withValues, takes: () => true, key: '' }
  return eventsOf(new TranslatedFeed(run, log, { translation, encoding: NONE, selection: () => selection }))
}

const NONE = { bytes: () => Buffer.alloc(0) }
