// Session tokens: what is in them, which ones are accepted, and the secret they are signed with.
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeJwt, decodeProtectedHeader, type JWTPayload, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { digestOf, openTokens, SECRET_FILE } from '../../lib/auth/session.ts'

const SECRET = 'a-secret-of-the-tests-a-secret-of-the-tests'
const USER = { id: '0b9a1f0e-6f53-4e0a-9f0e-0d9f8d6f1a11', token_version: 3 }
const now = () => Math.floor(Date.now() / 1000)

function homeOf(t: Test): string {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-token-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  return home
}

const open = (home: string, secret: string | null = null) => openTokens({ home, secret, expiryDays: 7 })
const withSecret = () => open('/nowhere', SECRET)

function sign(claims: JWTPayload, { secret = SECRET, alg = 'HS256' } = {}): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg }).sign(new TextEncoder().encode(secret))
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

t.test('[Auth 1] [Auth 14] a token is a JWT: HS256, the user, seven days, the version of the password', async (t) => {
  const tokens = await withSecret()
  const token = await tokens.issue(USER)
  t.match(decodeProtectedHeader(token), { alg: 'HS256' })
  const { sub, iat = 0, exp = 0, ver } = decodeJwt(token)
  t.strictSame({ sub, ver }, { sub: USER.id, ver: 3 })
  t.equal(exp - iat, 7 * 86_400)
  t.equal(tokens.lifetimeS, 7 * 86_400)
  t.ok(Math.abs(iat - now()) < 60)
  t.strictSame(await tokens.read(token), { claims: { sub: USER.id, ver: 3, exp, remember: true } })
})

t.test('two tokens of one user are two credentials, also within one second', async (t) => {
  const tokens = await withSecret()
  const issued = await Promise.all(Array.from({ length: 5 }, () => tokens.issue(USER)))
  t.equal(new Set(issued.map(digestOf)).size, 5)
})

t.test('a token remembers whether the browser is to keep it', async (t) => {
  const tokens = await withSecret()
  const brief = await tokens.issue(USER, { remember: false })
  t.match(await tokens.read(brief), { claims: { sub: USER.id, remember: false } })
})

t.test('a token without ver is of version 0', async (t) => {
  const tokens = await withSecret()
  t.match(await tokens.read(await sign({ sub: 'u', exp: now() + 60 })), { claims: { sub: 'u', ver: 0 } })
})

t.test('[Auth 3] the failures of a token are a closed set: expired, invalid_signature, malformed', async (t) => {
  const tokens = await withSecret()
  const good = { sub: 'u', exp: now() + 60, ver: 0 }
  const token = await tokens.issue(USER)
  const [head, claims, signature] = token.split('.')
  // What a careless cast in the service would let through: claims of other types.
  const odd = (claims: object) => sign(claims as JWTPayload)
  const failing = {
    expired: [await sign({ ...good, exp: now() - 1 })],
    invalid_signature: [
      await sign(good, { secret: `${SECRET}x` }),
      `${head}.${encoded({ ...good, sub: 'somebody else' })}.${signature}`,
      `${head}.${claims}.${Buffer.alloc(32).toString('base64url')}`,
      `${head}.${claims}.`
    ],
    malformed: [
      '',
      ' ',
      'junk',
      'a.b.c',
      '.'.repeat(10),
      'x'.repeat(4000),
      'null',
      `${token}.${signature}`,
      `${encoded({ alg: 'none' })}.${encoded(good)}.`,
      `${encoded({ alg: 'none' })}.${claims}.${signature}`,
      await sign(good, { alg: 'HS384' }),
      await sign(good, { alg: 'HS512' }),
      await sign({ exp: now() + 60 }),
      await sign({ sub: 'u' }),
      await sign({ ...good, nbf: now() + 3600 }),
      await sign({ ...good, iat: now() + 3600 }),
      await odd({ ...good, sub: 1 }),
      await odd({ ...good, exp: 'never' }),
      await odd({ ...good, ver: '0' }),
      await odd({ ...good, ver: null })
    ]
  }
  for (const [failure, list] of Object.entries(failing))
    for (const [index, one] of list.entries())
      t.strictSame(await tokens.read(one), { failure }, `${failure} ${index}: ${one.slice(0, 40)}`)
})

t.test(
  'a token has one spelling: what decodes to the same signature is refused, or a logout could be undone',
  async (t) => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const tokens = await withSecret()
    const token = await tokens.issue(USER)
    const last = alphabet.indexOf(token.at(-1) ?? '')
    const twins = [1, 2, 3].map((bits) => token.slice(0, -1) + alphabet[last ^ bits])
    const spaced = [`${token}=`, `${token} `, `${token}\n`, `${token.slice(0, -5)} ${token.slice(-5)}`]
    for (const twin of [...twins, ...spaced])
      t.match(await tokens.read(twin), { failure: String }, JSON.stringify(twin.slice(-8)))
    t.match(await tokens.read(token), { claims: { sub: USER.id } })
  }
)

t.test('the digest of a credential is the SHA-256 of its text in hex', async (t) => {
  t.equal(digestOf('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

t.test(
  'without a configured secret one is kept in the home, for nobody else to read, and tokens survive a restart',
  async (t) => {
    const home = join(homeOf(t), 'made', 'on', 'demand')
    const token = await (await open(home)).issue(USER)
    t.match(await (await open(home)).read(token), { claims: { sub: USER.id } })
    t.equal(statSync(join(home, SECRET_FILE)).mode & 0o777, 0o600)
    t.strictSame(readdirSync(home), [SECRET_FILE], 'no draft is left')
    t.ok(readFileSync(join(home, SECRET_FILE), 'utf8').trim().length >= 43)
  }
)

t.test('two homes have two secrets, and a configured secret leaves no file', async (t) => {
  const [one, other, third] = [homeOf(t), homeOf(t), homeOf(t)]
  const token = await (await open(one)).issue(USER)
  t.strictSame(await (await open(other)).read(token), { failure: 'invalid_signature' })
  await open(third, SECRET)
  t.strictSame(readdirSync(third), [])
})

t.test('processes that start at once on a new home agree on one secret', async (t) => {
  const home = homeOf(t)
  const all = await Promise.all(Array.from({ length: 8 }, () => open(home)))
  const token = await (await open(home)).issue(USER)
  for (const tokens of all) t.match(await tokens.read(token), { claims: { sub: USER.id } })
  t.strictSame(readdirSync(home), [SECRET_FILE])
})

t.test('an empty secret file, as a power loss leaves it, is replaced instead of locking everybody out', async (t) => {
  const home = homeOf(t)
  writeFileSync(join(home, SECRET_FILE), '\n')
  const token = await (await open(home)).issue(USER)
  t.match(await (await open(home)).read(token), { claims: { sub: USER.id } })
  t.equal(statSync(join(home, SECRET_FILE)).mode & 0o777, 0o600)
})

t.test('a secret file that others may read is closed to them', async (t) => {
  const home = homeOf(t)
  await open(home)
  chmodSync(join(home, SECRET_FILE), 0o644)
  await open(home)
  t.equal(statSync(join(home, SECRET_FILE)).mode & 0o777, 0o600)
})

t.test('a secret that is there and cannot be read is an error, not a new secret', async (t) => {
  const home = homeOf(t)
  mkdirSync(join(home, SECRET_FILE))
  await t.rejects(open(home), { code: 'EISDIR' })
})
