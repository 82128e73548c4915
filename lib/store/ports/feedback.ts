// Reading feedback.
import type { Feedback, FeedbackStats } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

export interface FeedbackReads {
  /** The caller's own feedback on a run, oldest first. */
  list(threadId: string, runId: string, user: Owner): Promise<Feedback[]>
  /** Counts over all users of the run, in one aggregation. */
  stats(threadId: string, runId: string): Promise<FeedbackStats>
  /** The caller's own feedback by run, for the given runs of a thread, in one query. */
  byRuns(threadId: string, runIds: readonly string[], user: Owner): Promise<ReadonlyMap<string, Feedback>>
}
