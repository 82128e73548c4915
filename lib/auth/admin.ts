// Resets an administrator's password, leaving the new one in a file only the operator of the machine can read [Auth 11].
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { UserReads, Writer } from '../store/store.ts'
import { type Timestamp, timestamp } from '../base/types.ts'
import type { ApiTokens } from './api-tokens.ts'
import { findAccount } from './email.ts'
import { hashPassword } from './password.ts'
import { changeAccount } from './session.ts'

export const CREDENTIALS_FILE = 'admin_initial_credentials.txt'
const PASSWORD_BYTES = 16

/** No such account, or no administrator yet. */
export class NobodyToReset extends Error {
  override readonly name = 'NobodyToReset'
}

interface ResetParts {
  readonly apiTokens: Pick<ApiTokens, 'revokeAll'>
  readonly users: UserReads
  readonly writer: Writer
  readonly home: string
  /** Whose password; null: the first administrator's. */
  readonly email: string | null
}

/** Without the password, which must not reach a terminal or a log. */
export interface Reset {
  readonly email: string
  /** Where the password is. */
  readonly file: string
}

/**
 * Gives an account a random password and leaves it in `<home>/admin_initial_credentials.txt`. Ends all sessions and API tokens of the account
 * and asks it to set itself up again. Works beside a running server.
 * @throws NobodyToReset
 * @throws Error when the file cannot be written; then the old password still holds
 */
export async function resetAdmin({ users, apiTokens, writer, home, email }: ResetParts): Promise<Reset> {
  const user = email === null ? await users.admin() : await findAccount(users, email)
  if (user === null) throw new NobodyToReset(missing(email))
  if (user.system_role !== 'admin') throw new NobodyToReset(`${user.email} is no administrator`)
  const password = randomBytes(PASSWORD_BYTES).toString('base64url')
  const file = join(home, CREDENTIALS_FILE)
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  await mkdir(home, { recursive: true })
  // Written before the account changes, renamed after: whatever fails, the file never names a password that is not valid.
  await writeFile(draft, credentials(user.email, password, timestamp()), { mode: 0o600, flag: 'wx', flush: true })
  try {
    await renew(users, writer, user.id, await hashPassword(password), email)
    // Whoever had the account may have created API tokens.
    await apiTokens.revokeAll(user.id)
    // Replaces the old file instead of overwriting it, which would keep its mode and links.
    await keepOfOther(file, user.email)
    await rename(draft, file)
  } finally {
    await rm(draft, { force: true })
  }
  return { email: user.email, file }
}

/** Removes the files that name this account, which is gone. */
export async function forgetCredentials(home: string, email: string): Promise<void> {
  const names = await readdir(home).catch((): string[] => [])
  for (const name of names.filter((one) => one.startsWith(CREDENTIALS_FILE)))
    if ((await emailIn(join(home, name))) === email) await rm(join(home, name), { force: true })
}

/** Keeps the file of another administrator, who may not have read it yet. */
async function keepOfOther(file: string, email: string): Promise<void> {
  const other = await emailIn(file)
  if (other !== undefined && other !== email) await rename(file, `${file}.${randomBytes(4).toString('hex')}`)
}

async function emailIn(file: string): Promise<string | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return /^email: (.+)$/m.exec(text)?.[1]
}

async function renew(
  users: UserReads,
  writer: Writer,
  id: string,
  password_hash: string,
  email: string | null
): Promise<void> {
  const updated = await changeAccount({ users, writer }, id, () => ({ password_hash, needs_setup: true }))
  // The e-mail address does not change, so it cannot be taken; null: the account is gone [User 4].
  if (updated === null || updated === 'email_taken') throw new NobodyToReset(missing(email))
}

function missing(email: string | null): string {
  return email === null
    ? 'There is no administrator yet: open the service and set it up'
    : `Nobody has the e-mail address ${email}`
}

function credentials(email: string, password: string, now: Timestamp): string {
  return [
    '# Colloquy: credentials after a reset',
    `# ${now}`,
    '# Sign in, choose a password of your own, and delete this file.',
    `email: ${email}`,
    `password: ${password}`,
    ''
  ].join('\n')
}
