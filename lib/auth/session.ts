// Sessions: resolves the token in a cookie to its user, revokes sessions, and handles API tokens as an alternative.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { LRUCache } from 'lru-cache'
import { Failure, warnUnexpected } from '../base/errors.ts'
import type { UserReads, Writer } from '../store/store.ts'
import type { Grant, Principal, User } from '../base/accounts.ts'
import { timestamp } from '../base/types.ts'
import { keptLine } from '../files/kept-line.ts'
import { openSeal, type Seal } from './seal.ts'

// ----------------------------- Session tokens: signed, with the user's token_version, and expiring by themselves

export const SECRET_FILE = '.jwt_secret'
const SECRET_BYTES = 48
const DAY_S = 86_400
/** Clock skew allowed between machines with one secret, in seconds. */
const CLOCK_SKEW_S = 60

interface Claims {
  /** User id. */
  readonly sub: string
  /** token_version of the user when it was issued; missing means 0. */
  readonly ver: number
  /** Seconds since 1970. */
  readonly exp: number
  /** False: the browser should forget the session when it closes. */
  readonly remember: boolean
}

/** What was revoked: one credential, by digest, or all of a user. */
export type Revocation = { readonly digest: string } | { readonly userId: string }

type TokenFailure = 'expired' | 'invalid_signature' | 'malformed'
type TokenReading = { readonly claims: Claims } | { readonly failure: TokenFailure }

export interface Tokens {
  /** Fingerprint of the secret. */
  readonly fingerprint: string
  /** Lifetime of a token in seconds. */
  readonly lifetimeS: number
  /** Encrypts by the same secret. */
  readonly seal: Seal
  /** Issues a token, unique even for the same user in the same second. `remember` is only passed on. */
  issue(
    user: { readonly id: string; readonly token_version: number },
    how?: { readonly remember: boolean }
  ): Promise<string>
  read(token: string): Promise<TokenReading>
}

/**
 * Signs with the configured secret, or with a generated one that survives restarts.
 * @throws Error when the file of the generated one cannot be read or created
 */
export async function openTokens(options: {
  home: string
  secret: string | null
  expiryDays: number
}): Promise<Tokens> {
  const key = new TextEncoder().encode(options.secret ?? (await keptSecret(options.home)))
  const known = new Verified()
  const lifetimeS = options.expiryDays * DAY_S
  return {
    fingerprint: createHash('sha256').update('fingerprint of a secret:').update(key).digest('hex').slice(0, 16),
    lifetimeS,
    seal: openSeal(key),
    issue({ id, token_version }, { remember } = { remember: true }) {
      const now = Math.floor(Date.now() / 1000)
      return (
        new SignJWT({ ver: token_version, ...(!remember && { remember }) })
          .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
          .setSubject(id)
          .setIssuedAt(now)
          .setExpirationTime(now + lifetimeS)
          // A unique id: otherwise two sign-ins within a second would be one credential.
          .setJti(randomUUID())
          .sign(key)
      )
    },
    async read(token) {
      const digest = digestOf(token)
      const claims = known.find(digest)
      if (claims) return { claims }
      const found = await read(token, key)
      if ('claims' in found) known.add(digest, found.claims)
      return found
    }
  }
}

/** Maximum verified tokens to remember: more than are active at a time. */
const VERIFIED_MAX = 10_000

/**
 * Cache of tokens with a verified signature: verifying goes through the thread pool, the most expensive part of a small request. Whether the
 * session was revoked is still looked up in the store each time [Auth 3].
 */
class Verified {
  /** By digest. */
  readonly #claims = new LRUCache<string, Claims>({ max: VERIFIED_MAX })

  find(digest: string): Claims | null {
    const claims = this.#claims.get(digest)
    if (claims === undefined || claims.exp > Math.floor(Date.now() / 1000)) return claims ?? null
    this.#claims.delete(digest)
    return null
  }

  add(digest: string, claims: Claims): void {
    this.#claims.set(digest, claims)
  }
}

async function read(token: string, key: Uint8Array): Promise<TokenReading> {
  if (!hasOneSpelling(token)) return { failure: 'malformed' }
  try {
    const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], requiredClaims: ['sub', 'exp'] })
    const claims = claimsOf(payload)
    return claims ? { claims } : { failure: 'malformed' }
  } catch (error) {
    if (error instanceof errors.JWTExpired) return { failure: 'expired' }
    if (error instanceof errors.JWSSignatureVerificationFailed) return { failure: 'invalid_signature' }
    if (error instanceof errors.JOSEError) return { failure: 'malformed' }
    throw error
  }
}

/**
 * base64url has several texts for the same bytes (spare bits, padding, blanks). Header and claims are signed as text, the signature is
 * not: with another spelling a revoked token would have another digest.
 */
function hasOneSpelling(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return Buffer.from(signature, 'base64url').toString('base64url') === signature
}

function claimsOf({ sub, iat = 0, exp, ver = 0, remember }: JWTPayload): Claims | null {
  if (typeof sub !== 'string' || typeof exp !== 'number' || typeof ver !== 'number') return null
  // Issued in the future: made for later use, or a wrong clock.
  if (iat > Date.now() / 1000 + CLOCK_SKEW_S) return null
  return { sub, exp, ver, remember: remember !== false }
}

/** The secret of this home, generated if there is none. */
function keptSecret(home: string): Promise<string> {
  return keptLine(join(home, SECRET_FILE), () => randomBytes(SECRET_BYTES).toString('base64url'))
}

/** Digest of a credential, by which its streams are found without storing it. */
export function digestOf(credential: string): string {
  return createHash('sha256').update(credential).digest('hex')
}

interface SessionParts {
  readonly users: UserReads
  readonly tokens: Tokens
  readonly writer: Writer
  readonly log: { warn(fields: object, text: string): void }
  /** Called when a revocation is stored: affected streams must be checked. Must not throw. */
  readonly onRevoked: (revocation: Revocation) => void
}

/** Precision of a session's last use: a write a request would cost more than most requests. */
const USE_MS = 600_000
/** Sessions whose last use is remembered. */
const USED_MAX = 10_000
const DEVICE_LENGTH_MAX = 200

const CODES: Readonly<Record<TokenFailure, 'token_expired' | 'token_invalid'>> = {
  expired: 'token_expired',
  invalid_signature: 'token_invalid',
  malformed: 'token_invalid'
}

export type AccountChange = Partial<Pick<User, 'password_hash' | 'email' | 'needs_setup'>>

/**
 * Changes an account and raises its token_version, which ends its sessions; null: there is no such account. `change` is asked again where
 * another process was first, and may throw to refuse what it finds then.
 */
export async function changeAccount(
  { users, writer }: { readonly users: Pick<UserReads, 'byId'>; readonly writer: Writer },
  id: string,
  change: (now: User) => AccountChange
): Promise<User | 'email_taken' | null> {
  for (;;) {
    const now = await users.byId(id)
    if (now === null) return null
    const { token_version: ifVersion } = now
    const set = { ...change(now), token_version: ifVersion + 1 }
    const updated = await writer.write({ name: 'user.update', id, set, ifVersion })
    if (updated !== 'changed') return updated
  }
}

/** A session that was opened by a process that did not list them. */
const UNKNOWN = { device: null, address: null } as const

export class Sessions {
  readonly #parts: SessionParts
  /** Digests of sessions whose use was recorded a little while ago. */
  readonly #used = new LRUCache<string, true>({ max: USED_MAX, ttl: USE_MS })

  constructor(parts: SessionParts) {
    this.#parts = parts
  }

  /**
   * Issues the token of a new session, and lists it among its user's.
   * @param device what the browser calls itself
   */
  async open(
    user: User,
    {
      remember,
      device,
      address
    }: { readonly remember: boolean; readonly device: string | null; readonly address: string }
  ): Promise<string> {
    const token = await this.#parts.tokens.issue(user, { remember })
    const expires = Math.floor(Date.now() / 1000) + this.#parts.tokens.lifetimeS
    const from = { device: device?.slice(0, DEVICE_LENGTH_MAX) ?? null, address }
    await this.#noteUse({ userId: user.id, digest: digestOf(token), version: user.token_version, expires }, from)
    return token
  }

  /** Records a use, now and then. Never rejects: a session is good without its row. */
  async #noteUse(
    { userId, digest, version, expires }: Pick<Grant, 'userId' | 'digest' | 'version'> & { readonly expires: number },
    from: { readonly device: string | null; readonly address: string | null }
  ): Promise<void> {
    const at = Date.now()
    this.#used.set(digest, true)
    const now = timestamp(at)
    const session = {
      digest,
      user_id: userId,
      created_at: now,
      last_used_at: now,
      expires: Math.ceil(expires),
      ...from
    }
    try {
      await this.#parts.writer.write({ name: 'session.use', session, version, now: Math.floor(at / 1000) })
    } catch (error) {
      this.#parts.log.warn({ err: error, user_id: userId }, 'the use of a session could not be recorded')
    }
  }

  /**
   * Validates a token. Reads the user's row each time, so that a password change takes effect at once [Auth 3].
   * @throws Failure token_expired, token_invalid, token_revoked, user_not_found
   */
  async authenticate(token: string): Promise<Principal> {
    const found = await this.#parts.tokens.read(token)
    if ('failure' in found) throw new Failure(CODES[found.failure])
    const { sub, ver, exp } = found.claims
    const digest = digestOf(token)
    const user = await this.#parts.users.ofSession(sub, digest)
    if (user === null) throw new Failure('user_not_found')
    if (user === 'denied' || user.token_version !== ver) throw new Failure('token_revoked')
    if (!this.#used.has(digest))
      this.#noteUse({ userId: sub, digest, version: ver, expires: exp }, UNKNOWN).catch(warnUnexpected)
    return { user, grant: { kind: 'session', userId: sub, digest, version: ver, expires: exp, permissions: null } }
  }

  /** Whether a session is still valid, for open streams. One query. */
  async isValid({ userId, digest, version }: Grant): Promise<boolean> {
    const user = await this.#parts.users.ofSession(userId, digest)
    return user !== null && user !== 'denied' && user.token_version === version
  }

  /**
   * Revokes a token until it would have expired, and closes its streams. Ignores anything else. Resolves when that is stored, with the id of its
   * user; null: it was no session that stood.
   */
  async logout(token: string): Promise<string | null> {
    const found = await this.#parts.tokens.read(token)
    if ('failure' in found) return null
    const digest = digestOf(token)
    const { sub, ver, exp } = found.claims
    const user = await this.#parts.users.ofSession(sub, digest)
    await this.end(digest, Math.ceil(exp))
    return user !== null && user !== 'denied' && user.token_version === ver ? user.id : null
  }

  /** The same of a session whose token is not at hand. `expires` in Unix seconds. */
  async end(digest: string, expires: number): Promise<void> {
    await this.#parts.writer.write({ name: 'session.deny', digest, expires, now: Math.floor(Date.now() / 1000) })
    this.#parts.onRevoked({ digest })
  }

  /** Announces that all sessions of a user were revoked: call after the raised token_version is committed. */
  revokeUser(userId: string): void {
    this.#parts.onRevoked({ userId })
  }
}
