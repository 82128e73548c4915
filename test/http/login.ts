// Login: signing in and out, the lock after failures, and hashes that are renewed on the way.
import t from 'tap'
import bcrypt from 'bcrypt'
import { createHash } from 'node:crypto'
import { verifyPassword } from '../../lib/auth/password.ts'
import { digestOf } from '../../lib/auth/session.ts'
import type { Store, UserReads, Writer } from '../../lib/store/store.ts'
import { aUser, write } from '../contract/harness.ts'
import { onEachBackend } from '../fixtures/backends.ts'
import {
  addLegacyUser,
  Browser,
  cookiesOf,
  LEGACY,
  legacyHash,
  openHouse,
  PASSWORD,
  refusal,
  statuses
} from '../fixtures/house.ts'

onEachBackend(t, '[Auth 1] [Auth 14] register signs in: 201, the account, and both cookies', async (t, backend) => {
  const house = await openHouse(t, { backend })
  const browser = new Browser(house)
  const answer = await browser.register(' Ann@Example.COM ')
  t.match(answer, { status: 201, body: { email: 'ann@example.com', system_role: 'user', needs_setup: false } })
  t.notMatch(answer.text, /password|hash|\$2b/)
  const cookies = cookiesOf(answer)
  t.match(cookies.get('access_token'), /^access_token=[^;]+; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax$/)
  t.match(cookies.get('csrf_token'), /^csrf_token=[\w-]{86}; Path=\/; Max-Age=604800; SameSite=Strict$/)
  t.strictSame((await browser.me()).body, answer.body)
})

t.test('login takes a form, or JSON with username or email; missing fields are named', async (t) => {
  const house = await openHouse(t)
  await new Browser(house).register('ann@example.com')
  const browser = new Browser(house)
  t.match(await browser.login('  ANN@example.com'), { status: 200, body: { expires_in: 604800, needs_setup: false } })
  for (const name of ['username', 'email']) {
    const answer = await new Browser(house).ask('POST', '/login/local', {
      [name]: 'ann@example.com',
      password: PASSWORD
    })
    t.equal(answer.status, 200, name)
    t.notOk(answer.text.includes('eyJ'), 'no token in the body')
  }
  const missing = await new Browser(house).ask('POST', '/login/local', {})
  t.equal(missing.status, 422)
  for (const field of ['username', 'password'])
    t.ok(missing.text.includes(JSON.stringify({ type: 'missing', loc: ['body', field], msg: 'Field required' })), field)
})

t.test('login says the same for an unknown address, a wrong password and an account without one', async (t) => {
  const house = await openHouse(t)
  await new Browser(house).register('ann@example.com')
  await write(house.store, { name: 'user.create', user: aUser({ email: 'oauth@example.com', password_hash: null }) })
  const answers = []
  for (const name of ['nobody@example.com', 'ann@example.com', 'oauth@example.com', 'no address'])
    answers.push(await new Browser(house).login(name, 'not-this-one-1'))
  for (const answer of answers) {
    t.match(answer, refusal(401, 'invalid_credentials'))
    t.equal(answer.text, answers[0]?.text)
  }
})

t.test(
  'a new csrf_token comes with every answer of login, register, initialize and logout, refusals too',
  async (t) => {
    const house = await openHouse(t)
    const seen = new Set<string | undefined>()
    for (const [path, body, status] of [
      ['/login/local', { username: 'a@example.com', password: 'x' }, 401],
      ['/login/local', {}, 422],
      ['/register', { email: 'a', password: 'short' }, 422],
      ['/initialize', {}, 422],
      ['/initialize', { email: 'boss@example.com', password: PASSWORD }, 201],
      ['/initialize', { email: 'boss@example.com', password: PASSWORD }, 409],
      ['/register', { email: 'boss@example.com', password: PASSWORD }, 400]
    ] as const) {
      const answer = await new Browser(house).ask('POST', path, body)
      t.equal(answer.status, status, path)
      t.match(cookiesOf(answer).get('csrf_token'), /^csrf_token=[\w-]{86};/, `${path} ${status}`)
      seen.add(cookiesOf(answer).get('csrf_token'))
    }
    t.equal(seen.size, 7, 'another one each time')
  }
)

t.test(
  'a cookie outlives the browser over https or on the own machine, if the user wants it; Secure is for https',
  async (t) => {
    const house = await openHouse(t, { trusted: ['127.0.0.1'] })
    const name = 'ann@example.com'
    await new Browser(house).register(name)
    const line = async (headers: Record<string, string>, more: object = {}) => {
      const answer = await new Browser(house, headers).ask('POST', '/login/local', {
        username: name,
        password: PASSWORD,
        ...more
      })
      t.equal(answer.status, 200)
      return cookiesOf(answer).get('access_token') ?? ''
    }
    t.match(await line({}), /Max-Age=604800/, '127.0.0.1')
    t.match(await line({ host: 'localhost:8001' }), /Max-Age=604800/)
    t.match(await line({ host: '[::1]:8001' }), /Max-Age=604800/)
    t.notMatch(await line({ host: 'chat.example.com' }), /Max-Age|Secure/, 'plain http over a network')
    t.notMatch(await line({ host: '127.0.0.1.example.com' }), /Max-Age/)
    t.match(await line({ host: 'chat.example.com', 'x-forwarded-proto': 'https' }), /Max-Age=604800; HttpOnly; Secure/)
    for (const remember_me of [false, 'false', '0']) t.notMatch(await line({}, { remember_me }), /Max-Age/)
    const odd = await new Browser(house).ask('POST', '/login/local', {
      username: name,
      password: PASSWORD,
      remember_me: 'maybe'
    })
    t.match(odd, { status: 422, body: { detail: [{ loc: ['body', 'remember_me'] }] } })
  }
)

t.test('logout ends this session, deletes both cookies, and is 200 with a junk session or none', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  await browser.register('ann@example.com')
  const { token } = browser
  const answer = await browser.ask('POST', '/logout')
  t.match(answer, { status: 200, body: { message: 'Successfully logged out' } })
  for (const name of ['access_token', 'csrf_token']) t.match(cookiesOf(answer).get(name), /=; .*Max-Age=0/, name)
  t.match(await browser.me(), refusal(401, 'not_authenticated'))
  browser.cookies.set('access_token', token)
  t.match(await browser.me(), refusal(401, 'token_invalid'), 'also for who has kept the token')
  t.strictSame(house.revoked, [{ digest: digestOf(token) }])
  for (const cookie of ['access_token=junk', 'access_token=', ''])
    t.equal((await new Browser(house).ask('POST', '/logout', undefined, { cookie })).status, 200, cookie)
})

t.test('who logs out and in again within a second is in', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  await browser.register('ann@example.com')
  for (let round = 0; round < 4; round++) {
    await browser.ask('POST', '/logout')
    t.equal((await browser.login('ann@example.com')).status, 200)
    t.equal((await browser.me()).status, 200)
  }
})

// ----------------------------------------------------------------------------------------------- the lockout

onEachBackend(
  t,
  '[Auth 9] five failures lock the address, also for the right password; the lock is asked before the password',
  async (t, backend) => {
    const house = await openHouse(t, { backend, trusted: ['127.0.0.1'] })
    await new Browser(house).register('ann@example.com')
    const bad = new Browser(house, { 'x-real-ip': '203.0.113.1' })
    for (let i = 0; i < 5; i++)
      t.match(await bad.login('nobody@example.com', 'wrong'), refusal(401, 'invalid_credentials'))
    const locked = await bad.login('ann@example.com')
    t.match(locked, { status: 429, body: { detail: 'Too many login attempts. Try again later.' } })
    t.match(locked.headers['retry-after'], /^[1-9]\d*$/)
    t.equal(bad.token, '')
    t.equal((await new Browser(house, { 'x-real-ip': '203.0.113.2' }).login('ann@example.com')).status, 200)
  }
)

onEachBackend(t, '[Auth 9] a success forgets the failures', async (t, backend) => {
  const house = await openHouse(t, { backend })
  const browser = new Browser(house)
  await browser.register('ann@example.com')
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 4; i++) t.equal((await browser.login('ann@example.com', 'wrong')).status, 401)
    t.equal((await browser.login('ann@example.com')).status, 200)
  }
})

onEachBackend(
  t,
  '[Auth 9] of thirty guesses at once five are told that they are wrong, as one after the other',
  async (t, backend) => {
    const house = await openHouse(t, { backend })
    const guesses = Array.from({ length: 30 }, () => new Browser(house).login('nobody@example.com', 'wrong'))
    const answered = statuses(await Promise.all(guesses)).sort()
    t.strictSame(answered, [...Array<number>(5).fill(401), ...Array<number>(25).fill(429)])
  }
)

t.test(
  'when too many passwords of an address wait, its login and change-password are 429 and nothing is counted; register has turns of its own',
  async (t) => {
    const house = await openHouse(t)
    const browser = new Browser(house)
    await browser.register('ann@example.com')
    const slow = await bcrypt.hash('x', 14)
    const turn = { address: '127.0.0.1' }
    const flood = [slow, slow, ...Array<string>(64).fill(legacyHash)].map((hash) => verifyPassword('y', hash, turn))
    const answers = await Promise.all([
      ...Array.from({ length: 6 }, () => new Browser(house).login('ann@example.com')),
      new Browser(house).register('bob@example.com'),
      browser.change(PASSWORD, 'brand-new-secret-1')
    ])
    t.strictSame(statuses(answers), [...Array<number>(6).fill(429), 201, 429])
    for (const { headers } of answers.filter(({ status }) => status === 429))
      t.match(headers['retry-after'], /^[1-9]\d*$/, 'each is told when to come back')
    await Promise.all(flood)
    t.equal((await new Browser(house).login('ann@example.com')).status, 200)
  }
)

// ---------------------------------------------------------------------------------------------------- hashes

onEachBackend(t, '[User 3] a login with a v1 hash rewrites it as v2, once', async (t, backend) => {
  const house = await openHouse(t, { backend })
  const user = await addLegacyUser(house.store)
  t.equal((await new Browser(house).login('old@example.com', LEGACY)).status, 200)
  const renewed = (await house.store.users.byId(user.id))?.password_hash ?? ''
  t.match(renewed, /^2\$\$2b\$/)
  t.equal((await new Browser(house).login('old@example.com', LEGACY)).status, 200)
  t.equal((await house.store.users.byId(user.id))?.password_hash, renewed)
})

onEachBackend(t, '[User 3] a rewrite that fails is logged and does not fail the login', async (t, backend) => {
  const writer = (same: Writer): Writer => ({
    write: (op) => (op.name === 'user.update' ? Promise.reject(new Error('refused by the test')) : same.write(op))
  })
  const house = await openHouse(t, { backend, writer })
  const user = await addLegacyUser(house.store)
  const browser = new Browser(house)
  t.equal((await browser.login('old@example.com', LEGACY)).status, 200)
  t.equal((await browser.me()).status, 200)
  t.match(house.warnings, [[{ err: { message: 'refused by the test' }, user_id: user.id }, String]])
  t.equal((await house.store.users.byId(user.id))?.password_hash, legacyHash)
})

onEachBackend(t, '[User 3] a rewrite does not bring back a password that was changed meanwhile', async (t, backend) => {
  let store: Store
  const users = (reads: UserReads): UserReads => ({
    ...reads,
    async byId(id) {
      // The last look before the rewrite: the change of password has been committed just before it.
      await write(store, { name: 'user.update', id, set: { password_hash: '2$new', token_version: 1 } })
      return reads.byId(id)
    }
  })
  const house = await openHouse(t, { backend, users })
  store = house.store
  const user = await addLegacyUser(store)
  await new Browser(house).login('old@example.com', LEGACY)
  t.equal((await store.users.byId(user.id))?.password_hash, '2$new')
})

t.test('the hash of another implementation signs in: $dfv2$ is v2', async (t) => {
  const house = await openHouse(t)
  const text = await bcrypt.hash(createHash('sha256').update(LEGACY).digest('base64'), 4)
  await write(house.store, {
    name: 'user.create',
    user: aUser({ email: 'moved@example.com', password_hash: `$dfv2$${text}` })
  })
  t.equal((await new Browser(house).login('moved@example.com', LEGACY)).status, 200)
})
