// Sessions: from a sign-in to the end of a session, over HTTP where a client can see it; and the operator's reset of a password.
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import bcrypt from 'bcrypt'
import t, { type Test } from 'tap'
import { CREDENTIALS_FILE, NobodyToReset, resetAdmin } from '../../lib/auth/admin.ts'
import { hashPassword, verifyPassword } from '../../lib/auth/password.ts'
import { type Revocation, Sessions } from '../../lib/auth/session.ts'
import { digestOf, openTokens, type Tokens } from '../../lib/auth/token.ts'
import { loadConfig } from '../../lib/config.ts'
import { Proxies } from '../../lib/http/address.ts'
import { authRoutes } from '../../lib/routes/auth.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import type { Store, UserReads, Writer } from '../../lib/store/store.ts'
import type { User } from '../../lib/types.ts'
import { aUser, write } from '../contract/harness.ts'
import { type Answer, type Door, openDoor } from '../fixtures/door.ts'

const AUTH = '/api/v1/auth'
const PASSWORD = 'correct-horse-42'
const LEGACY = 'Legacy-Pass-2024'
const legacyHash = await bcrypt.hash(LEGACY, 4)

// -------------------------------------------------------------------------------------------------- a house

interface House {
  readonly door: Door
  readonly store: Store
  readonly sessions: Sessions
  readonly tokens: Tokens
  readonly revoked: Revocation[]
  /** What was warned about. */
  readonly warnings: [object, string][]
}

interface HouseOptions {
  readonly users?: (reads: UserReads) => UserReads
  readonly writer?: (writer: Writer) => Writer
  readonly allowRegistration?: boolean
  readonly trusted?: string[]
}

function homeOf(t: Test): string {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-session-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  return home
}

const writerOf = (store: Store): Writer => ({ write: (op) => write(store, op) })

/** The auth routes alone, behind a real server. */
async function openHouse(t: Test, options: HouseOptions = {}): Promise<House> {
  const { users = (same) => same, writer = (same) => same, allowRegistration = true, trusted = [] } = options
  const home = homeOf(t)
  const defaults = loadConfig({ home, env: {}, cwd: home })
  const config = { ...defaults, auth: { ...defaults.auth, allow_registration: allowRegistration } }
  const store = openMemoryStore()
  const tokens = await openTokens({ home, secret: null, expiryDays: 7 })
  const sessions = new Sessions({ users: store.users, tokens })
  const revoked: Revocation[] = []
  sessions.onRevoke((revocation) => void revoked.push(revocation))
  const proxies = new Proxies(trusted, () => {})
  const warnings: [object, string][] = []
  const routes = authRoutes({
    config,
    users: users(store.users),
    writer: writer(writerOf(store)),
    sessions,
    tokens,
    log: { warn: (fields, text) => void warnings.push([fields, text]) },
    countable: (call) => !proxies.isFrontEnd(call.req)
  })
  const door = await openDoor(t, routes, { proxies, authenticate: (token) => sessions.authenticate(token) })
  return { door, store, sessions, tokens, revoked, warnings }
}

/** What a page does: keeps cookies, sends them, repeats the CSRF token. */
class Browser {
  readonly cookies = new Map<string, string>()
  readonly #house: House
  /** Headers of every request. */
  readonly #headers: Record<string, string>

  constructor(house: House, headers: Record<string, string> = {}) {
    this.#house = house
    this.#headers = headers
  }

  async ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const csrf = this.cookies.get('csrf_token')
    const own = { ...(cookie && { cookie }), ...(csrf && { 'x-csrf-token': csrf }) }
    const all = { headers: { ...own, ...this.#headers, ...headers } }
    const answer = await this.#house.door.knock(method, AUTH + path, body === undefined ? all : { ...all, body })
    for (const [name, line] of cookiesOf(answer)) {
      const value = /=([^;]*)/.exec(line)?.[1] ?? ''
      if (value === '') this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    return answer
  }

  get token(): string {
    return this.cookies.get('access_token') ?? ''
  }
  me(): Promise<Answer> {
    return this.ask('GET', '/me')
  }
  register(email: string, password = PASSWORD): Promise<Answer> {
    return this.ask('POST', '/register', { email, password })
  }
  login(username: string, password = PASSWORD): Promise<Answer> {
    const form = new URLSearchParams({ username, password }).toString()
    return this.ask('POST', '/login/local', form, { 'content-type': 'application/x-www-form-urlencoded' })
  }
  change(current_password: string, new_password: string, new_email?: string): Promise<Answer> {
    return this.ask('POST', '/change-password', { current_password, new_password, new_email })
  }
}

/** Set-Cookie lines by name. */
function cookiesOf(answer: Answer): Map<string, string> {
  return new Map((answer.headers['set-cookie'] ?? []).map((line) => [line.slice(0, line.indexOf('=')), line]))
}

const refusal = (status: number, code: string) => ({ status, body: { detail: { code, message: String } } })

/** The status of each answer, for answers to what was sent all at once. */
const statuses = (answers: Answer[]) => answers.map(({ status }) => status)

async function addLegacyUser(store: Store): Promise<User> {
  const user = aUser({ email: 'old@example.com', password_hash: legacyHash })
  await write(store, { name: 'user.create', user })
  return user
}

// ------------------------------------------------------------------------------------------------- sessions

t.test('[Auth 3] a token is its user, with the row as it is now', async (t) => {
  const { store, sessions, tokens } = await openHouse(t)
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const token = await tokens.issue(user)
  t.strictSame(await sessions.authenticate(token), user)
  await write(store, { name: 'user.update', id: user.id, set: { email: 'new@example.com' } })
  t.match(await sessions.authenticate(token), { email: 'new@example.com' })
  await write(store, { name: 'user.update', id: user.id, set: { token_version: user.token_version + 1 } })
  await t.rejects(sessions.authenticate(token), { code: 'token_revoked', status: 401 })
})

t.test('[Auth 3] failures of a token have codes of their own and one message', async (t) => {
  const { sessions, tokens } = await openHouse(t)
  const expired = await (await openTokens({ home: '/nowhere', secret: 'x', expiryDays: -1 })).issue({
    id: 'u',
    token_version: 0
  })
  const elsewhere = new Sessions({
    users: openMemoryStore().users,
    tokens: await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 })
  })
  await t.rejects(elsewhere.authenticate(expired), { code: 'token_expired', detail: { message: 'Invalid token' } })
  for (const token of ['junk', '', ' ', expired])
    await t.rejects(sessions.authenticate(token), {
      code: 'token_invalid',
      detail: { code: 'token_invalid', message: 'Invalid token' }
    })
  await t.rejects(sessions.authenticate(await tokens.issue({ id: 'gone', token_version: 0 })), {
    code: 'user_not_found'
  })
})

t.test(
  'a logged-out token is refused, other sessions of the user go on, and whoever listens is told once',
  async (t) => {
    const { store, sessions, tokens, revoked } = await openHouse(t)
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const [one, other] = [await tokens.issue(user), await tokens.issue(user)]
    await sessions.logout(one)
    await t.rejects(sessions.authenticate(one), { code: 'token_revoked' })
    t.match(await sessions.authenticate(other), { id: user.id })
    t.strictSame(revoked, [{ credential: digestOf(one) }])
    await sessions.logout('junk')
    t.equal(revoked.length, 1, 'what is no token ends nothing')
  }
)

t.test('a logout while its token is being looked up is not missed', async (t) => {
  const store = openMemoryStore()
  const tokens = await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 })
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const token = await tokens.issue(user)
  const users: UserReads = {
    ...store.users,
    async byId(id) {
      await sessions.logout(token)
      return store.users.byId(id)
    }
  }
  const sessions = new Sessions({ users, tokens })
  await t.rejects(sessions.authenticate(token), { code: 'token_revoked' })
})

t.test('as many logged-out tokens as there is space for are remembered, the newest ones', async (t) => {
  const store = openMemoryStore()
  const tokens = await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 })
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const sessions = new Sessions({ users: store.users, tokens, deniedMax: 2 })
  const issued = await Promise.all([1, 2, 3].map(() => tokens.issue(user)))
  for (const token of issued) await sessions.logout(token)
  const [oldest, ...newest] = issued
  for (const token of newest) await t.rejects(sessions.authenticate(token), { code: 'token_revoked' })
  t.match(await sessions.authenticate(oldest ?? ''), { id: user.id })
})

// -------------------------------------------------------------------------------------- signing in and out

t.test('[Auth 1] register signs in: 201, the account, and both cookies', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  const answer = await browser.register(' Ann@Example.COM ')
  t.match(answer, { status: 201, body: { email: 'ann@example.com', system_role: 'user', needs_setup: false } })
  t.notMatch(answer.text, /password|hash|\$2b/)
  const cookies = cookiesOf(answer)
  t.match(cookies.get('access_token'), /^access_token=[^;]+; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax$/)
  t.match(cookies.get('csrf_token'), /^csrf_token=[\w-]{86}; Path=\/; SameSite=Strict$/)
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
    const house = await openHouse(t)
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
  t.strictSame(house.revoked, [{ credential: digestOf(token) }])
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

t.test(
  '[Auth 9] five failures lock the address, also for the right password; the lock is asked before the password',
  async (t) => {
    const house = await openHouse(t, { trusted: ['127.0.0.1'] })
    await new Browser(house).register('ann@example.com')
    const bad = new Browser(house, { 'x-real-ip': '203.0.113.1' })
    for (let i = 0; i < 5; i++)
      t.match(await bad.login('nobody@example.com', 'wrong'), refusal(401, 'invalid_credentials'))
    const locked = await bad.login('ann@example.com')
    t.match(locked, { status: 429, body: { detail: 'Too many login attempts. Try again later.' } })
    t.equal(locked.headers['retry-after'], undefined)
    t.equal(bad.token, '')
    t.equal((await new Browser(house, { 'x-real-ip': '203.0.113.2' }).login('ann@example.com')).status, 200)
  }
)

t.test('[Auth 9] a success forgets the failures', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  await browser.register('ann@example.com')
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 4; i++) t.equal((await browser.login('ann@example.com', 'wrong')).status, 401)
    t.equal((await browser.login('ann@example.com')).status, 200)
  }
})

t.test('[Auth 9] of thirty guesses at once no more are looked at than the lock lets through', async (t) => {
  const house = await openHouse(t)
  const guesses = Array.from({ length: 30 }, () => new Browser(house).login('nobody@example.com', 'wrong'))
  const answered = statuses(await Promise.all(guesses))
  const looked = answered.filter((status) => status === 401).length
  t.ok(looked >= 5 && looked <= 8, `${looked} were looked at`)
  t.equal(answered.filter((status) => status === 429).length, 30 - looked)
})

t.test(
  'when too many passwords are being hashed, login, register and change-password are 429 and nothing is counted',
  async (t) => {
    const house = await openHouse(t)
    const browser = new Browser(house)
    await browser.register('ann@example.com')
    const slow = await bcrypt.hash('x', 14)
    const flood = [slow, slow, ...Array<string>(64).fill(legacyHash)].map((hash) => verifyPassword('y', hash))
    const answers = await Promise.all([
      ...Array.from({ length: 6 }, () => new Browser(house).login('ann@example.com')),
      new Browser(house).register('bob@example.com'),
      browser.change(PASSWORD, 'brand-new-secret-1')
    ])
    t.strictSame(statuses(answers), Array(8).fill(429))
    await Promise.all(flood)
    t.equal((await new Browser(house).login('ann@example.com')).status, 200)
  }
)

// ---------------------------------------------------------------------------------------------------- hashes

t.test('[User 3] a login with a v1 hash rewrites it as v2, once', async (t) => {
  const house = await openHouse(t)
  const user = await addLegacyUser(house.store)
  t.equal((await new Browser(house).login('old@example.com', LEGACY)).status, 200)
  const renewed = (await house.store.users.byId(user.id))?.password_hash ?? ''
  t.match(renewed, /^2\$\$2b\$12\$/)
  t.equal((await new Browser(house).login('old@example.com', LEGACY)).status, 200)
  t.equal((await house.store.users.byId(user.id))?.password_hash, renewed)
})

t.test('[User 3] a rewrite that fails is logged and does not fail the login', async (t) => {
  const writer = (same: Writer): Writer => ({
    write: (op) => (op.name === 'user.update' ? Promise.reject(new Error('refused by the test')) : same.write(op))
  })
  const house = await openHouse(t, { writer })
  const user = await addLegacyUser(house.store)
  const browser = new Browser(house)
  t.equal((await browser.login('old@example.com', LEGACY)).status, 200)
  t.equal((await browser.me()).status, 200)
  t.match(house.warnings, [[{ err: { message: 'refused by the test' }, user_id: user.id }, String]])
  t.equal((await house.store.users.byId(user.id))?.password_hash, legacyHash)
})

t.test('[User 3] a rewrite does not bring back a password that was changed meanwhile', async (t) => {
  let store: Store
  const users = (reads: UserReads): UserReads => ({
    ...reads,
    async byId(id) {
      // The last look before the rewrite: the change of password has been committed just before it.
      await write(store, { name: 'user.update', id, set: { password_hash: '2$new', token_version: 1 } })
      return reads.byId(id)
    }
  })
  const house = await openHouse(t, { users })
  store = house.store
  const user = await addLegacyUser(store)
  await new Browser(house).login('old@example.com', LEGACY)
  t.equal((await store.users.byId(user.id))?.password_hash, '2$new')
})

// ------------------------------------------------------------------------------------------ passwords, e-mail

t.test(
  '[Auth 8] length first, then the blocklist, for register, initialize and change-password; nothing is echoed',
  async (t) => {
    const house = await openHouse(t)
    const browser = new Browser(house)
    await browser.register('ann@example.com')
    const refused = [
      [
        'letmein',
        { type: 'string_too_short', msg: 'String should have at least 8 characters', ctx: { min_length: 8 } }
      ],
      ['', { type: 'string_too_short' }],
      ['LetMeIn1', { type: 'value_error', msg: 'Value error, Password is too common; choose a stronger password.' }],
      ['é'.repeat(513), { type: 'value_error', msg: /1024 bytes/ }]
    ] as const
    for (const [password, entry] of refused)
      for (const [path, field, rest] of [
        ['/register', 'password', { email: 'bob@example.com' }],
        ['/initialize', 'password', { email: 'bob@example.com' }],
        ['/change-password', 'new_password', { current_password: 'wrong' }]
      ] as const) {
        const answer = await browser.ask('POST', path, { ...rest, [field]: password })
        t.match(
          answer,
          { status: 422, body: { detail: [{ loc: ['body', field], ...entry }] } },
          `${path} ${password.slice(0, 9)}`
        )
        if (password) t.notOk(answer.text.includes(password), 'the password is not in the answer')
      }
  }
)

t.test('what is wrong with e-mail address and password is said in one answer', async (t) => {
  const house = await openHouse(t)
  const answer = await new Browser(house).register('plain', 'short')
  t.match(answer, {
    status: 422,
    body: {
      detail: [
        {
          type: 'value_error',
          loc: ['body', 'email'],
          msg: 'value is not a valid email address: An email address must have an @-sign.'
        },
        { type: 'string_too_short', loc: ['body', 'password'] }
      ]
    }
  })
})

t.test('an address has one account, however it is written; ten at once make one', async (t) => {
  const house = await openHouse(t)
  const writings = [
    'ann@example.com',
    'ANN@example.com',
    'Ann <ann@EXAMPLE.com>',
    ' ann@example.com',
    'aNN@example.com'
  ]
  const answers = await Promise.all([...writings, ...writings].map((email) => new Browser(house).register(email)))
  t.strictSame(statuses(answers).toSorted(), [201, ...Array(9).fill(400)])
  for (const answer of answers) if (answer.status === 400) t.match(answer, refusal(400, 'email_already_exists'))
})

t.test('change-password: this session goes on, all others of the user end, and whoever listens is told', async (t) => {
  const house = await openHouse(t)
  const [browser, twin] = [new Browser(house), new Browser(house)]
  const { body } = await browser.register('ann@example.com')
  await twin.login('ann@example.com')
  const { token } = browser
  t.match(await browser.change('wrong-one-123', 'brand-new-secret-1'), refusal(400, 'invalid_credentials'))
  t.equal((await twin.me()).status, 200, 'a wrong current password changes nothing')
  const answer = await browser.change(PASSWORD, 'brand-new-secret-1')
  t.match(answer, { status: 200, body: { message: 'Password changed successfully' } })
  t.match(cookiesOf(answer).get('access_token'), /Max-Age=604800/)
  t.not(browser.token, token)
  t.equal((await browser.me()).status, 200)
  t.match(await twin.me(), refusal(401, 'token_invalid'))
  t.strictSame(house.revoked, [{ userId: String(body.id) }])
  t.match(await new Browser(house).login('ann@example.com'), refusal(401, 'invalid_credentials'))
  t.equal((await new Browser(house).login('ann@example.com', 'brand-new-secret-1')).status, 200)
})

t.test('a session that the browser is to forget stays one after a change of password', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  await browser.ask('POST', '/register', { email: 'ann@example.com', password: PASSWORD, remember_me: false })
  t.notMatch(cookiesOf(await browser.change(PASSWORD, 'brand-new-secret-1')).get('access_token'), /Max-Age/)
})

t.test('of two changes of password at once one holds, and the other is told so', async (t) => {
  const house = await openHouse(t)
  const [one, other] = [new Browser(house), new Browser(house)]
  await one.register('ann@example.com')
  await other.login('ann@example.com')
  const answers = await Promise.all([
    one.change(PASSWORD, 'brand-new-one-1'),
    other.change(PASSWORD, 'brand-new-two-2')
  ])
  t.strictSame(statuses(answers).toSorted(), [200, 401])
  const isFirst = answers[0].status === 200
  t.equal(
    (await new Browser(house).login('ann@example.com', isFirst ? 'brand-new-one-1' : 'brand-new-two-2')).status,
    200
  )
  t.equal((await (isFirst ? other : one).me()).status, 401, 'the session of the other has ended')
})

t.test('new_email moves the account and ends set-up; a taken one changes nothing, the own one is fine', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  const { body } = await browser.register('ann@example.com')
  await new Browser(house).register('bob@example.com')
  await write(house.store, { name: 'user.update', id: String(body.id), set: { needs_setup: true } })
  t.match(await browser.change(PASSWORD, 'brand-new-secret-1', 'BOB@example.com'), refusal(400, 'email_already_exists'))
  t.equal((await browser.me()).status, 200)
  t.equal((await browser.change(PASSWORD, 'brand-new-secret-1')).status, 200)
  t.match(
    (await browser.me()).body,
    { needs_setup: true, email: 'ann@example.com' },
    'without new_email set-up stays open'
  )
  t.equal((await browser.change('brand-new-secret-1', 'brand-new-secret-2', 'ANN@example.com')).status, 200)
  t.match((await browser.me()).body, { needs_setup: false, email: 'ann@example.com' })
  t.match(await browser.change('brand-new-secret-2', 'brand-new-secret-3', 'nonsense'), {
    status: 422,
    body: { detail: [{ loc: ['body', 'new_email'] }] }
  })
})

t.test('[User 4] change-password of a user that has vanished meanwhile is user_not_found', async (t) => {
  const writer = (same: Writer): Writer => ({
    // The store's answer for a row that is not there.
    write: (op) => same.write(op.name === 'user.update' ? { ...op, id: 'gone' } : op)
  })
  const house = await openHouse(t, { writer })
  const browser = new Browser(house)
  await browser.register('ann@example.com')
  t.match(await browser.change(PASSWORD, 'brand-new-secret-1'), refusal(401, 'user_not_found'))
})

t.test('an account without a password cannot change it', async (t) => {
  const house = await openHouse(t)
  const user = aUser({ password_hash: null })
  await write(house.store, { name: 'user.create', user })
  const browser = new Browser(house)
  browser.cookies.set('access_token', await house.tokens.issue(user)).set('csrf_token', 'c')
  t.match(await browser.change('x', 'brand-new-secret-1'), refusal(400, 'invalid_credentials'))
})

// -------------------------------------------------------------------------------------------------- first boot

t.test(
  '[Auth 11] initialize makes the one administrator; the password rules come before everything else',
  async (t) => {
    const house = await openHouse(t)
    const boss = { email: 'boss@example.com', password: PASSWORD }
    await new Browser(house).register('ann@example.com')
    t.match(await new Browser(house).ask('GET', '/setup-status'), {
      body: { needs_setup: true, registration_enabled: true }
    })
    t.match(
      await new Browser(house).ask('POST', '/initialize', { ...boss, email: 'ann@example.com' }),
      refusal(400, 'email_already_exists')
    )
    const racers = Array.from({ length: 6 }, (_, i) =>
      new Browser(house).ask('POST', '/initialize', { ...boss, email: `b${i}@example.com` })
    )
    const answers = await Promise.all(racers)
    t.strictSame(statuses(answers).toSorted(), [201, 409, 409, 409, 409, 409])
    for (const answer of answers)
      t.match(
        answer,
        answer.status === 201 ? { body: { system_role: 'admin' } } : refusal(409, 'system_already_initialized')
      )
    t.equal((await new Browser(house).ask('POST', '/initialize', { ...boss, password: 'short' })).status, 422)
  }
)

t.test('registration can be off; initialize works all the same', async (t) => {
  const house = await openHouse(t, { allowRegistration: false })
  t.match(await new Browser(house).register('ann@example.com'), refusal(403, 'registration_disabled'))
  const boss = new Browser(house)
  t.equal((await boss.ask('POST', '/initialize', { email: 'boss@example.com', password: PASSWORD })).status, 201)
  t.equal((await boss.login('boss@example.com')).status, 200)
})

t.test(
  "[Auth 10] setup-status answers an address once a minute; the front end's own server is not counted",
  async (t) => {
    const house = await openHouse(t, { trusted: ['127.0.0.1'] })
    const client = new Browser(house, { 'x-real-ip': '203.0.113.1' })
    t.equal((await client.ask('GET', '/setup-status')).status, 200)
    const refused = await client.ask('GET', '/setup-status')
    t.match(refused, { status: 429, body: { detail: 'Setup status check is rate limited' } })
    const wait = Number(refused.headers['retry-after'])
    t.ok(wait >= 1 && wait <= 60, `Retry-After is ${wait}`)
    t.equal((await new Browser(house, { 'x-real-ip': '203.0.113.2' }).ask('GET', '/setup-status')).status, 200)
    for (let i = 0; i < 3; i++)
      t.equal((await new Browser(house).ask('GET', '/setup-status')).status, 200, 'the front end')
  }
)

t.test('there are no providers yet, and their routes say so', async (t) => {
  const browser = new Browser(await openHouse(t))
  t.strictSame((await browser.ask('GET', '/providers')).body, { providers: [] })
  for (const path of ['/oauth/github', '/oauth/google', '/callback/github?code=a&state=b'])
    t.match(await browser.ask('GET', path), { status: 501, body: { detail: 'OAuth login not yet implemented' } }, path)
  t.match(await browser.ask('GET', '/oauth/nonsense'), {
    status: 400,
    body: { detail: 'Unsupported OAuth provider: nonsense' }
  })
})

// ------------------------------------------------------------------------------------------------ reset-admin

async function storeWithAdmin(): Promise<{ store: Store; admin: User }> {
  const store = openMemoryStore()
  const admin = aUser({ email: 'boss@example.com', system_role: 'admin', password_hash: await hashPassword(PASSWORD) })
  await write(store, { name: 'user.initialize', user: admin })
  return { store, admin }
}

const partsOf = (store: Store, home: string, email: string | null = null) => ({
  users: store.users,
  writer: writerOf(store),
  home,
  email
})

function credentialsIn(home: string): { text: string; email: string; password: string } {
  const text = readFileSync(join(home, CREDENTIALS_FILE), 'utf8')
  return { text, email: /^email: (.+)$/m.exec(text)?.[1] ?? '', password: /^password: (.+)$/m.exec(text)?.[1] ?? '' }
}

t.test(
  '[Auth 11] a reset writes a new password to a file of mode 0600, ends the sessions and opens set-up again',
  async (t) => {
    const home = join(homeOf(t), 'new')
    const { store, admin } = await storeWithAdmin()
    const reset = await resetAdmin(partsOf(store, home))
    t.strictSame(reset, { email: admin.email, file: join(home, CREDENTIALS_FILE) }, 'the password is not told')
    const { email, password } = credentialsIn(home)
    t.equal(email, admin.email)
    t.match(password, /^[\w-]{22}$/)
    t.equal(statSync(reset.file).mode & 0o777, 0o600)
    t.strictSame(readdirSync(home), [CREDENTIALS_FILE], 'no draft is left')
    const row = await store.users.byId(admin.id)
    t.match(row, { needs_setup: true, token_version: admin.token_version + 1 })
    t.ok(await verifyPassword(password, row?.password_hash ?? null))
    t.notOk(await verifyPassword(PASSWORD, row?.password_hash ?? null))
  }
)

t.test('[Auth 11] a file that others may read, or a link to one, is replaced and not written to', async (t) => {
  const home = homeOf(t)
  const { store } = await storeWithAdmin()
  const elsewhere = join(home, 'elsewhere')
  writeFileSync(elsewhere, 'old contents', { mode: 0o644 })
  symlinkSync(elsewhere, join(home, CREDENTIALS_FILE))
  const { file } = await resetAdmin(partsOf(store, home))
  t.equal(readFileSync(elsewhere, 'utf8'), 'old contents')
  t.equal(statSync(file).mode & 0o777, 0o600)
  const first = credentialsIn(home).password
  await resetAdmin(partsOf(store, home))
  t.not(credentialsIn(home).password, first, 'another password each time')
})

t.test(
  '[Auth 11] an e-mail address picks the account, however it is written; nobody to reset is an error and leaves nothing',
  async (t) => {
    const home = homeOf(t)
    const { store } = await storeWithAdmin()
    const user = aUser({ email: 'ann@example.com' })
    await write(store, { name: 'user.create', user })
    t.match(await resetAdmin(partsOf(store, home, ' ANN@example.com')), { email: 'ann@example.com' })
    rmSync(join(home, CREDENTIALS_FILE))
    await t.rejects(resetAdmin(partsOf(store, home, 'nobody@example.com')), NobodyToReset)
    await t.rejects(resetAdmin(partsOf(openMemoryStore(), home)), NobodyToReset)
    t.strictSame(readdirSync(home), [])
  }
)

t.test('[Auth 11] a reset whose write fails leaves the old password, the old file, and no draft', async (t) => {
  const home = homeOf(t)
  const { store, admin } = await storeWithAdmin()
  await resetAdmin(partsOf(store, home))
  const before = [await store.users.byId(admin.id), credentialsIn(home).text]
  const broken: Writer = { write: () => Promise.reject(new Error('disk full')) }
  await t.rejects(resetAdmin({ ...partsOf(store, home), writer: broken }), { message: 'disk full' })
  t.strictSame([await store.users.byId(admin.id), credentialsIn(home).text], before)
  t.strictSame(readdirSync(home), [CREDENTIALS_FILE])
})

t.test('[Auth 11] a file that cannot be written leaves the old password', async (t) => {
  const { store, admin } = await storeWithAdmin()
  const notAFolder = join(homeOf(t), 'file')
  writeFileSync(notAFolder, '')
  await t.rejects(resetAdmin(partsOf(store, notAFolder)))
  t.strictSame(await store.users.byId(admin.id), admin)
  t.notOk(existsSync(join(notAFolder, CREDENTIALS_FILE)))
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
