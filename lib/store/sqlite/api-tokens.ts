// API tokens in SQLite.
import type Database from 'better-sqlite3'
import { COLUMNS, type TokenRow, toToken } from '../sql/api-tokens.ts'
import type { ApiTokenReads } from '../store.ts'
import { OWNED, type Writers } from './rows.ts'
import { toUser, type UserRow } from './users.ts'

export function apiTokenReads(db: Database.Database): ApiTokenReads {
  const byDigest = db.prepare<[string], TokenRow>(`
    SELECT ${COLUMNS} FROM api_tokens WHERE digest = ?`)
  const userOf = db.prepare<[string], UserRow>('SELECT * FROM users WHERE id = ?')
  const list = db.prepare<{ owner: string | null }, TokenRow>(`
    SELECT ${COLUMNS} FROM api_tokens WHERE ${OWNED} ORDER BY created_at DESC, token_id`)
  return {
    async byDigest(digest) {
      const row = byDigest.get(digest)
      return row ? { token: toToken(row), user: toUser(userOf.get(row.user_id)) } : null
    },
    async list(user) {
      return list.all({ owner: user }).map(toToken)
    }
  }
}

type TokenOps = 'apiToken.create' | 'apiToken.remove' | 'apiToken.use'

export function apiTokenWrites(db: Database.Database): Writers<TokenOps> {
  const count = db.prepare<[string], { tokens: number }>('SELECT count(*) AS tokens FROM api_tokens WHERE user_id = ?')
  const insert = db.prepare(`
    INSERT INTO api_tokens (${COLUMNS})
    VALUES (@token_id, @user_id, @name, @digest, @scopes_json, @created_at, @expires_at, @last_used_at)`)
  const remove = db.prepare<{ token_id: string; owner: string | null }, TokenRow>(`
    DELETE FROM api_tokens WHERE token_id = @token_id AND ${OWNED} RETURNING ${COLUMNS}`)
  const use = db.prepare(`
    UPDATE api_tokens SET last_used_at = @at
    WHERE token_id = @token_id AND (last_used_at IS NULL OR last_used_at < @at)`)
  return {
    'apiToken.create': ({ token: { scopes, ...token }, max }) => {
      if ((count.get(token.user_id)?.tokens ?? 0) >= max) return 'too_many'
      insert.run({ ...token, scopes_json: JSON.stringify(scopes) })
      return 'created'
    },
    'apiToken.remove': ({ token_id, user }) => {
      const row = remove.get({ token_id, owner: user })
      return row ? toToken(row) : null
    },
    'apiToken.use': ({ token_id, at }) => {
      use.run({ token_id, at })
      return null
    }
  }
}
