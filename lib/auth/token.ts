// Session tokens: signed, with the version of the user's password, and forgotten by themselves.
import { createHash, randomBytes } from 'node:crypto'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errors, jwtVerify, SignJWT } from 'jose'

export const SECRET_FILE = '.jwt_secret'
const DAY_S = 86_400

export interface Claims {
  /** User id. */
  readonly sub: string
  /** token_version of the user when it was issued; missing means 0. */
  readonly ver: number
  /** Seconds since 1970. */
  readonly exp: number
}

/** Why a token is not accepted. */
export type TokenFailure = 'expired' | 'invalid_signature' | 'malformed'

export interface Tokens {
  /** Seconds that a token lives. */
  readonly lifetimeS: number
  issue(user: { readonly id: string; readonly token_version: number }): Promise<string>
  read(token: string): Promise<{ readonly claims: Claims } | { readonly failure: TokenFailure }>
}

/** The key: the configured one, or one of our own that survives restarts. */
export async function openTokens({
  home,
  secret,
  expiryDays
}: {
  home: string
  secret: string | null
  expiryDays: number
}): Promise<Tokens> {
  const key = new TextEncoder().encode(secret ?? (await keptSecret(home)))
  const lifetimeS = expiryDays * DAY_S
  return {
    lifetimeS,
    issue: ({ id, token_version }) =>
      new SignJWT({ ver: token_version })
        .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
        .setSubject(id)
        .setIssuedAt()
        .setExpirationTime(Math.floor(Date.now() / 1000) + lifetimeS)
        .sign(key),
    read: (token) => read(token, key)
  }
}

async function read(token: string, key: Uint8Array): Promise<{ claims: Claims } | { failure: TokenFailure }> {
  try {
    const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], requiredClaims: ['sub', 'exp'] })
    const { sub, exp, ver } = payload
    if (typeof sub !== 'string' || typeof exp !== 'number') return { failure: 'malformed' }
    return { claims: { sub, exp, ver: typeof ver === 'number' ? ver : 0 } }
  } catch (error) {
    if (error instanceof errors.JWTExpired) return { failure: 'expired' }
    if (error instanceof errors.JWSSignatureVerificationFailed) return { failure: 'invalid_signature' }
    if (error instanceof errors.JOSEError) return { failure: 'malformed' }
    throw error
  }
}

/** Reads the secret of this home, or makes it. Two processes that start at once agree: the file is linked, not overwritten. */
async function keptSecret(home: string): Promise<string> {
  const file = join(home, SECRET_FILE)
  const known = await readFile(file, 'utf8').catch(() => '')
  if (known.trim()) return known.trim()
  await mkdir(home, { recursive: true })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  await writeFile(draft, `${randomBytes(48).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' })
  await link(draft, file).catch(() => {})
  await rm(draft, { force: true })
  return (await readFile(file, 'utf8')).trim()
}

/** What is kept of a credential where the credential itself must not be: under this its streams are found. */
export function digestOf(credential: string): string {
  return createHash('sha256').update(credential).digest('hex')
}
