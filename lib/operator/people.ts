// What `colloquy user` does: invitations, roles, sessions, export and deletion, as by the routes of administrators, with the operator as
// actor in the audit log.
import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { exportOf } from '../auth/account-export.ts'
import { Paths } from '../files/paths.ts'
import { openStore } from '../store/open.ts'
import { type Actor, OPERATOR, userName } from '../auth/audit.ts'
import { isCommon, PASSWORD_BYTES_MAX } from '../auth/password.ts'
import { readEmail } from '../auth/email.ts'
import { Invitations } from '../auth/api-tokens.ts'
import { type NewAccount, People } from '../auth/people.ts'
import type { Config } from '../config/config.ts'
import { departureOf } from '../jobs/departures.ts'
import { passwordMailOf } from '../jobs/password-mails.ts'
import { scopedStore, scopedWriter } from '../store/scoped.ts'
import type { AuditSearch, Store, Writer } from '../store/store.ts'
import type { AuditEntry, User } from '../base/accounts.ts'
import { newestJson } from '../thread/state.ts'
import { auditOf, beside, tokensOf } from './operator.ts'

const PASSWORD_MIN = 8
const DAY_MS = 86_400_000

/**
 * Works with the accounts of an installation, also beside a running server, which finds out at its next look.
 * @throws Error when there is no SQL database, and Failures of People
 */
export function withPeople<T>(config: Config, work: (people: People, by: Actor) => Promise<T>): Promise<T> {
  return beside(config, (store, writer) => work(peopleOf(config, store, writer), OPERATOR))
}

function peopleOf({ home }: Config, store: Store, writer: Writer): People {
  return new People({
    store: scopedStore(store),
    writer: scopedWriter(writer),
    apiTokens: tokensOf(store, writer),
    audit: auditOf(writer),
    home,
    departureOf,
    passwordMailOf,
    onRevoked: () => {}
  })
}

/**
 * Writes all that is kept of somebody to a new file, a ZIP archive that only its owner may read.
 * @throws Error when there is such a file already, or no SQL database
 */
export async function exportAccount(config: Config, user: User, file: string, by: Actor): Promise<void> {
  const folderOf = (userId: string) => new Paths(config.home).userDir(userId)
  await beside(
    config,
    async (store, writer) => {
      const archive = await exportOf({ store, stateOf: (id) => newestJson(store, id), folderOf }, user)
      await pipeline(archive, createWriteStream(file, { flags: 'wx', mode: 0o600 }))
      await auditOf(writer).record('account_exported', by, userName(user.id))
    },
    openStore
  )
}

/**
 * An account as it is to be made.
 * @throws Error that says what is wrong with the address or the password
 */
export function newAccount(email: string, role: NewAccount['role'], password: string | null): NewAccount {
  if (role === 'service') {
    if (!/^[a-z0-9][a-z0-9._-]{0,62}$/.test(email))
      throw new Error('A service account has a name of small letters, digits, . _ and -')
    return { email, role, password: null }
  }
  const read = readEmail(email)
  if ('problem' in read) throw new Error(read.problem)
  if (password !== null) checkPassword(password)
  return { email: read.email, role, password }
}

/** @throws Error that says what is wrong with it [Auth 8] */
export function checkPassword(password: string): void {
  if ([...password].length < PASSWORD_MIN) throw new Error(`A password has at least ${PASSWORD_MIN} characters`)
  if (Buffer.byteLength(password) > PASSWORD_BYTES_MAX)
    throw new Error(`A password has at most ${PASSWORD_BYTES_MAX} bytes`)
  if (isCommon(password)) throw new Error('The password is too common')
}

/**
 * An invitation in the name of the first administrator.
 * @throws Error when there is no SQL database, or no administrator
 */
export function invite(
  config: Config,
  name: string,
  days: number
): Promise<{ text: string; expires_at: string | null }> {
  return beside(config, async (store, writer) => {
    const admin = await store.users.admin()
    if (admin === null) throw new Error('There is no administrator yet: open the service and set it up')
    const invitations = new Invitations(scopedStore(store).apiTokens, scopedWriter(writer))
    const { token, text } = await invitations.create({ user_id: admin.id, name, lifetimeMs: days * DAY_MS })
    await auditOf(writer).record('invitation_created', OPERATOR, `invitation:${token.token_id}`)
    return { text, expires_at: token.expires_at }
  })
}

/**
 * Lines of the audit, newest first.
 * @param userId only what this account did, and what was done to it
 * @throws Error when there is no SQL database
 */
export function listAudit(
  config: Config,
  search: Omit<AuditSearch, 'about'>,
  userId: string | null
): Promise<AuditEntry[]> {
  const about = userId === null ? {} : { about: userName(userId) }
  return beside(config, ({ audit }) => audit.list({ ...search, ...about }))
}

export { type People, sessionIdOf } from '../auth/people.ts'
export { type Actor, AUDIT_ACTIONS } from '../auth/audit.ts'
