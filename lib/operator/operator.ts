// What commands of the operator do in the database, also beside a running server: an administrator's password, API tokens, jobs,
// pruning. SQLite allows two writers in turn, and the server reads credentials from the database at every request and every heartbeat,
// so it notices changes made here.
import { existsSync } from 'node:fs'
import { type Reset, resetAdmin } from '../auth/admin.ts'
import { ApiTokens, type NewApiToken } from '../auth/api-tokens.ts'
import { type Actor, Audit, type AuditAction, jobAudit, OPERATOR, userName } from '../auth/audit.ts'
import { findAccount } from '../auth/email.ts'
import { tokenName } from '../auth/people.ts'
import type { Config } from '../config/config.ts'
import { reportIfSlow } from './migrate.ts'
import { changeJob as changeJobIn, type JobChange } from '../jobs/runner.ts'
import { Committer } from '../run/commit/committer.ts'
import { daysKept, keptSince } from '../run/commit/sweeper.ts'
import { RETAINED, type Job, type Op, type Store, type Writer } from '../store/store.ts'
import { openDatabase, pruneDatabase } from '../store/open.ts'
import { scopedStore, scopedWriter } from '../store/scoped.ts'
import type { ApiToken } from '../base/accounts.ts'
import type { JobKind, JsonObject } from '../base/types.ts'

const JOBS_PAGE = 1000

/**
 * Gives an administrator a new password, left in a file of the home.
 * @throws Error when there is no SQL database, or nobody to reset.
 */
export function resetAdministrator(config: Config, email: string | null): Promise<Reset> {
  return beside(config, async (store, writer) => {
    const parts = { users: store.users, apiTokens: tokensOf(store, writer), writer, home: config.home, email }
    const reset = await resetAdmin(parts)
    const user = await accountOf(store, reset.email)
    await auditOf(writer).record('password', OPERATOR, userName(user.id), { how: 'reset' })
    return reset
  })
}

/** The lines stand in the table; there is no log here. */
export function auditOf(writer: Writer): Audit {
  return new Audit({ writer, log: { info: () => {}, error: () => {} } })
}

/** A line of the audit about the installation, or part of it. */
export async function recorded(
  config: Config,
  action: AuditAction,
  by: Actor,
  details: JsonObject,
  target: string | null = null
): Promise<void> {
  await beside(config, (_, writer) => auditOf(writer).record(action, by, target, details))
}

export type TokenWish = Omit<NewApiToken, 'user_id'>

/**
 * Makes an API token for an account. `text` is the token, shown here and never again.
 * @throws Error when there is no SQL database, no such account, or it has too many.
 */
export function createApiToken(
  config: Config,
  email: string,
  wanted: TokenWish
): Promise<{ readonly token: ApiToken; readonly text: string }> {
  return beside(config, async (store, writer) => {
    const user = await accountOf(store, email)
    const made = await tokensOf(store, writer).create({ ...wanted, user_id: user.id })
    const details = { scopes: [...made.token.scopes], for: userName(user.id) }
    await auditOf(writer).record('token_created', OPERATOR, tokenName(made.token), details)
    return made
  })
}

/**
 * The API tokens of an account, newest first.
 * @throws Error when there is no SQL database, or no such account.
 */
export function listApiTokens(config: Config, email: string): Promise<ApiToken[]> {
  return beside(config, async (store, writer) => tokensOf(store, writer).list((await accountOf(store, email)).id))
}

/**
 * Ends any API token; a running server ends its streams within a heartbeat.
 * @throws Error when there is no SQL database, or no such token.
 */
export function revokeApiToken(config: Config, token_id: string): Promise<void> {
  return beside(config, async (store, writer) => {
    if (!(await tokensOf(store, writer).revoke(token_id, null))) throw new Error(`There is no API token ${token_id}`)
    await auditOf(writer).record('token_revoked', OPERATOR, tokenName({ token_id }))
  })
}

/**
 * All jobs, or those that have failed for good.
 * @throws Error when there is no SQL database.
 */
export function listJobs(config: Config, isDead: boolean): Promise<Job[]> {
  return beside(config, async ({ jobs }) => {
    const all: Job[] = []
    for (let page: Job[] = []; all.length === 0 || page.length === JOBS_PAGE; all.push(...page)) {
      page = await jobs.list({ isDead, limit: JOBS_PAGE, offset: all.length })
      if (page.length === 0) break
    }
    return all
  })
}

/**
 * Makes a job due now, or deletes it. A running server finds it at its next look.
 * @throws Error when there is no SQL database, or no such job.
 */
export function changeJob(config: Config, kind: JobKind, key: string, how: JobChange): Promise<void> {
  return beside(config, async ({ jobs }, writer) => {
    const parts = { jobs, write: (op: Op) => writer.write(op), changed: jobAudit(auditOf(writer), OPERATOR) }
    if (!(await changeJobIn(parts, kind, key, how))) throw new Error(`There is no ${kind} ${key}`)
  })
}

/**
 * Rewrites the SQLite file without what was deleted.
 * @throws Error when there is none
 */
export async function prune(
  config: Config,
  by: Actor
): Promise<{ readonly bytes_before: number; readonly bytes_after: number }> {
  const { before: bytes_before, after: bytes_after } = await pruneDatabase(config)
  await recorded(config, 'pruned', by, { bytes_before, bytes_after })
  return { bytes_before, bytes_after }
}

/**
 * How much there is that is older than `retention` lets it be; `before` null: it is kept for ever.
 * @throws Error when there is no SQL database.
 */
export function countOld(
  config: Config
): Promise<Record<string, { readonly count: number; readonly before: string | null }>> {
  const days = daysKept(config.retention)
  return beside(config, async ({ retention }) => {
    const counts = RETAINED.map(async (of) => {
      const before = keptSince(days[of])
      return [of, { count: before === null ? 0 : await retention.count(of, before), before }] as const
    })
    return Object.fromEntries(await Promise.all(counts))
  })
}

/**
 * Works on the database of an installation, also beside a running server.
 * @throws Error when there is none
 */
export async function beside<T>(
  config: Config,
  work: (store: Store, writer: Committer) => Promise<T>,
  // Without events, which belong to the server that may be running.
  open: typeof openDatabase = openDatabase
): Promise<T> {
  if (config.database.backend === 'memory')
    throw new Error('database.backend is memory: only the server itself can reach its accounts')
  const { backend, sqlite_path } = config.database
  if (backend === 'sqlite' && !existsSync(sqlite_path))
    throw new Error(`There is no database ${sqlite_path}: name the server's --config or --home`)
  const store = await open(config, () => {}, { onProgress: reportIfSlow })
  const committer = new Committer((groups) => store.apply(groups), { flushMs: 0 })
  try {
    return await work(store, committer)
  } finally {
    committer.stop()
    await store.close()
  }
}

async function accountOf({ users }: Store, email: string) {
  const user = await findAccount(users, email)
  if (!user) throw new Error(missing(email))
  return user
}

function missing(email: string): string {
  return `Nobody has the e-mail address ${email}`
}

/** There are no streams here to notify. */
export function tokensOf(store: Store, writer: Writer): ApiTokens {
  const { apiTokens: reads, users } = scopedStore(store)
  return new ApiTokens({
    reads,
    users,
    writer: scopedWriter(writer),
    log: { warn: () => {} },
    onRevoked: () => {}
  })
}

export { OPERATOR } from '../auth/audit.ts'
