// The names that clients of other protocols have for threads and runs.
import type { Owner } from '../../base/scope.ts'

/** Length of such a name, in characters. */
export const ALIAS_TEXT_MAX = 512

export interface Alias {
  readonly user_id: Owner
  /** Whose name it is: of a thread alone, or of a run. A protocol with two kinds of names has two of these. */
  readonly protocol: string
  readonly text: string
  readonly thread_id: string
  /** null: the thread. */
  readonly run_id: string | null
}

export interface AliasReads {
  /** What this user calls so; null: nothing that is left. */
  get(protocol: string, text: string, user: Owner): Promise<Alias | null>
  /** What this user calls a thread and its runs, oldest first. */
  ofThread(threadId: string, user: Owner): Promise<Alias[]>
}
