// Counts the events a new subscription is sent from before it: `replayed_events` in its answer.
import { piecesOf } from '../../protocols/feed.ts'
import type { RunFeed, ThreadRuns } from '../../run/delivery/thread-reader.ts'
import { webSocketEncoding } from './encoding.ts'
import { frameAt } from './event.ts'
import { EventFeed } from './feed.ts'
import type { SubscriptionParams } from './subscription.ts'
import { BEFORE_ALL, Subscriptions } from './subscriptions.ts'

/** Frames read for a count. The answer waits for it, and they are read again to be sent: readers of long threads would starve. */
const FRAMES_MAX = 500

/** Number of events; null: more than FRAMES_MAX frames. Rejects when the store does. */
export async function replayedEvents(runs: ThreadRuns, params: SubscriptionParams): Promise<number | null> {
  const since = params.since?.seq ? params.since : null
  const alone = new Subscriptions()
  alone.add('', params, BEFORE_ALL, since)
  let ordinal = since ? frameAt(since.seq).ordinal - 1 : 0
  let [events, framesLeft] = [0, FRAMES_MAX]
  for (;;) {
    const run = await runs.after(ordinal)
    if (!run || run === 'end') return events
    ordinal = run.ordinal
    const opened = await runs.open(run)
    // Deleted in the meantime.
    if (!opened) continue
    try {
      const { log } = opened
      framesLeft -= log.head
      if (framesLeft < 0) return null
      alone.onLog(run, log)
      events += await countOf(new EventFeed(run, log, webSocketEncoding, (seq) => alone.selectionAfter(seq)))
    } finally {
      opened.left()
    }
  }
}

/** Events of a run so far. */
async function countOf(feed: RunFeed): Promise<number> {
  let events = 0
  for await (const { count } of piecesOf(feed)) events += count
  return events
}
