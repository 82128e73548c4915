// Appending and reading run events.
import type { RunEvent } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

export interface NewEvent extends Pick<RunEvent, 'event_type' | 'category' | 'content' | 'metadata' | 'created_at'> {
  /** Position in the run, from 0: makes repeated appends idempotent. */
  readonly k: number
}

/** Pages by seq. No cursor: the newest; before: the last ones below it; after: the first ones above it; both: the range, ascending. */
export interface SeqPage {
  readonly limit: number
  readonly before?: number
  readonly after?: number
}

export interface EventReads {
  /** Records of category `message` of all runs of the thread; always ascending. */
  listMessages(threadId: string, page: SeqPage, user: Owner): Promise<RunEvent[]>
  /** The same for one run. */
  listMessagesByRun(threadId: string, runId: string, page: SeqPage, user: Owner): Promise<RunEvent[]>
  /** All categories of one run, oldest first. */
  listEvents(
    threadId: string,
    runId: string,
    query: { types?: readonly string[]; after?: number; limit: number },
    user: Owner
  ): Promise<RunEvent[]>
  /** The thread's next seq; null: no such thread. For events stored elsewhere, see EventStore. */
  nextSeq(threadId: string): Promise<number | null>
  /** The last k of a run's events, -1 if there are none: where recovery continues. */
  lastK(threadId: string, runId: string): Promise<number>
  /** By message id: which run recorded each of these messages of a thread, for the history view. The newest record wins. */
  runsOfMessages(
    threadId: string,
    messageIds: readonly string[],
    user: Owner
  ): Promise<ReadonlyMap<string, MessageOrigin>>
}

/** Origin of a message, from its event. */
export interface MessageOrigin {
  readonly run_id: string
  readonly event_type: string
}
