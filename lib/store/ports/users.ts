// Reading users.
import type { ApiToken, ProviderSession, Session, SystemRole, User } from '../../base/accounts.ts'
import type { Owner } from '../../base/scope.ts'

export type UserPatch = Partial<
  Pick<
    User,
    | 'email'
    | 'password_hash'
    | 'needs_setup'
    | 'token_version'
    | 'system_role'
    | 'oauth_provider'
    | 'oauth_id'
    | 'groups'
  >
>

export interface UserSearch {
  /** Part of the e-mail address, in lower case. */
  readonly text?: string
  readonly role?: SystemRole
  readonly isDisabled?: boolean
  readonly limit: number
  readonly offset: number
}

/** A user as a list shows one. `last_seen_at`: the last use of a session that has not ended, to some minutes. */
export type ListedUser = Omit<User, 'password_hash' | 'token_version'> & { readonly last_seen_at: string | null }

export interface UserReads {
  byId(id: string): Promise<User | null>
  /** `email` in lower case. */
  byEmail(email: string): Promise<User | null>
  /** Whom a provider calls `subject`. */
  byIdentity(provider: string, subject: string): Promise<User | null>
  /** What belongs to a session of this digest; null: it was not opened at a provider, or has ended. */
  providerSession(digest: string): Promise<ProviderSession | null>
  /** Those of somebody at a provider, or of one session there; both null: none. */
  providerSessions(provider: string, subject: string | null, sid: string | null): Promise<ProviderSession[]>
  /** The first administrator; null: the service is not set up yet. */
  admin(): Promise<User | null>
  /** The user of a session, in one query: 'denied' when the credential with this digest was logged out, null when there is no such user. */
  ofSession(id: string, digest: string): Promise<User | 'denied' | null>
  /** Oldest first. */
  list(search: UserSearch): Promise<{ readonly users: readonly ListedUser[]; readonly total: number }>
  /** Sessions that have not ended, newest first. */
  sessions(userId: string): Promise<Session[]>
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
