// Users, as the service reads them.
import type { User } from '../../types.ts'

export type UserPatch = Partial<Pick<User, 'email' | 'password_hash' | 'needs_setup' | 'token_version' | 'system_role'>>

export interface UserReads {
  byId(id: string): Promise<User | null>
  /** `email` in lower case. */
  byEmail(email: string): Promise<User | null>
  /** The first administrator, or null: then the service waits for its set-up. */
  admin(): Promise<User | null>
  /**
   * The user of a session, in one look-up: 'denied' when the credential with this digest was logged out, null when there is no
   * such user.
   */
  ofSession(id: string, digest: string): Promise<User | 'denied' | null>
}
