// API tokens as rows of both databases.
import type { ApiToken, Permission } from '../../base/types.ts'
import type { ApiTokenReads } from '../store.ts'
import { ask, lock, ownedBy, places, type StepReads, type Steps, type StepWrites } from './steps.ts'
import { userById } from './users.ts'

type TokenRow = Omit<ApiToken, 'scopes'> & { readonly scopes_json: string }

const COLUMNS = 'token_id, user_id, name, digest, scopes_json, created_at, expires_at, last_used_at'

function toToken({ scopes_json, ...token }: TokenRow): ApiToken {
  // Only written from a list of permissions.
  return { ...token, scopes: JSON.parse(scopes_json) as Permission[] }
}

function* byDigest(digest: string): Steps<Awaited<ReturnType<ApiTokenReads['byDigest']>>> {
  const [row] = yield* ask<TokenRow>(`SELECT ${COLUMNS} FROM api_tokens WHERE digest = $1`, digest)
  return row ? { token: toToken(row), user: yield* userById(row.user_id) } : null
}

function* list(user: string | null): Steps<ApiToken[]> {
  const sql = `SELECT ${COLUMNS} FROM api_tokens WHERE ${ownedBy(1)} ORDER BY created_at DESC, token_id`
  return (yield* ask<TokenRow>(sql, user)).map(toToken)
}

export const apiTokenReads: StepReads<ApiTokenReads> = { byDigest, list }

export const apiTokenWrites: StepWrites<'apiToken.create' | 'apiToken.remove' | 'apiToken.use'> = {
  *'apiToken.create'({ token, max }) {
    const { token_id, user_id, name, digest, scopes, created_at, expires_at, last_used_at } = token
    // Under the account's lock, so that two processes cannot both take the last place.
    yield* lock('SELECT 1 FROM users WHERE id = $1 FOR UPDATE', user_id)
    const count = 'SELECT count(*) AS tokens FROM api_tokens WHERE user_id = $1'
    const [counted] = yield* ask<{ tokens: number }>(count, user_id)
    if (counted!.tokens >= max) return 'too_many'
    const values = [token_id, user_id, name, digest, JSON.stringify(scopes), created_at, expires_at, last_used_at]
    yield* ask(`INSERT INTO api_tokens (${COLUMNS}) VALUES (${places(8)})`, ...values)
    return 'created'
  },

  *'apiToken.remove'({ token_id, user }) {
    const sql = `DELETE FROM api_tokens WHERE token_id = $2 AND ${ownedBy(1)} RETURNING ${COLUMNS}`
    const [row] = yield* ask<TokenRow>(sql, user, token_id)
    return row ? toToken(row) : null
  },

  *'apiToken.use'({ token_id, at }) {
    const sql = `UPDATE api_tokens SET last_used_at = $2
      WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2)`
    yield* ask(sql, token_id, at)
    return null
  }
}
