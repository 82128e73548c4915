// Password hashes: made in the current form, read in every form there was.
//
//   v2  `2$` + bcrypt over base64(SHA-256(password))   current; the digest lifts bcrypt's limit of 72 bytes
//   v1  bcrypt over the password, bare or with `1$`
//
// `$dfv2$` and `$dfv1$` are the same versions as another implementation writes them.
import { createHash } from 'node:crypto'
import bcrypt from 'bcrypt'

const COST = 12
/** Longer passwords are refused before any hashing, in bytes. */
export const PASSWORD_BYTES_MAX = 1024
/** Hashes at once: bcrypt runs on the thread pool, which files need as well. */
const AT_ONCE = 2
/** Hashes that may wait; more are refused, because they would time out anyway. */
const WAITING_MAX = 64

const PREFIXES: readonly (readonly [prefix: string, version: 1 | 2])[] = [
  ['$dfv2$', 2],
  ['2$', 2],
  ['$dfv1$', 1],
  ['1$', 1]
]

// Costs above 16 are malformed too: each step doubles the time, and one of 31 would hold its place for days.
const BCRYPT = /^\$2[aby]\$(?:0[4-9]|1[0-6])(\$[./A-Za-z0-9]{53})$/

// The hash of bytes that nobody kept. A constant and not made at the first need, when making it could be refused.
const DECOY = '$2b$12$pTJAgXpJb8PJIR0PtVgDF.sdqd94ClLD6r2WG1XIgBQwWQefU8N9y'

/** Too many passwords are being hashed: try later. */
export class HashingBusy extends Error {
  override readonly name = 'HashingBusy'
}

/** Asked when the turn of a hash has come, before it costs anything; what it throws is the answer. */
export type Gate = () => void

let running = 0
const waiting: (() => void)[] = []

async function inTurn<T>(gate: Gate, work: () => Promise<T>): Promise<T> {
  if (running >= AT_ONCE) {
    if (waiting.length >= WAITING_MAX) throw new HashingBusy('too many passwords are being hashed')
    // Whoever is done hands its place over: `running` stays as it is.
    await new Promise<void>((resolve) => waiting.push(resolve))
  } else running++
  try {
    gate()
    return await work()
  } finally {
    const next = waiting.shift()
    if (next) next()
    else running--
  }
}

const always: Gate = () => {}

function digest(password: string): string {
  return createHash('sha256').update(password).digest('base64')
}

function versionOf(hash: string): { version: 1 | 2; bare: string } {
  for (const [prefix, version] of PREFIXES)
    if (hash.startsWith(prefix)) return { version, bare: hash.slice(prefix.length) }
  return { version: 1, bare: hash }
}

/** The bcrypt text that the library reads, or null for what is none. PHP's `2y` is `2b` by another name. */
function readable(bare: string): string | null {
  return BCRYPT.test(bare) ? bare.replace('$2y$', '$2b$') : null
}

export function isTooLong(password: string): boolean {
  return Buffer.byteLength(password) > PASSWORD_BYTES_MAX
}

/**
 * The hash of a password in the current form.
 * @throws HashingBusy
 * @throws RangeError for a password above PASSWORD_BYTES_MAX: who calls has to refuse it with words for the user
 */
export async function hashPassword(password: string): Promise<string> {
  if (isTooLong(password)) throw new RangeError('a password that is too long was not refused before it was hashed')
  const text = await inTurn(always, () => bcrypt.hash(digest(password), COST))
  return `2$${text}`
}

/**
 * Whether the password belongs to the hash [User 1, 2]. To null (no such user, no password) and to a malformed hash belongs
 * none, and it takes as long as a wrong password, so that the time does not tell which addresses have an account.
 * @param gate a last chance to refuse, by throwing, when the turn has come
 * @throws HashingBusy
 */
export async function verifyPassword(password: string, hash: string | null, gate: Gate = always): Promise<boolean> {
  if (isTooLong(password)) return false
  const { version, bare } = versionOf(hash ?? '')
  const text = readable(bare)
  const given = version === 2 ? digest(password) : password
  const isSame = await inTurn(gate, () => bcrypt.compare(given, text ?? DECOY))
  return isSame && text !== null
}

/** Made with a form that is no longer current [User 3]. */
export function needsRehash(hash: string): boolean {
  return versionOf(hash).version !== 2
}
