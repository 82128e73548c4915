// Events of runs, as they are appended and read.
import type { EventCategory, Json, JsonObject, RunEvent, Timestamp } from '../../types.ts'
import type { Owner } from '../../scope.ts'

export interface NewEvent {
  readonly event_type: string
  readonly category: EventCategory
  readonly content: Json
  readonly metadata: JsonObject
  readonly created_at: Timestamp
  /** Position within the run, from 0: makes a repeated append of the same records harmless. */
  readonly k: number
}

/** Pages by seq. No cursor: the newest; before: the last ones below it; after: the first ones above it; both: the range, forward. */
export interface SeqPage {
  readonly limit: number
  readonly before?: number
  readonly after?: number
}

export interface EventReads {
  /** Records of category `message` of all runs of the thread; ascending, whatever the cursor. */
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
  /** The seq that the thread's next event gets; null: there is no such thread. For events that lie elsewhere, see EventStore. */
  nextSeq(threadId: string): Promise<number | null>
  /** The last k of a run's events, -1 when there are none: where a start goes on after a crash. */
  lastK(threadId: string, runId: string): Promise<number>
  /** By message id, for the given messages of a thread: who said what, for the history view. The newest record counts. */
  runsOfMessages(
    threadId: string,
    messageIds: readonly string[],
    user: Owner
  ): Promise<ReadonlyMap<string, MessageOrigin>>
}

/** Where a message comes from, as its event says. */
export interface MessageOrigin {
  readonly run_id: string
  readonly event_type: string
}
