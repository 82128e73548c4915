// API tokens in PostgreSQL.
import { COLUMNS, type TokenRow, toToken } from '../sql/api-tokens.ts'
import type { ApiTokenReads } from '../store.ts'
import { type Db, owned, params } from './db.ts'
import type { Writers } from './rows.ts'
import { userById } from './users.ts'

export function apiTokenReads(db: Db): ApiTokenReads {
  return {
    async byDigest(digest) {
      const [row] = await db.rows<TokenRow>(`SELECT ${COLUMNS} FROM api_tokens WHERE digest = $1`, [digest])
      return row ? { token: toToken(row), user: await userById(db, row.user_id) } : null
    },
    async list(user) {
      const sql = `SELECT ${COLUMNS} FROM api_tokens WHERE ${owned(1)} ORDER BY created_at DESC, token_id`
      return (await db.rows<TokenRow>(sql, [user])).map(toToken)
    }
  }
}

type TokenOps = 'apiToken.create' | 'apiToken.remove' | 'apiToken.use'

export const apiTokenWrites: Writers<TokenOps> = {
  'apiToken.create': async ({ token, max }, batch) => {
    const { token_id, user_id, name, digest, scopes, created_at, expires_at, last_used_at } = token
    // Under the lock of the account, so that two processes do not both find room for the last one.
    await batch.rows('SELECT 1 FROM users WHERE id = $1 FOR UPDATE', [user_id])
    const count = 'SELECT count(*) AS tokens FROM api_tokens WHERE user_id = $1'
    const [counted] = await batch.rows<{ tokens: number }>(count, [user_id])
    if ((counted?.tokens ?? 0) >= max) return 'too_many'
    const values = [token_id, user_id, name, digest, JSON.stringify(scopes), created_at, expires_at, last_used_at]
    await batch.changes(`INSERT INTO api_tokens (${COLUMNS}) VALUES (${params(1, 8)})`, values)
    return 'created'
  },

  'apiToken.remove': async ({ token_id, user }, batch) => {
    const sql = `DELETE FROM api_tokens WHERE token_id = $2 AND ${owned(1)} RETURNING ${COLUMNS}`
    const [row] = await batch.rows<TokenRow>(sql, [user, token_id])
    return row ? toToken(row) : null
  },

  'apiToken.use': async ({ token_id, at }, batch) => {
    const sql = `UPDATE api_tokens SET last_used_at = $2
      WHERE token_id = $1 AND (last_used_at IS NULL OR last_used_at < $2)`
    await batch.changes(sql, [token_id, at])
    return null
  }
}
