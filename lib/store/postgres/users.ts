// Users in PostgreSQL.
import type { User } from '../../types.ts'
import type { UserReads } from '../store.ts'
import type { Batch } from './batch.ts'
import { type Db, params } from './db.ts'
import type { Writers } from './rows.ts'

const COLUMNS =
  'id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup, token_version'

function valuesOf(user: User) {
  const { id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup, token_version } =
    user
  return [id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup, token_version]
}

/** A user of this id, as it is now. */
export async function userById(db: Db, id: string): Promise<User | null> {
  return (await db.rows<User>(`SELECT ${COLUMNS} FROM users WHERE id = $1`, [id]))[0] ?? null
}

export function userReads(db: Db): UserReads {
  return {
    byId: (id) => userById(db, id),
    async byEmail(email) {
      return (await db.rows<User>(`SELECT ${COLUMNS} FROM users WHERE email = $1`, [email]))[0] ?? null
    },
    async admin() {
      const sql = `SELECT ${COLUMNS} FROM users WHERE system_role = 'admin' ORDER BY created_at LIMIT 1`
      return (await db.rows<User>(sql))[0] ?? null
    },
    async ofSession(id, digest) {
      const sql = `SELECT ${COLUMNS}, EXISTS (SELECT 1 FROM denied_sessions WHERE digest = $2) AS is_denied FROM users WHERE id = $1`
      const [row] = await db.rows<User & { is_denied: boolean }>(sql, [id, digest])
      if (!row) return null
      const { is_denied, ...user } = row
      return is_denied ? 'denied' : user
    }
  }
}

/** Of the lock under which the first administrator is made: two processes must not make one each. */
const INITIALIZE_LOCK = 7_236_002

async function create(user: User, batch: Batch): Promise<'created' | 'email_taken'> {
  const made = await batch.changes(
    `INSERT INTO users (${COLUMNS}) VALUES (${params(1, 9)}) ON CONFLICT (email) DO NOTHING`,
    valuesOf(user)
  )
  return made === 1 ? 'created' : 'email_taken'
}

/** Rows of ended sessions that one logout clears away: more than it adds, so that they never pile up. */
const SWEPT_AT_ONCE = 20

type UserOps = 'user.create' | 'user.initialize' | 'user.update' | 'session.deny'

export const userWrites: Writers<UserOps> = {
  'user.create': ({ user }, batch) => create(user, batch),

  'user.initialize': async ({ user }, batch) => {
    await batch.rows('SELECT pg_advisory_xact_lock($1)::text', [INITIALIZE_LOCK])
    const admins = await batch.rows("SELECT 1 FROM users WHERE system_role = 'admin' LIMIT 1")
    return admins.length ? 'initialized' : create(user, batch)
  },

  'user.update': async ({ id, set }, batch) => {
    const [found] = await batch.rows<User>(`SELECT ${COLUMNS} FROM users WHERE id = $1 FOR UPDATE`, [id])
    if (!found) return null
    const next = { ...found, ...set }
    const holders = await batch.rows('SELECT 1 FROM users WHERE email = $1 AND id <> $2', [next.email, id])
    if (holders.length) return 'email_taken'
    await batch.changes(
      `UPDATE users SET email = $2, password_hash = $3, system_role = $4, needs_setup = $5, token_version = $6 WHERE id = $1`,
      [id, next.email, next.password_hash, next.system_role, next.needs_setup, next.token_version]
    )
    return next
  },

  'session.deny': async ({ digest, expires, now }, batch) => {
    // Another process may be at the same rows: those are left to it.
    const forget = `DELETE FROM denied_sessions WHERE digest IN (
      SELECT digest FROM denied_sessions WHERE expires < $1 ORDER BY expires LIMIT ${SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)`
    const deny = `INSERT INTO denied_sessions (digest, expires) VALUES ($1, $2)
      ON CONFLICT (digest) DO UPDATE SET expires = excluded.expires`
    await Promise.all([batch.changes(forget, [now]), batch.changes(deny, [digest, expires])])
    return null
  }
}
