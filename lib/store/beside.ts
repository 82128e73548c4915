// What stands beside messages, for stores whose events and feedback do not lie in one database: asked for one after the other.
import type { EventReads, FeedbackReads } from './store.ts'

export function besideMessages(
  events: Pick<EventReads, 'runsOfMessages'>,
  feedback: Pick<FeedbackReads, 'byRuns'>
): FeedbackReads['besideMessages'] {
  return async (threadId, messageIds, owner) => {
    const origins = await events.runsOfMessages(threadId, messageIds, owner)
    const runs = new Set([...origins.values()].map(({ run_id }) => run_id))
    return { origins, feedback: runs.size > 0 ? await feedback.byRuns(threadId, [...runs], owner) : new Map() }
  }
}
