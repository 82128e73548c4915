// An API token as a row.
import type { ApiToken, Permission } from '../../types.ts'

export type TokenRow = Omit<ApiToken, 'scopes'> & { readonly scopes_json: string }

export const COLUMNS = 'token_id, user_id, name, digest, scopes_json, created_at, expires_at, last_used_at'

export function toToken({ scopes_json, ...token }: TokenRow): ApiToken {
  // The column is only ever written from a list of permissions.
  return { ...token, scopes: JSON.parse(scopes_json) as Permission[] }
}
