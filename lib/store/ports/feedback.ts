// Feedback, as the service reads it.
import type { Feedback, FeedbackStats } from '../../types.ts'
import type { Owner } from '../../scope.ts'
import type { MessageOrigin } from './events.ts'

export interface FeedbackReads {
  /** The caller's own feedback on a run, oldest first. */
  list(threadId: string, runId: string, user: Owner): Promise<Feedback[]>
  /** Counts over all users of the run, in one aggregation. */
  stats(threadId: string, runId: string): Promise<FeedbackStats>
  /** The caller's own feedback by run, for the given runs of a thread, in one query. */
  byRuns(threadId: string, runIds: readonly string[], user: Owner): Promise<ReadonlyMap<string, Feedback>>
  /**
   * What `EventReads.runsOfMessages` says of these messages, and the caller's own feedback on their runs. One query where both lie
   * in one database; `besideMessages` of `colloquy` makes it of two.
   */
  besideMessages(threadId: string, messageIds: readonly string[], user: Owner): Promise<BesideMessages>
}

/** What is known beside messages. */
export interface BesideMessages {
  /** By message. */
  readonly origins: ReadonlyMap<string, MessageOrigin>
  /** By run. */
  readonly feedback: ReadonlyMap<string, Feedback>
}
