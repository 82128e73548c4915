// Admitting, ending and reading runs.
import type { Feedback, FeedbackStats, Run, RunStatus, RunTotals, ThreadStatus, Timestamp } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'
import type { NewJob } from './jobs.ts'
import type { RunUsage } from './usage.ts'

/** A run to create: the store assigns `key`, `ordinal` and `attempts`, and the follow-up if asked to. */
export type NewRun = Omit<Run, 'key' | 'ordinal' | 'attempts'>

export type Admission =
  /** `owner`: the process that owns it, maybe another one [Store 10]. */
  | { readonly outcome: 'created'; readonly run: Run; readonly inFlight: readonly string[]; readonly owner?: string }
  /** A repeated idempotency key with the same body: the run it made. */
  | { readonly outcome: 'repeated'; readonly run: Run }
  /** A repeated idempotency key with another body. */
  | { readonly outcome: 'key_reused' }
  | { readonly outcome: 'busy' }
  /** Its user has as many in flight as may be. */
  | { readonly outcome: 'too_many' }
  | { readonly outcome: 'thread_missing' }

export interface Settlement
  extends RunTotals,
    Pick<Run, 'run_id' | 'thread_id' | 'error' | 'stop_reason' | 'last_cursor' | 'final_checkpoint_id'> {
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  /** null leaves the thread's status: the run never started, another one may be running. */
  readonly thread_status: ThreadStatus | null
  /** Non-empty: becomes the thread's display_name. */
  readonly title: string | null
  /** null does not overwrite these three. */
  readonly model_name: string | null
  readonly first_human_message: string | null
  readonly last_ai_message: string | null
  readonly now: Timestamp
  /** What it has stored, about, but its frames: added to what its thread has stored. */
  readonly stored_bytes?: number
  /** Added to the sums of the day of `now`, in UTC, once: when the end is written. */
  readonly usage?: RunUsage
  /** What its end causes. */
  readonly jobs?: readonly NewJob[]
}

export interface TokenUsage {
  readonly total_tokens: number
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly total_runs: number
  readonly by_model: Record<string, { readonly tokens: number; readonly runs: number }>
  readonly by_caller: { readonly lead_agent: number; readonly subagent: number; readonly middleware: number }
}

export interface RunListPage {
  readonly limit: number
  readonly offset: number
  readonly status?: RunStatus
  /** Those whose metadata has this key; others may be among them. */
  readonly metadataKey?: string
  /** About how long the kwargs of the page may be together: those of the runs behind may be left empty. */
  readonly kwargsBytes?: number
}

export interface RunReads {
  get(runId: string, user: Owner): Promise<Run | null>
  /** The run an idempotency key has made. Keys are per user; null is a namespace of its own [design 5]. */
  byKey(key: string, user: Owner): Promise<Run | null>
  /** Newest first. */
  list(threadId: string, page: RunListPage, user: Owner): Promise<Run[]>
  /** The run with the next higher ordinal in the thread, of those that have a place there; null: none yet. */
  after(threadId: string, ordinal: number, user: Owner): Promise<Run | null>
  /** Pending and running runs of a thread, oldest first. */
  inFlight(threadId: string): Promise<Run[]>
  /** The user's runs that are not terminal, oldest first; null: everybody's, which recovery finds after a crash. */
  unfinished(user: Owner): Promise<Run[]>
  /** The user's newest runs with a key above `after`, oldest first, `limit` at most; `newest`: the greatest key of all runs. */
  begun(after: number, limit: number, user: Owner): Promise<{ readonly newest: number; readonly runs: readonly Run[] }>
  /** Token sums over the thread's finished runs, however they ended, in one aggregation. */
  tokens(threadId: string, user: Owner): Promise<TokenUsage>
}

// ------------------------------------------------------------------------------ Stored frames: segments of a run

/**
 * Frames of one run that were written together. `data` holds their encoded bytes back to back, `index` five bytes per frame: its kind, then
 * its length as a little-endian u32, so that filtering or starting in the middle needs no parsing. An entry of kind 255 is no frame: its u32
 * is the time of those that follow, in ms after the epoch. Both may be views of larger memory that others read: a store must not change
 * them, and copies them to hand them to another thread.
 */
export interface Segment {
  readonly epoch: number
  readonly first: number
  readonly last: number
  readonly index: Uint8Array
  readonly data: Uint8Array
}

export interface FrameReads {
  /** Segments with frames n >= from, in order, up to about `maxBytes` of data (always at least one). Empty: none. */
  read(runKey: number, from: number, maxBytes: number): Promise<Segment[]>
  /** What is stored of a run: the first n of each epoch, in order, and the last n. Null: no frames (none written, or deleted). */
  bounds(runKey: number): Promise<{
    readonly first: number
    readonly last: number
    readonly epochs: readonly { readonly epoch: number; readonly first: number }[]
  } | null>
}

// ---------------------------------------------------------------------------------------------- Reading feedback

export interface FeedbackReads {
  /** The caller's own feedback on a run, oldest first. */
  list(threadId: string, runId: string, user: Owner): Promise<Feedback[]>
  /** Counts over all users of the run, in one aggregation. */
  stats(threadId: string, runId: string): Promise<FeedbackStats>
  /** The caller's own feedback by run, for the given runs of a thread, in one query. */
  byRuns(threadId: string, runIds: readonly string[], user: Owner): Promise<ReadonlyMap<string, Feedback>>
  /** Everybody's, newest first: for administrators. */
  newest(limit: number): Promise<Feedback[]>
}
