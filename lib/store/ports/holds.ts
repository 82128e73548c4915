// Legal holds: what of threads and users is not to be deleted.
import type { Hold, HoldKind } from '../../base/accounts.ts'

export interface HoldSearch {
  /** Id of a thread or user. */
  readonly target?: string
  readonly limit: number
  readonly offset: number
}

/**
 * `thread`: it is held, or its user, or one whose runs are in it. `user`: what is the user's beside threads. `account`: the user, or one of
 * the threads that would go with the account.
 */
export type HeldScope = HoldKind | 'account'

export interface HoldReads {
  /** Newest first. */
  list(search: HoldSearch): Promise<Hold[]>
  isHeld(of: HeldScope, id: string): Promise<boolean>
}
