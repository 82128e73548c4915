// Account: what passwords and addresses it may have, how they are changed, and what ends with it.
import t from 'tap'
import type { Store, Writer } from '../../lib/store/store.ts'
import { aUser, write } from '../contract/harness.ts'
import { BACKENDS, databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { forget } from '../fixtures/forget.ts'
import { asked, openSite, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { Browser, cookiesOf, openHouse, PASSWORD, refusal, statuses } from '../fixtures/house.ts'

onEachBackend(
  t,
  '[Auth 8] [Auth 15] length first, then the blocklist, for register, initialize and change-password; nothing is echoed',
  async (t, backend) => {
    const house = await openHouse(t, { backend })
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

t.test('a change of password ends what other sessions wait for with 401, and resets their streams', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const { body: me } = await person.get('/api/v1/auth/me')
  const other = new Person(site.url)
  const form = { email: textIn(me, 'email'), password: PASSWORD }
  t.equal((await other.post('/api/v1/auth/login/local', form)).status, 200)
  const long = asked('/demo deltas=100000 rate=20')
  const thread = await person.thread()
  const path = await person.run(thread, '/demo deltas=100000 rate=20')
  const waiting = [
    other.post(`/api/threads/${await person.thread()}/runs/wait`, long),
    other.post('/api/runs/wait', long),
    other.get(`${path}/join`, { headers: { accept: 'application/json' } })
  ]
  const stream = await other.join(path)
  const own = await person.join(path)
  await until(() => site.sizes().streams === waiting.length + 2, 'all of them')
  const change = { current_password: PASSWORD, new_password: 'brand-new-secret-1' }
  t.equal((await person.post('/api/v1/auth/change-password', change)).status, 200)
  for (const answer of await Promise.all(waiting))
    t.match(answer, { status: 401, body: { detail: { code: 'token_invalid' } } })
  t.equal(await stream.ended, 'reset')
  t.equal((await person.get(path)).status, 200)
  own.leave()
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

onEachBackend(
  t,
  'a reset in another process stands, though a change of the password was under way',
  async (t, backend) => {
    let isReset = false
    const writer = (same: Writer): Writer => ({
      async write(op) {
        // Between this process's last look and its write.
        if (op.name === 'user.update' && !isReset) {
          isReset = true
          await same.write({
            name: 'user.update',
            id: String(Reflect.get(op, 'id')),
            set: { password_hash: '2$reset', token_version: 1 }
          })
        }
        return same.write(op)
      }
    })
    const house = await openHouse(t, { backend, writer })
    const browser = new Browser(house)
    const { body } = await browser.register('ann@example.com')
    t.match(await browser.change(PASSWORD, 'brand-new-secret-1'), {
      status: 401,
      body: { detail: { code: 'token_invalid' } }
    })
    t.match(await house.store.users.byId(String(body.id)), { password_hash: '2$reset', token_version: 1 })
  }
)

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

onEachBackend(
  t,
  '[User 4] change-password of a user that has vanished meanwhile is user_not_found',
  async (t, backend) => {
    const writer = (same: Writer): Writer => ({
      // The store's answer for a row that is not there.
      write: (op) => same.write(op.name === 'user.update' ? { ...op, id: 'gone' } : op)
    })
    const house = await openHouse(t, { backend, writer })
    const browser = new Browser(house)
    await browser.register('ann@example.com')
    t.match(await browser.change(PASSWORD, 'brand-new-secret-1'), refusal(401, 'user_not_found'))
  }
)

t.test('an account without a password cannot change it', async (t) => {
  const house = await openHouse(t)
  const user = aUser({ password_hash: null })
  await write(house.store, { name: 'user.create', user })
  const browser = new Browser(house)
  browser.cookies.set('access_token', await house.tokens.issue(user)).set('csrf_token', 'c')
  t.match(await browser.change('x', 'brand-new-secret-1'), refusal(400, 'invalid_credentials'))
})

// An account in memory lives as long as its process.
for (const backend of BACKENDS.filter((one) => one !== 'memory'))
  t.test(`the runs of a user who is gone end, queued and delayed ones too, and say why (${backend})`, async (t) => {
    const database = await databaseSection(t, backend)
    let store: Store
    const behind = (opened: Store) => {
      store = opened
      return opened
    }
    const site = await openSite(t, { config: { database, streams: { heartbeat_ms: 50 } }, behind })
    const [ann, bob] = [await signIn(site, 'ann'), await signIn(site, 'bob')]
    const long = '/demo deltas=9999 rate=20'
    const idOf = (path: string) => path.split('/').at(-1)!
    const runsOf = async (person: Person) => {
      const thread = await person.thread()
      const paths = [
        await person.run(thread, long),
        await person.run(thread, long, { multitask_strategy: 'enqueue' }),
        await person.run(await person.thread(), long, { after_seconds: 3600 })
      ]
      return paths.map(idOf)
    }
    const rowsOf = (ids: readonly string[]) => Promise.all(ids.map((id) => store.runs.get(id, null)))
    const [hers, his] = [await runsOf(ann), await runsOf(bob)]
    await until(
      async () => (await rowsOf([...hers, ...his])).filter((run) => run?.status === 'running').length === 2,
      'runs'
    )
    await forget(site, ann, database)
    const isOver = async () => (await rowsOf(hers)).every((run) => run?.status === 'interrupted')
    await until(isOver, 'her runs have ended')
    for (const run of await rowsOf(hers)) t.match(run, { stop_reason: 'user_gone', error: null })
    const said = site.logged.filter(([, , text]) => text === 'a run was ended: its user is gone')
    t.strictSame(
      said.map(([level]) => level),
      ['warn', 'warn', 'warn']
    )
    t.strictSame(
      (await rowsOf(his)).map((run) => run?.status),
      ['running', 'pending', 'pending'],
      'those of others go on'
    )
  })
