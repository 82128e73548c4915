// Run events outside the database.
import type { EventCategory, RunEvent } from '../../types.ts'

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
 * Where run events lie when they do not lie in the database (`run_events.backend`): files, memory, or a module of yours.
 * lib/store/split/open.ts makes a Store of a database and one of these, and keeps [Store 1 to 9] for both together. For that it
 * needs of an event store:
 *
 *  a. The database has the last word: a record is there when its seq is below the thread's counter in the database, and every
 *     query is bounded by it. `append` comes before the commit, so a record at or above the counter was not committed, or by a
 *     database that is gone.
 *  b. `append` takes records of any threads; those of one thread come with ascending seq, and never two with the same unless
 *     `truncate` was between. When it rejects, what it left behind is below no query's bound, and `truncate` removes it.
 *  c. `truncate` is called after every append that was not committed, and before the first append of a thread in a process when
 *     records lie at or above the counter.
 *  d. What `append` and `remove` have answered survives the process, if the store is to outlive it at all.
 *  e. Writing calls come one at a time. Queries come at any time and in any number.
 *  f. Records come back as they were given: equal JSON, whatever the characters. Nobody changes what it gave or got.
 *
 * Every method may reject with StoreUnavailable for what passes: then it is called again. Any other error is about the
 * records: their run fails, the others go on.
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
