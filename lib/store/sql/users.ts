// Users as rows of both databases, and their denied sessions.
import type { ApiToken, Permission, ProviderSession, Quota, Session, User } from '../../base/accounts.ts'
import type { ApiTokenReads, ListedUser, StoredOfUser, UserReads, UserSearch } from '../store.ts'
import { needsNoHold } from './holds.ts'
import { needsThread } from './threads.ts'
import { putJob } from './jobs.ts'
import { runBodiesRemoval } from './removal.ts'
import { forgetUsage } from './usage.ts'
import { ask, askOne, lock, ownedBy, type Param, places, type StepReads, type Steps, type StepWrites } from './steps.ts'

const COLUMNS =
  'id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup, token_version, disabled_at, groups_json, quota_json'
/** Expired denials deleted per logout: more than it adds, so that they never pile up. */
const SWEPT_AT_ONCE = 20
/** Advisory lock for creating the first administrator: two processes must not create one each. */
const INITIALIZE_LOCK = 7_236_002

/** PostgreSQL has booleans, SQLite 0 and 1. */
type UserRow = Omit<User, 'needs_setup' | 'groups' | 'quota'> & {
  readonly needs_setup: boolean | number
  readonly groups_json: string | null
  readonly quota_json: string | null
}

function toUser({ groups_json, quota_json, ...row }: UserRow): User {
  // Only written from a list of texts.
  const groups = groups_json === null ? {} : { groups: JSON.parse(groups_json) as string[] }
  return { ...row, needs_setup: Boolean(row.needs_setup), ...groups, ...quotaOf(quota_json) }
}

function quotaOf(json: string | null): Pick<User, 'quota'> {
  return json === null ? {} : { quota: JSON.parse(json) as Quota }
}

function groupsJson({ groups }: User): string | null {
  return groups === undefined ? null : JSON.stringify(groups)
}

function quotaJson({ quota = null }: Pick<User, 'quota'>): string | null {
  return quota && JSON.stringify(quota)
}

function* find(condition: string, ...params: string[]): Steps<User | null> {
  const [row] = yield* ask<UserRow>(`SELECT ${COLUMNS} FROM users WHERE ${condition}`, ...params)
  return row ? toUser(row) : null
}

function userById(id: string): Steps<User | null> {
  return find('id = $1', id)
}

function* ofSession(id: string, digest: string): Steps<User | 'denied' | null> {
  const sql = `SELECT ${COLUMNS}, EXISTS (SELECT 1 FROM denied_sessions WHERE digest = $2) AS is_denied FROM users WHERE id = $1`
  const [row] = yield* ask<UserRow & { readonly is_denied: boolean | number }>(sql, id, digest)
  if (!row) return null
  const { is_denied, needs_setup, groups_json, quota_json, ...user } = row
  if (is_denied) return 'denied'
  const groups = groups_json && { groups: JSON.parse(groups_json) }
  // Hot path: as toUser, and most have neither groups nor a quota.
  return { ...user, needs_setup: Boolean(needs_setup), ...groups, ...(quota_json && { quota: JSON.parse(quota_json) }) }
}

const LISTED = 'id, email, system_role, created_at, oauth_provider, oauth_id, needs_setup, disabled_at, quota_json'
/** Of a text that is searched for, what LIKE takes for more than itself. */
const LIKE_SPECIAL = /[\\%_]/g

function* listUsers({
  text,
  role,
  isDisabled,
  limit,
  offset
}: UserSearch): Steps<Awaited<ReturnType<UserReads['list']>>> {
  const params: Param[] = []
  const conditions: string[] = []
  if (text !== undefined && text !== '') {
    params.push(`%${text.replace(LIKE_SPECIAL, '\\$&')}%`)
    conditions.push(`email LIKE $${params.length} ESCAPE '\\'`)
  }
  if (role !== undefined) {
    params.push(role)
    conditions.push(`system_role = $${params.length}`)
  }
  if (isDisabled !== undefined) conditions.push(`disabled_at IS ${isDisabled ? 'NOT ' : ''}NULL`)
  const filter = conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : ''
  const counted = yield* askOne<{ total: number }>(`SELECT count(*) AS total FROM users ${filter}`, ...params)
  params.push(limit, offset)
  const sql = `SELECT ${LISTED}, (SELECT max(last_used_at) FROM sessions WHERE user_id = users.id) AS last_seen_at FROM users ${filter}
    ORDER BY created_at, id LIMIT $${params.length - 1} OFFSET $${params.length}`
  type Row = Pick<UserRow, 'needs_setup' | 'quota_json'> & Omit<ListedUser, 'needs_setup' | 'quota'>
  const rows = yield* ask<Row>(sql, ...params)
  return {
    users: rows.map(({ quota_json, needs_setup, ...row }) => ({
      ...row,
      needs_setup: Boolean(needs_setup),
      ...quotaOf(quota_json)
    })),
    total: Number(counted?.total ?? 0)
  }
}

const SESSION = 'digest, user_id, created_at, last_used_at, expires, device, address'
const PROVIDER_SESSION = 'digest, user_id, provider, subject, sid, tokens, checked, expires'

export const userReads: StepReads<UserReads> = {
  list: listUsers,
  sessions: (userId) =>
    ask<Session>(`SELECT ${SESSION} FROM sessions WHERE user_id = $1 ORDER BY created_at DESC, digest`, userId),
  byId: userById,
  byEmail: (email) => find('email = $1', email),
  byIdentity: (provider, subject) => find('oauth_provider = $1 AND oauth_id = $2', provider, subject),
  *providerSession(digest) {
    const sql = `SELECT ${PROVIDER_SESSION} FROM provider_sessions WHERE digest = $1`
    return (yield* askOne<ProviderSession>(sql, digest)) ?? null
  },
  providerSessions(provider, subject, sid) {
    const rows = `SELECT ${PROVIDER_SESSION} FROM provider_sessions WHERE provider = $1`
    if (sid !== null) return ask<ProviderSession>(`${rows} AND sid = $2`, provider, sid)
    return ask<ProviderSession>(`${rows} AND subject = $2`, provider, subject)
  },
  admin: () => find("system_role = 'admin' ORDER BY created_at LIMIT 1"),
  ofSession,
  *stored(id) {
    const { threads, bytes, crons, webhooks } = (yield* askOne<StoredOfUser>(STORED, id))!
    return { threads: Number(threads), bytes: Number(bytes), crons: Number(crons), webhooks: Number(webhooks) }
  }
}

/** Each of these reads nothing but an index. */
const STORED = `SELECT count(*) AS threads, CAST(coalesce(sum(stored_bytes), 0) AS bigint) AS bytes,
    (SELECT count(*) FROM crons WHERE user_id = $1) AS crons,
    (SELECT count(*) FROM jobs WHERE user_id = $1 AND kind IN ('webhook', 'push')) AS webhooks
  FROM threads_meta WHERE user_id = $1 AND is_temporary = 0`

function* create(user: User): Steps<'created' | 'email_taken'> {
  const { id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup } = user
  const sql = `INSERT INTO users (${COLUMNS}) VALUES (${places(12)}) ON CONFLICT (email) DO NOTHING RETURNING 1`
  const values = [id, email, password_hash, system_role, created_at, oauth_provider, oauth_id, needs_setup]
  return (yield* ask(sql, ...values, user.token_version, user.disabled_at, groupsJson(user), quotaJson(user)))
    .length === 1
    ? 'created'
    : 'email_taken'
}

/** Of threads that are everybody's. */
const SHARED =
  'user_id = $1 AND thread_id IN (SELECT thread_id FROM threads_meta WHERE user_id IS NULL AND is_temporary = 0)'
/** What somebody has beside threads of their own. The rule of a table that is made later stands here, or beside those of threads. */
const FORGET = [
  'DELETE FROM quota_counts WHERE user_id = $1',
  'DELETE FROM api_tokens WHERE user_id = $1',
  'DELETE FROM sessions WHERE user_id = $1',
  'DELETE FROM provider_sessions WHERE user_id = $1',
  'DELETE FROM search_shelves WHERE user_id = $1',
  "UPDATE audit SET address = NULL WHERE actor = 'user:' || CAST($1 AS text) OR target = 'user:' || CAST($1 AS text)",
  'DELETE FROM assistant_versions WHERE assistant_id IN (SELECT assistant_id FROM assistants WHERE user_id = $1)',
  'DELETE FROM assistants WHERE user_id = $1',
  'DELETE FROM store_items WHERE user_id = $1',
  'DELETE FROM store_totals WHERE user_id = $1',
  'DELETE FROM crons WHERE user_id = $1',
  'DELETE FROM aliases WHERE user_id = $1',
  'DELETE FROM feedback WHERE user_id = $1',
  "DELETE FROM jobs WHERE user_id = $1 AND kind <> 'departure'",
  `DELETE FROM frames WHERE run_key IN (SELECT key FROM runs WHERE ${SHARED})`,
  runBodiesRemoval(SHARED),
  // Others never saw them: without a name they would.
  `DELETE FROM run_events WHERE ${SHARED}`,
  `DELETE FROM runs WHERE ${SHARED}`
]

/** Another administrator who may sign in. */
const OTHER_ADMIN = "SELECT 1 FROM users WHERE system_role = 'admin' AND disabled_at IS NULL AND id <> $1 LIMIT 1"

function* isLastAdmin({ id, system_role, disabled_at }: User): Steps<boolean> {
  if (system_role !== 'admin' || disabled_at !== null) return false
  return (yield* ask(OTHER_ADMIN, id)).length === 0
}

/** Deletes some rows of a table that have expired; those another process is deleting are skipped. */
function* sweepExpired(table: 'denied_sessions' | 'sessions' | 'provider_sessions', now: number): Steps<void> {
  yield* ask(
    `DELETE FROM ${table} WHERE digest IN (
      SELECT digest FROM ${table} WHERE expires < $1 ORDER BY expires LIMIT ${SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED)`,
    now
  )
}

type UserOps =
  | 'user.create'
  | 'user.initialize'
  | 'user.update'
  | 'user.setAccess'
  | 'user.setQuota'
  | 'user.remove'
  | 'user.forget'
  | 'session.deny'
  | 'session.use'
  | 'session.attach'
  | 'session.claimChecks'
  | 'session.setTokens'

/** Those of providers too. */
function* endSessions(userId: string): Steps<void> {
  yield* ask('DELETE FROM sessions WHERE user_id = $1', userId)
  yield* ask('DELETE FROM provider_sessions WHERE user_id = $1', userId)
}

export const userWrites: StepWrites<UserOps> = {
  'user.create': ({ user }) => create(user),

  *'user.initialize'({ user }) {
    yield* lock('SELECT pg_advisory_xact_lock($1)::text', INITIALIZE_LOCK)
    const admins = yield* ask("SELECT 1 FROM users WHERE system_role = 'admin' LIMIT 1")
    return admins.length > 0 ? 'initialized' : yield* create(user)
  },

  *'user.update'({ id, set, ifVersion }) {
    const found = yield* find('id = $1 FOR UPDATE', id)
    if (!found) return null
    if (ifVersion !== undefined && ifVersion !== found.token_version) return 'changed'
    const next = { ...found, ...set }
    const holders = yield* ask('SELECT 1 FROM users WHERE email = $1 AND id <> $2', next.email, id)
    if (holders.length > 0) return 'email_taken'
    const sql = `UPDATE users SET email = $2, password_hash = $3, system_role = $4, needs_setup = $5, token_version = $6,
      oauth_provider = $7, oauth_id = $8, groups_json = $9 WHERE id = $1`
    const { email, password_hash, system_role, needs_setup, token_version, oauth_provider, oauth_id } = next
    const values = [email, password_hash, system_role, needs_setup, token_version, oauth_provider, oauth_id]
    yield* ask(sql, id, ...values, groupsJson(next))
    if (token_version !== found.token_version) yield* endSessions(id)
    return next
  },

  *'user.setAccess'({ id, role, disabled_at }) {
    yield* lock('SELECT pg_advisory_xact_lock($1)::text', INITIALIZE_LOCK)
    const found = yield* find('id = $1 FOR UPDATE', id)
    if (!found) return null
    const next = {
      ...found,
      system_role: role ?? found.system_role,
      disabled_at: disabled_at === undefined ? found.disabled_at : disabled_at,
      token_version: found.token_version + 1
    }
    const staysAdmin = next.system_role === 'admin' && next.disabled_at === null
    if (!staysAdmin && (yield* isLastAdmin(found))) return 'last_admin'
    const sql = 'UPDATE users SET system_role = $2, disabled_at = $3, token_version = $4 WHERE id = $1'
    yield* ask(sql, id, next.system_role, next.disabled_at, next.token_version)
    yield* endSessions(id)
    if (next.disabled_at !== null) {
      yield* ask('DELETE FROM api_tokens WHERE user_id = $1', id)
      yield* ask('UPDATE crons SET enabled = 0 WHERE user_id = $1', id)
      yield* ask("DELETE FROM jobs WHERE kind = 'turn' AND user_id = $1", id)
    }
    return next
  },

  *'user.setQuota'({ id, quota }) {
    const sql = `UPDATE users SET quota_json = $2 WHERE id = $1 RETURNING ${COLUMNS}`
    const row = yield* askOne<UserRow>(sql, id, quotaJson({ quota }))
    return row ? toUser(row) : null
  },

  *'user.remove'({ id, job }) {
    // Two administrators must not remove each other.
    yield* lock('SELECT pg_advisory_xact_lock($1)::text', INITIALIZE_LOCK)
    const found = yield* find('id = $1 FOR UPDATE', id)
    if (!found) return null
    if (yield* isLastAdmin(found)) return 'last_admin'
    yield* needsNoHold('account', id)
    for (const sql of [
      'DELETE FROM users WHERE id = $1',
      'DELETE FROM api_tokens WHERE user_id = $1',
      'DELETE FROM sessions WHERE user_id = $1',
      'DELETE FROM provider_sessions WHERE user_id = $1'
    ])
      yield* ask(sql, id)
    yield* putJob(job)
    return 'removed'
  },

  *'user.forget'({ user_id, agents }) {
    yield* needsNoHold('account', user_id)
    yield* forgetUsage(user_id, agents)
    for (const sql of FORGET) yield* ask(sql, user_id)
    return null
  },

  *'session.deny'({ digest, expires, now }) {
    yield* sweepExpired('denied_sessions', now)
    const deny = `INSERT INTO denied_sessions (digest, expires) VALUES ($1, $2)
      ON CONFLICT (digest) DO UPDATE SET expires = excluded.expires`
    yield* ask(deny, digest, expires)
    yield* ask('DELETE FROM sessions WHERE digest = $1', digest)
    yield* ask('DELETE FROM provider_sessions WHERE digest = $1', digest)
    return null
  },

  *'session.attach'({ session, now }) {
    yield* sweepExpired('provider_sessions', now)
    const { digest, user_id, provider, subject, sid, tokens, checked, expires } = session
    const sql = `INSERT INTO provider_sessions (${PROVIDER_SESSION}) VALUES (${places(8)}) ON CONFLICT (digest) DO NOTHING`
    yield* ask(sql, digest, user_id, provider, subject, sid, tokens, checked, expires)
    return null
  },

  'session.claimChecks': ({ before, now, limit }) =>
    ask<ProviderSession>(
      `UPDATE provider_sessions SET checked = $2 WHERE digest IN (
        SELECT digest FROM provider_sessions WHERE checked <= $1 AND expires > $2 ORDER BY checked LIMIT $3 FOR UPDATE SKIP LOCKED)
      RETURNING ${PROVIDER_SESSION}`,
      before,
      now,
      limit
    ),

  *'session.setTokens'({ digest, tokens }) {
    yield* ask('UPDATE provider_sessions SET tokens = $2 WHERE digest = $1', digest, tokens)
    return null
  },

  *'session.use'({ session, version, now }) {
    yield* sweepExpired('sessions', now)
    const { digest, user_id, created_at, last_used_at, expires, device, address } = session
    // Recorded in the background: it may have ended meanwhile.
    const standing = `SELECT 1 FROM users WHERE id = $1 AND token_version = $2
      AND NOT EXISTS (SELECT 1 FROM denied_sessions WHERE digest = $3)`
    if ((yield* ask(standing, user_id, version, digest)).length === 0) return null
    const sql = `INSERT INTO sessions (${SESSION}) VALUES (${places(7)})
      ON CONFLICT (digest) DO UPDATE SET last_used_at = excluded.last_used_at`
    yield* ask(sql, digest, user_id, created_at, last_used_at, expires, device, address)
    return null
  }
}

/** Links to a removed thread open nothing any more; a new thread of the same id is another. `$1`: the thread. */
export const REMOVE_LINKS = 'DELETE FROM api_tokens WHERE thread_id = $1'

// -------------------------------------------------------------------------- API tokens as rows of both databases

type TokenRow = Omit<ApiToken, 'scopes' | 'thread_id'> & {
  readonly scopes_json: string
  readonly thread_id: string | null
}

const TOKEN_COLUMNS = 'token_id, user_id, name, digest, scopes_json, created_at, expires_at, last_used_at, thread_id'

function toToken({ scopes_json, thread_id, ...token }: TokenRow): ApiToken {
  // Only written from a list of permissions.
  const scopes = JSON.parse(scopes_json) as Permission[]
  return { ...token, scopes, ...(thread_id !== null && { thread_id }) }
}

function* byDigest(digest: string): Steps<Awaited<ReturnType<ApiTokenReads['byDigest']>>> {
  const [row] = yield* ask<TokenRow>(`SELECT ${TOKEN_COLUMNS} FROM api_tokens WHERE digest = $1`, digest)
  return row ? { token: toToken(row), user: yield* userById(row.user_id) } : null
}

function* list(user: string | null): Steps<ApiToken[]> {
  const sql = `SELECT ${TOKEN_COLUMNS} FROM api_tokens WHERE ${ownedBy(1)} ORDER BY created_at DESC, token_id`
  return (yield* ask<TokenRow>(sql, user)).map(toToken)
}

export const apiTokenReads: StepReads<ApiTokenReads> = { byDigest, list }

export const apiTokenWrites: StepWrites<'apiToken.create' | 'apiToken.remove' | 'apiToken.use'> = {
  *'apiToken.create'({ token, max }) {
    const { token_id, user_id, name, digest, scopes, created_at, expires_at, last_used_at, thread_id = null } = token
    // A link opens this thread, and not a later one of its id.
    if (thread_id !== null) yield* needsThread(thread_id)
    // Under the account's lock, so that two processes cannot both take the last place.
    yield* lock('SELECT 1 FROM users WHERE id = $1 FOR UPDATE', user_id)
    const count = 'SELECT count(*) AS tokens FROM api_tokens WHERE user_id = $1 AND thread_id IS NOT DISTINCT FROM $2'
    const [counted] = yield* ask<{ tokens: number }>(count, user_id, thread_id)
    if (counted!.tokens >= max) return 'too_many'
    const values = [token_id, user_id, name, digest, JSON.stringify(scopes), created_at, expires_at, last_used_at]
    yield* ask(`INSERT INTO api_tokens (${TOKEN_COLUMNS}) VALUES (${places(9)})`, ...values, thread_id)
    return 'created'
  },

  *'apiToken.remove'({ token_id, user }) {
    const sql = `DELETE FROM api_tokens WHERE token_id = $2 AND ${ownedBy(1)} RETURNING ${TOKEN_COLUMNS}`
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
