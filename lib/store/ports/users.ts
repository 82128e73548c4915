// Reading users.
import type { ApiToken, User } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

export type UserPatch = Partial<Pick<User, 'email' | 'password_hash' | 'needs_setup' | 'token_version' | 'system_role'>>

export interface UserReads {
  byId(id: string): Promise<User | null>
  /** `email` in lower case. */
  byEmail(email: string): Promise<User | null>
  /** The first administrator; null: the service is not set up yet. */
  admin(): Promise<User | null>
  /** The user of a session, in one query: 'denied' when the credential with this digest was logged out, null when there is no such user. */
  ofSession(id: string, digest: string): Promise<User | 'denied' | null>
  /** What is stored of somebody, for the limits of each. Cheap, however much it is. */
  stored(id: string): Promise<StoredOfUser>
}

export interface StoredOfUser {
  /** But those that were made for one run. */
  readonly threads: number
  /** What the runs of these threads have stored, see Settlement. */
  readonly bytes: number
  readonly crons: number
  /** Webhooks that are not sent yet, or have failed for good. */
  readonly webhooks: number
}

// ------------------------------------------------------------------------- API tokens, as the service reads them

export interface ApiTokenReads {
  /** The token with this digest and its user (null: the account is gone), in one query; null: no such token. */
  byDigest(digest: string): Promise<{ readonly token: ApiToken; readonly user: User | null } | null>
  /** Newest first. */
  list(user: Owner): Promise<ApiToken[]>
}
