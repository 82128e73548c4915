// Callers whom only the project's auth rules know: as principals, and as rules and graphs see them.
import { createHash } from 'node:crypto'
import { type Grant, USER_PERMISSIONS, type Principal, type User } from '../base/accounts.ts'
import { type JsonObject, timestamp, uuidOf } from '../base/types.ts'

/** A user as rules and graphs see one. */
export interface AuthUser extends JsonObject {
  identity: string
  display_name: string
  is_authenticated: boolean
  permissions: string[]
}

/** The principal that rules describe. */
export function assertedPrincipal(asserted: AuthUser): Principal {
  const user = userOf(asserted)
  return {
    user,
    grant: {
      kind: 'asserted',
      userId: user.id,
      digest: createHash('sha256').update(`asserted ${user.id}`).digest('hex'),
      version: 0,
      expires: null,
      permissions: new Set(USER_PERMISSIONS),
      asserted
    }
  }
}

/** The caller as rules and graphs see one. */
export function authUser({ user, grant }: { readonly user: User; readonly grant: Grant | null }): AuthUser {
  if (grant?.asserted) return grant.asserted as AuthUser // made by authenticate above
  return {
    identity: user.id,
    display_name: user.email,
    email: user.email,
    role: user.system_role,
    is_authenticated: true,
    permissions: [...(grant?.permissions ?? USER_PERMISSIONS)]
  }
}

/** No account and no other way to sign in: the id is derived from the identity. */
function userOf({ identity, email }: AuthUser): User {
  return {
    id: uuidOf(createHash('sha256').update(`langgraph.json ${identity}`).digest(), 8),
    email: typeof email === 'string' ? email : identity,
    password_hash: null,
    system_role: 'user',
    created_at: timestamp(0),
    oauth_provider: 'langgraph.json',
    oauth_id: identity,
    needs_setup: false,
    token_version: 0,
    disabled_at: null
  }
}
