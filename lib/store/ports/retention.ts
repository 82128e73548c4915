// Retention: counts what is older than it is to be kept.
import type { Timestamp } from '../../base/types.ts'

/** `events`: traces, never messages. `runs`: ended ones, with what is theirs alone. `threads`: unused ones, whole. */
export const RETAINED = ['events', 'runs', 'threads', 'audit'] as const
export type Retained = (typeof RETAINED)[number]

export interface RetentionReads {
  /** How many are older; of threads, how many have not changed since. */
  count(of: Retained, before: Timestamp): Promise<number>
}
