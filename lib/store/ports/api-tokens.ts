// API tokens, as the service reads them.
import type { ApiToken, User } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'

export interface ApiTokenReads {
  /** The token with this digest and its user (null: the account is gone), in one query; null: no such token. */
  byDigest(digest: string): Promise<{ readonly token: ApiToken; readonly user: User | null } | null>
  /** Newest first. */
  list(user: Owner): Promise<ApiToken[]>
}
