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

/** Too many passwords are being hashed: try later. */
export class HashingBusy extends Error {}

let running = 0
const waiting: (() => void)[] = []

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= AT_ONCE) {
    if (waiting.length >= WAITING_MAX) throw new HashingBusy('too many passwords are being hashed')
    // Whoever is done hands its place over: `running` stays as it is.
    await new Promise<void>((resolve) => waiting.push(resolve))
  } else running++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next) next()
    else running--
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

/** @throws HashingBusy */
export async function hashPassword(password: string): Promise<string> {
  const text = await inTurn(() => bcrypt.hash(digest(password), COST))
  return `2$${text}`
}

/**
 * Whether the password belongs to the hash. A malformed hash belongs to none.
 * @throws HashingBusy
 */
export async function verifyPassword(password: string, hash: string): Promise<boolean> {
  const { version, bare } = versionOf(hash)
  const given = version === 2 ? digest(password) : password
  return inTurn(() => bcrypt.compare(given, bare).catch(() => false))
}

/** Made with a form that is no longer current. */
export function needsRehash(hash: string): boolean {
  return versionOf(hash).version !== 2
}

let decoy: Promise<string> | null = null

/** Takes as long as a wrong password, so that the time does not tell which addresses have an account. */
export async function verifyNothing(password: string): Promise<false> {
  decoy ??= hashPassword('nobody has this password')
  await verifyPassword(password, await decoy)
  return false
}
