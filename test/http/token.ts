// Forged, spoiled and foreign session tokens at the door of a whole gateway: none gets in, and none learns why.
import { createHmac, createSign, generateKeyPairSync } from 'node:crypto'
import t, { type Test } from 'tap'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { type Answer, openSite, Person, signIn, textIn } from '../fixtures/gateway.ts'

const SECRET = 'a-secret-of-the-tests-a-secret-of-the-tests'
const ME = '/api/v1/auth/me'
const now = () => Math.floor(Date.now() / 1000)

/** Does it while the process's clock stands at that time: one at a time, or they would put each other's clocks back. */
async function at<T>(t: Test, time: number, work: () => Promise<T>): Promise<T> {
  const Real = Date
  const restore = () => {
    globalThis.Date = Real
  }
  t.teardown(restore)
  globalThis.Date = class extends Real {
    constructor(value: number | string | Date = time) {
      super(value)
    }
    static override now() {
      return time
    }
  } as DateConstructor
  return work().finally(restore)
}

interface Forging {
  readonly secret?: string
  readonly header?: object
  readonly hash?: string
  /** In place of the right one. */
  readonly signature?: string
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Made by hand: a library would not sign most of these. */
function forge(claims: object, { secret = SECRET, header = {}, hash = 'sha256', signature }: Forging = {}): string {
  const signed = `${encoded({ alg: 'HS256', typ: 'JWT', ...header })}.${encoded(claims)}`
  return `${signed}.${signature ?? createHmac(hash, secret).update(signed).digest('base64url')}`
}

/** Every token that must not be believed, by what is wrong with it; `good` are claims that are right. */
function attacks(good: { sub: string; iat: number; exp: number; ver: number }): Record<string, string> {
  const { sub, iat, exp, ver } = good
  const whole = forge(good)
  const [head, claims, signature = ''] = whole.split('.')
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const rsaSigned = `${encoded({ alg: 'RS256' })}.${encoded(good)}`
  return {
    'alg none': forge(good, { header: { alg: 'none' }, signature: '' }),
    'alg NONE': forge(good, { header: { alg: 'NONE' }, signature: '' }),
    'alg none, signed': forge(good, { header: { alg: 'none' } }),
    'no alg': forge(good, { header: { alg: undefined } }),
    'alg RS256, signed with the secret': forge(good, { header: { alg: 'RS256' } }),
    'alg RS256, signed with a key of its own': `${rsaSigned}.${createSign('sha256').update(rsaSigned).sign(privateKey, 'base64url')}`,
    'alg HS512': forge(good, { header: { alg: 'HS512' }, hash: 'sha512' }),
    'a key that it brings along': forge(good, { secret: 'mine', header: { jwk: { kty: 'oct', k: 'bWluZQ' } } }),
    'another key': forge(good, { secret: 'another-secret-another-secret-another' }),
    'an empty key': forge(good, { secret: '' }).replace(/[^.]+$/, Buffer.alloc(32).toString('base64url')),
    'claims of another': `${head}.${encoded({ ...good, ver: 1 })}.${signature}`,
    'no signature': forge(good, { signature: '' }),
    truncated: whole.slice(0, -4),
    'truncated to two parts': `${head}.${claims}`,
    'a part too many': `${whole}.${signature}`,
    '10 KB of letters': 'x'.repeat(10_000),
    '10 KB of dots': '.'.repeat(10_000),
    '10 KB of claims, signed with another key': forge({ ...good, pad: 'x'.repeat(7_000) }, { secret: 'other' }),
    'a head that must be understood': forge(good, { header: { crit: ['x'], x: 1 } }),
    'a body that is not encoded': forge(good, { header: { crit: ['b64'], b64: false } }),
    'no sub': forge({ iat, exp, ver }),
    'an empty sub': forge({ ...good, sub: '' }),
    'a sub that is a list': forge({ ...good, sub: [sub] }),
    'no exp': forge({ sub, iat, ver }),
    'an exp that is a text': forge({ ...good, exp: 'never' }),
    'issued in the future': forge({ ...good, iat: iat + 3600, exp: exp + 3600 }),
    'not valid yet': forge({ ...good, nbf: iat + 3600 }),
    'an iat that is a text': forge({ ...good, iat: 'yesterday' }),
    'the version of another password': forge({ ...good, ver: ver + 1 }),
    'a version that is a text': forge({ ...good, ver: String(ver) }),
    'claims that are a list': forge([good]),
    'claims that are null': `${head}.${Buffer.from('null').toString('base64url')}.${signature}`,
    'text that is no JSON': `${head}.${Buffer.from('{').toString('base64url')}.${signature}`,
    empty: '',
    blank: '%20'
  }
}

onEachBackend(
  t,
  '[Auth 3] no forged, spoiled or foreign token gets in: 401 token_invalid with the one message, on every kind of route',
  async (t, backend) => {
    const site = await openSite(t, {
      config: { database: await databaseSection(t, backend), auth: { jwt_secret: SECRET } }
    })
    const person = await signIn(site)
    const sub = textIn((await person.get(ME)).body, 'id')
    const good = { sub, iat: now(), exp: now() + 600, ver: 0 }
    const nobody = new Person(site.url)
    const ask = (token: string, path = ME): Promise<Answer> =>
      nobody.get(path, { headers: { cookie: `access_token=${token}` } })
    t.equal((await ask(forge(good))).status, 200, 'the forger knows the trade')
    // An empty sub is a user that nobody is: the store says so, and not the reader of tokens.
    const { 'an empty sub': emptySub, ...spoiled } = attacks(good)
    for (const [what, token] of Object.entries(spoiled)) {
      for (const path of [ME, '/api/threads/any/state', '/api/no/such/path']) {
        const answer = await ask(token, path)
        t.equal(answer.status, 401, `${what}: ${path}`)
        t.strictSame(
          answer.body,
          { detail: { code: 'token_invalid', message: 'Invalid token' }, message: 'Invalid token' },
          what
        )
      }
    }
    t.match(await ask(emptySub ?? ''), { status: 401, body: { detail: { code: 'user_not_found' } } })
    const joined = await ask(`${forge(good)}; access_token=junk`)
    t.equal(joined.status, 200, 'of two cookies with one name the first counts')
  }
)

onEachBackend(
  t,
  '[Auth 3] an expired token is token_expired and one of a user who is gone user_not_found, in words that tell no more',
  async (t, backend) => {
    const site = await openSite(t, {
      config: { database: await databaseSection(t, backend), auth: { jwt_secret: SECRET } }
    })
    const ask = (token: string) =>
      new Person(site.url)
        .get(ME, { headers: { cookie: `access_token=${token}` } })
        .then(({ status, body }) => [status, body])
    const sub = textIn((await (await signIn(site)).get(ME)).body, 'id')
    const claims = { sub, iat: now() - 100, ver: 0 }
    const expired = [401, { detail: { code: 'token_expired', message: 'Invalid token' }, message: 'Invalid token' }]
    t.strictSame(await ask(forge({ ...claims, exp: now() - 1 })), expired)
    const exp = now() + 10
    const short = forge({ ...claims, exp })
    // No answer comes within a time that a test could know: the clock waits for it.
    const before = await at(t, exp * 1000 - 1, () => ask(short))
    t.equal(before[0], 200)
    t.strictSame(await at(t, exp * 1000, () => ask(short)), expired, 'from the second on in which it expires')
    t.strictSame(await ask(forge({ ...claims, sub: 'nobody', exp: now() + 60 })), [
      401,
      { detail: { code: 'user_not_found', message: 'User not found' }, message: 'User not found' }
    ])
    t.strictSame(
      await ask(forge({ ...claims, exp: now() - 1 }, { secret: 'another' })),
      [401, { detail: { code: 'token_invalid', message: 'Invalid token' }, message: 'Invalid token' }],
      'what is not signed by us does not even expire'
    )
  }
)
