// Runs: what admits one, how one ends, and how they are read.
import type { Run, RunStatus, RunTotals, ThreadStatus, Timestamp } from '../../types.ts'
import type { Owner } from '../../scope.ts'

/** A run as it is asked for: the store gives `key` and `ordinal`, and the follow-up when it is left to it. */
export type NewRun = Omit<Run, 'key' | 'ordinal'>

export type Admission =
  /** `owner`: the process that it belongs to, which may be another one [Store 10]. */
  | { readonly outcome: 'created'; readonly run: Run; readonly inFlight: readonly string[]; readonly owner?: string }
  /** The same key and body came before: this is the run it made. */
  | { readonly outcome: 'repeated'; readonly run: Run }
  /** The same key came with another body. */
  | { readonly outcome: 'key_reused' }
  | { readonly outcome: 'busy' }
  | { readonly outcome: 'thread_missing' }

/** How a run ended. */
export interface Settlement extends RunTotals {
  readonly run_id: string
  readonly thread_id: string
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  /** null leaves the thread's status as it is: the run never started, another one may be running. */
  readonly thread_status: ThreadStatus | null
  /** Non-empty: becomes the thread's display_name. */
  readonly title: string | null
  readonly error: string | null
  readonly stop_reason: string | null
  readonly model_name: string | null
  readonly last_cursor: string | null
  readonly final_checkpoint_id: string | null
  /** null does not overwrite. */
  readonly first_human_message: string | null
  readonly last_ai_message: string | null
  readonly now: Timestamp
}

export interface TokenUsage {
  readonly total_tokens: number
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly total_runs: number
  readonly by_model: Record<string, { readonly tokens: number; readonly runs: number }>
  readonly by_caller: { readonly lead_agent: number; readonly subagent: number; readonly middleware: number }
}

export interface RunReads {
  get(runId: string, user: Owner): Promise<Run | null>
  /** The run that an idempotency key has made. Each user has a namespace of keys, and so has nobody (null) [design 5]. */
  byKey(key: string, user: Owner): Promise<Run | null>
  /** Newest first. */
  list(threadId: string, page: { limit: number; offset: number; status?: RunStatus }, user: Owner): Promise<Run[]>
  /** The run that came next in a thread after the one with this ordinal; null: none has. */
  after(threadId: string, ordinal: number, user: Owner): Promise<Run | null>
  /** Pending and running runs of a thread, oldest first. */
  inFlight(threadId: string): Promise<Run[]>
  /** Every run that is not terminal, oldest first: what a start finds after a crash. */
  unfinished(): Promise<Run[]>
  /** Sums over the thread's finished runs, however they ended, in one aggregation. */
  tokens(threadId: string, user: Owner): Promise<TokenUsage>
}
