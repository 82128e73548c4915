// Counts what a new subscription is sent of what was there before it: `replayed_events` of its answer.
import type { RunFeed, ThreadRuns } from '../../run/delivery/thread-joiner.ts'
import type { Loaded } from '../../run/log/stored-frames.ts'
import { webSocketEncoding } from './encoding.ts'
import { frameAt } from './event.ts'
import { EventFeed } from './feed.ts'
import type { SubscriptionParams } from './subscription.ts'
import { NOTHING_TOLD, Subscriptions } from './subscriptions.ts'

/** Frames that are read for a count. The answer waits for it, and they are read again to be sent: a reader of a long thread would starve. */
const FRAMES_MAX = 500

/** The number of events; null: there are too many frames to be read. Rejects when the store does. */
export async function replayedEvents(runs: ThreadRuns, params: SubscriptionParams): Promise<number | null> {
  const since = params.since?.seq ? params.since : null
  const alone = new Subscriptions()
  alone.add('', params, NOTHING_TOLD, since)
  let ordinal = since ? frameAt(since.seq).ordinal - 1 : 0
  let [events, framesLeft] = [0, FRAMES_MAX]
  for (;;) {
    const run = await runs.after(ordinal)
    if (!run) return events
    ordinal = run.ordinal
    const opened = await runs.open(run)
    // Deleted meanwhile.
    if (!opened) continue
    try {
      const { log } = opened
      framesLeft -= log.head
      if (framesLeft < 0) return null
      alone.meet(run, log)
      events += await countOf(new EventFeed(run, log, webSocketEncoding, (seq) => alone.wanted(seq)))
    } finally {
      opened.left()
    }
  }
}

/** The events that a run has so far. */
async function countOf(feed: RunFeed): Promise<number> {
  let events = 0
  for (let loaded: Loaded | null = null; ; ) {
    const fed = feed.next(loaded)
    if (fed === 'tail' || fed === 'end') return events
    if (fed === 'behind') loaded = await feed.load()
    else events += fed.count
  }
}
