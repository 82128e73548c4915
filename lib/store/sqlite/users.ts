// Users in SQLite.
import type Database from 'better-sqlite3'
import type { SystemRole, User } from '../../types.ts'
import type { UserReads } from '../store.ts'
import type { Writers } from './rows.ts'

export interface UserRow {
  id: string
  email: string
  password_hash: string | null
  system_role: SystemRole
  created_at: string
  oauth_provider: string | null
  oauth_id: string | null
  needs_setup: number
  token_version: number
}

export function toUser(row: UserRow | undefined): User | null {
  return row ? { ...row, needs_setup: row.needs_setup === 1 } : null
}

export function userReads(db: Database.Database): UserReads {
  const byId = db.prepare<[string], UserRow>('SELECT * FROM users WHERE id = ?')
  const byEmail = db.prepare<[string], UserRow>('SELECT * FROM users WHERE email = ?')
  const admin = db.prepare<[], UserRow>("SELECT * FROM users WHERE system_role = 'admin' ORDER BY created_at LIMIT 1")
  const ofSession = db.prepare<[string, string], UserRow & { is_denied: number }>(
    'SELECT *, EXISTS (SELECT 1 FROM denied_sessions WHERE digest = ?) AS is_denied FROM users WHERE id = ?'
  )
  return {
    async byId(id) {
      return toUser(byId.get(id))
    },
    async byEmail(email) {
      return toUser(byEmail.get(email))
    },
    async admin() {
      return toUser(admin.get())
    },
    async ofSession(id, digest) {
      const row = ofSession.get(digest, id)
      if (!row) return null
      const { is_denied, ...user } = row
      return is_denied ? 'denied' : toUser(user)
    }
  }
}

/** Rows of ended sessions that one logout clears away: more than it adds, so that they never pile up. */
const SWEPT_AT_ONCE = 20

type UserOps = 'user.create' | 'user.initialize' | 'user.update' | 'session.deny'

export function userWrites(db: Database.Database): Writers<UserOps> {
  const byId = db.prepare<[string], UserRow>('SELECT * FROM users WHERE id = ?')
  const emailOwner = db.prepare<[string], { id: string }>('SELECT id FROM users WHERE email = ?')
  const admin = db.prepare("SELECT 1 FROM users WHERE system_role = 'admin' LIMIT 1")
  const insert = db.prepare(`
    INSERT INTO users (id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup, token_version)
    VALUES (@id, @email, @password_hash, @system_role, @created_at, @oauth_provider, @oauth_id, @needs_setup, @token_version)`)
  const update = db.prepare(`
    UPDATE users SET email = @email, password_hash = @password_hash, system_role = @system_role, needs_setup = @needs_setup,
      token_version = @token_version
    WHERE id = @id`)

  const deny = db.prepare('INSERT OR REPLACE INTO denied_sessions (digest, expires) VALUES (?, ?)')
  const forgetEnded = db.prepare(`
    DELETE FROM denied_sessions
    WHERE digest IN (SELECT digest FROM denied_sessions WHERE expires < ? ORDER BY expires LIMIT ${SWEPT_AT_ONCE})`)

  const create = (user: User): 'created' | 'email_taken' => {
    if (emailOwner.get(user.email)) return 'email_taken'
    insert.run({ ...user, needs_setup: user.needs_setup ? 1 : 0 })
    return 'created'
  }

  return {
    'user.create': ({ user }) => create(user),
    'user.initialize': ({ user }) => (admin.get() ? 'initialized' : create(user)),
    'user.update': ({ id, set }) => {
      const found = toUser(byId.get(id))
      if (!found) return null
      const next = { ...found, ...set }
      const holder = emailOwner.get(next.email)
      if (holder && holder.id !== id) return 'email_taken'
      update.run({ ...next, needs_setup: next.needs_setup ? 1 : 0 })
      return next
    },
    'session.deny': ({ digest, expires, now }) => {
      forgetEnded.run(now)
      deny.run(digest, expires)
      return null
    }
  }
}
