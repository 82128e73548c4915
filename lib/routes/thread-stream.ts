// The stream of a thread: all its runs, one after the other (LangGraph's `threads.joinStream`).
import { type Call, HANDLED, type Route, route } from '../http/route.ts'
import { FrameFeed, readThreadPosition, type ThreadPosition } from '../run/delivery/frame-feed.ts'
import { HEARTBEAT } from '../run/log/frame.ts'
import { newestRuns } from '../thread/newest-runs.ts'
import { isDelayed } from '../base/types.ts'
import { position, stream } from './answers.ts'
import { modesIn, openEvents, positionText, readerOf } from './join-request.ts'
import type { ScopedStore } from '../store/scoped.ts'
import type { Services } from './services.ts'

export function threadStreamRoutes(services: Services): Route[] {
  const { store, registry } = services

  /** Without a position: the runs in flight and later ones. */
  const startOf = async (call: Call): Promise<ThreadPosition> => {
    const threadId = call.params.thread_id!
    const text = positionText(call)
    if (text !== undefined) return readThreadPosition(text) ?? { ordinal: 1, position: null }
    return { ordinal: await firstUnfinished(store, threadId), position: null }
  }

  const join = (call: Call): Promise<typeof HANDLED> =>
    registry.streams.hold(call.payer, async (place) => {
      const start = await startOf(call)
      const modes = modesIn(call)
      const isLifecycle = modes?.includes('lifecycle') === true && !modes.includes('run_modes')
      const writer = openEvents(services, call)
      const joiner = registry.readers.joinThread(
        call.params.thread_id!,
        {
          writer,
          reader: readerOf(services, call),
          heartbeat: HEARTBEAT,
          after: start.ordinal - 1,
          feed: (run, log) =>
            new FrameFeed(run, log, run.ordinal === start.ordinal ? start.position : null, {
              modes: isLifecycle ? 'lifecycle' : call.grant?.link ? modes : null,
              prefix: `${run.ordinal}:`
            })
        },
        place
      )
      joiner.pump()
      return HANDLED
    })

  return [
    route({
      method: 'GET',
      path: '/api/threads/{thread_id}/stream',
      permission: 'runs:read',
      thread: 'read',
      link: 'thread',
      rule: 'threads:read',
      isStream: true,
      summary: 'All runs of a thread as one stream: those in flight and later ones, or from a position',
      answers: stream,
      refusals: [429],
      reads: {
        query: {
          last_event_id: position.query.last_event_id,
          stream_mode: '`run_modes` (default) or `lifecycle`'
        },
        headers: { 'Last-Event-ID': 'Resume after this position; `-1`: from the first run' }
      },
      handler: join
    })
  ]
}

/** Ordinal of the oldest run in flight; none: of the next run. */
export async function firstUnfinished(store: Pick<ScopedStore, 'runs'>, threadId: string): Promise<number> {
  const oldest = (await store.runs.inFlight(threadId)).find((run) => !isDelayed(run))
  if (oldest) return oldest.ordinal
  const [newest] = await newestRuns(1, (page) => store.runs.list(threadId, page))
  return (newest?.ordinal ?? 0) + 1
}
