// Assistants: what a user has made of a graph, in versions.
import type { Assistant, AssistantContent } from '../../types.ts'
import type { Owner } from '../../scope.ts'

/** What an update sets: what is left out stays. Keys of metadata are added to those that are there. */
export type AssistantPatch = Partial<AssistantContent>

/** How an assistant stood at a version. */
export interface AssistantVersion extends AssistantContent {
  readonly assistant_id: string
  readonly version: number
  readonly created_at: string
}

export type AssistantCreation =
  /** `created` false: it was there, and its user may see it. */
  | { readonly outcome: 'there'; readonly assistant: Assistant; readonly created: boolean }
  /** Somebody else's. */
  | { readonly outcome: 'taken' }
  | { readonly outcome: 'too_many' }

export interface AssistantReads {
  get(assistantId: string, user: Owner): Promise<Assistant | null>
  /** All of a user's, newest first: he has few. */
  list(user: Owner): Promise<Assistant[]>
  /** Newest first; none of an assistant that the user does not see. */
  versions(assistantId: string, user: Owner): Promise<AssistantVersion[]>
}
