// Password hashes: written in the current version, verified in every version.
//
//   v2  `2$` + bcrypt over base64(SHA-256(password))   current; the digest lifts bcrypt's limit of 72 bytes
//   v1  bcrypt over the password, bare or with `1$`
//
// `$dfv2$` and `$dfv1$` are the same versions, as another implementation writes them.
import { createHash } from 'node:crypto'
import bcrypt from 'bcrypt'
import { KeyedMutex, MutexBusy } from '../base/keyed-mutex.ts'

const COST = 12
/** Longer passwords are refused before any hashing, in bytes. */
export const PASSWORD_BYTES_MAX = 1024
/**
 * Verifying and hashing have separate queues, so that a flood of registrations does not delay sign-ins; in each, addresses take
 * turns. Few run at once, because bcrypt uses the thread pool, which files need too. An address can queue no more than can be
 * answered before its clients give up.
 */
const LOOKING = new KeyedMutex({ all: 2, each: 2, waiting: 256, waitingEach: 64 })
const MAKING = new KeyedMutex({ all: 1, each: 1, waiting: 256, waitingEach: 64 })

const PREFIXES: readonly (readonly [prefix: string, version: 1 | 2])[] = [
  ['$dfv2$', 2],
  ['2$', 2],
  ['$dfv1$', 1],
  ['1$', 1]
]

// Costs above 16 count as malformed: each step doubles the time, and 31 would take days.
const BCRYPT = /^\$2[aby]\$(?:0[4-9]|1[0-6])(\$[./A-Za-z0-9]{53})$/

// The hash of random bytes nobody kept. A constant, because making one on first use could be refused.
const DECOY = '$2b$12$pTJAgXpJb8PJIR0PtVgDF.sdqd94ClLD6r2WG1XIgBQwWQefU8N9y'

/** Too many passwords are being hashed. */
export class HashingBusy extends Error {
  override readonly name = 'HashingBusy'
}

interface HashingTurn {
  /** The client's address. Default: this process itself. */
  readonly address?: string
  /** Called right before hashing; may throw to refuse. */
  readonly lastCheck?: () => void
}

async function inTurn<T>(
  turns: KeyedMutex,
  { address = '', lastCheck }: HashingTurn,
  work: () => Promise<T>
): Promise<T> {
  const leave = await turns.enter(address).catch((error: unknown) => {
    throw error instanceof MutexBusy ? new HashingBusy('too many passwords are being hashed') : error
  })
  try {
    lastCheck?.()
    return await work()
  } finally {
    leave()
  }
}

function digest(password: string): string {
  return createHash('sha256').update(password).digest('base64')
}

function versionOf(hash: string): { version: 1 | 2; bare: string } {
  for (const [prefix, version] of PREFIXES)
    if (hash.startsWith(prefix)) return { version, bare: hash.slice(prefix.length) }
  return { version: 1, bare: hash }
}

/** The hash in the form the library reads; null: malformed. PHP's `2y` is `2b` by another name. */
function readable(bare: string): string | null {
  return BCRYPT.test(bare) ? bare.replace('$2y$', '$2b$') : null
}

export function isTooLong(password: string): boolean {
  return Buffer.byteLength(password) > PASSWORD_BYTES_MAX
}

/**
 * Hashes a password in the current version.
 * @throws HashingBusy
 * @throws RangeError above PASSWORD_BYTES_MAX: callers refuse that with a message for the user
 */
export async function hashPassword(password: string, turn: HashingTurn = {}): Promise<string> {
  if (isTooLong(password)) throw new RangeError('a password that is too long was not refused before it was hashed')
  const text = await inTurn(MAKING, turn, () => bcrypt.hash(digest(password), COST))
  return `2$${text}`
}

/**
 * Whether the password matches the hash [User 1, 2]. Null (no such user, no password) and malformed hashes match nothing, and take as
 * long as a wrong password, so that the time does not reveal which addresses have an account.
 * @throws HashingBusy
 */
export async function verifyPassword(password: string, hash: string | null, turn: HashingTurn = {}): Promise<boolean> {
  if (isTooLong(password)) return false
  const { version, bare } = versionOf(hash ?? '')
  const text = readable(bare)
  const given = version === 2 ? digest(password) : password
  const isSame = await inTurn(LOOKING, turn, () => bcrypt.compare(given, text ?? DECOY))
  return isSame && text !== null
}

/** The hash is of an older version [User 3]. */
export function needsRehash(hash: string): boolean {
  return versionOf(hash).version !== 2
}

// -------------------------------------------------------------------------------------------------------- common ones

export const COMMON_PASSWORDS: readonly string[] = `
  password password1 password12 password123 password1234 12345678 123456789 1234567890 qwerty12 qwertyui qwerty123
  abc12345 abcd1234 iloveyou letmein1 welcome1 welcome123 admin123 administrator passw0rd p@ssw0rd monkey12
  trustno1 sunshine princess football baseball superman batman123 starwars dragon123 master123 shadow12 michael1
  jennifer computer
`
  .trim()
  .split(/\s+/)

const COMMON: ReadonlySet<string> = new Set(COMMON_PASSWORDS)

/** Case-insensitive. Nothing else is normalised. */
export function isCommon(password: string): boolean {
  return COMMON.has(password.toLowerCase())
}
