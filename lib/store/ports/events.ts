// Appending and reading run events.
import type { EventCategory, RunEvent } from '../../base/types.ts'
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

// ------------------------------------------------------------------------------- Run events outside the database

/** An event as stored: with its place in the thread (seq) and in the run (k). */
export interface EventRecord extends RunEvent {
  readonly k: number
}

/** Selects records of one thread. All conditions hold together. */
export interface EventQuery {
  readonly threadId: string
  /** Both bounds exclusive. */
  readonly after: number
  readonly before: number
  /** null: no filter. A user: its own records, and those whose user_id is null [Auth 7]. */
  readonly owner: string | null
  readonly runId?: string
  readonly category?: EventCategory
  readonly types?: readonly string[]
  /** Only records whose content is an object with one of these ids. */
  readonly messageIds?: readonly string[]
}

/**
 * Stores run events outside the database (`run_events.backend`): in files, in memory, or in a module of yours.
 * lib/store/split/open.ts makes a Store of a database and one of these, and keeps [Store 1 to 9] for both together. For that it
 * relies on:
 *
 *  a. The database decides: a record counts when its seq is below the thread's counter in the database, and every query has that
 *     bound. `append` comes before the commit, so a record at or above the counter was not committed, or was committed by a
 *     database that was replaced.
 *  b. `append` gets records of any threads; those of one thread have ascending seqs, and a seq only comes twice with a `truncate`
 *     in between. When it rejects, no query sees what it left behind, and `truncate` removes it.
 *  c. `truncate` is called after every append that was not committed, and before a process's first append to a thread with
 *     records at or above the counter.
 *  d. What `append` and `remove` have done survives the process, if the store is meant to.
 *  e. Writing calls come one at a time; queries at any time, any number at once.
 *  f. Records come back as equal JSON, whatever the characters. Neither side changes objects it has passed or received.
 *
 * Every method may reject with StoreUnavailable for a temporary failure, and is then called again. Any other error concerns the
 * records: their run fails, other runs continue.
 */
export interface EventStore {
  /** The first `limit` matching records, or the last ones; ascending by seq either way. */
  select(query: EventQuery, limit: number, which: 'first' | 'last'): Promise<EventRecord[]>
  append(records: readonly EventRecord[]): Promise<void>
  /**
   * Removes the thread's records with `seq >= nextSeq` from every query, wherever they came from. `isDisputed`: another
   * process wrote them and somebody may have seen them; a store should keep them somewhere people can find them.
   */
  truncate(threadId: string, nextSeq: number, isDisputed: boolean): Promise<void>
  /** Removes all records of the thread. */
  remove(threadId: string): Promise<void>
  /**
   * Optional, like `tombstones`: durably remembers which threads are about to be removed, replacing the previous list.
   * Without it, records of a thread whose removal a crash interrupted stay, unseen, until its id is used again.
   */
  setTombstones?(threadIds: readonly string[]): Promise<void>
  /** The list set last. */
  tombstones?(): Promise<readonly string[]>
  close(): Promise<void>
}
