// Assistants: what a user has made of a graph, in versions.
import type { Assistant, AssistantContent, Cron } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

/** Fields of an update; omitted ones stay. Metadata keys are merged. */
export type AssistantPatch = Partial<AssistantContent>

/** An assistant as of one version. */
export interface AssistantVersion extends AssistantContent {
  readonly assistant_id: string
  readonly version: number
  readonly created_at: string
}

export type AssistantCreation =
  /** `created` false: it existed, and its user may see it. */
  | { readonly outcome: 'there'; readonly assistant: Assistant; readonly created: boolean }
  /** It belongs to somebody else. */
  | { readonly outcome: 'taken' }
  | { readonly outcome: 'too_many' }

export interface AssistantReads {
  get(assistantId: string, user: Owner): Promise<Assistant | null>
  /** All of a user's assistants, newest first. */
  list(user: Owner): Promise<Assistant[]>
  /** Newest first; none if the user cannot see the assistant. */
  versions(assistantId: string, user: Owner): Promise<AssistantVersion[]>
}

// ------------------------------------------------------------------------ Crons: runs that start again and again

/** Fields an update may change; omitted ones stay. */
export type CronPatch = Partial<
  Pick<
    Cron,
    | 'thread_id'
    | 'schedule'
    | 'timezone'
    | 'payload'
    | 'metadata'
    | 'on_run_completed'
    | 'enabled'
    | 'end_time'
    | 'next_run_date'
  >
>

export interface CronReads {
  get(cronId: string, user: Owner): Promise<Cron | null>
  /** Newest first. */
  list(user: Owner): Promise<Cron[]>
}
