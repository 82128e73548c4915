// Set-up: the one first administrator, who may register, and what a page may ask before anybody is signed in.
import bcrypt from 'bcrypt'
import t from 'tap'
import { onEachBackend } from '../fixtures/backends.ts'
import { Browser, openHouse, PASSWORD, refusal, statuses } from '../fixtures/house.ts'
import { until } from '../fixtures/until.ts'

onEachBackend(
  t,
  '[Auth 11] initialize makes the one administrator; the password rules come before everything else',
  async (t, backend) => {
    const house = await openHouse(t, { backend })
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

t.test(
  '[Auth 11] who comes too late to be the first administrator is refused before the password is hashed',
  async (t) => {
    const RACERS = 5
    let looks = 0
    let hashed = 0
    let isDecided = false
    const house = await openHouse(t, {
      users: (reads) => ({
        ...reads,
        admin: async () => {
          const found = await reads.admin()
          looks++
          return found
        }
      })
    })
    const { hash } = bcrypt
    t.teardown(() => {
      bcrypt.hash = hash
    })
    // All have seen that there is no administrator before the first password is hashed, and the second is only when there is one.
    bcrypt.hash = (async (password: string, cost: number) => {
      const isFirst = ++hashed === 1
      await until(() => (isFirst ? looks === RACERS : isDecided), 'the turn of this hash')
      return hash(password, cost)
    }) as typeof bcrypt.hash
    const racers = Array.from({ length: RACERS }, async (_, i) => {
      const racer = new Browser(house)
      const answer = await racer.ask('POST', '/initialize', { email: `b${i}@example.com`, password: PASSWORD })
      isDecided ||= answer.status === 201
      return answer
    })
    t.strictSame(statuses(await Promise.all(racers)).toSorted(), [201, 409, 409, 409, 409])
    t.equal(hashed, 2, 'the first, and the one whose turn had come before the first was stored')
  }
)

t.test('registration can be off; initialize works all the same', async (t) => {
  const house = await openHouse(t, { registration: 'closed' })
  t.match(await new Browser(house).register('ann@example.com'), refusal(403, 'registration_disabled'))
  const boss = new Browser(house)
  t.equal((await boss.ask('POST', '/initialize', { email: 'boss@example.com', password: PASSWORD })).status, 201)
  t.equal((await boss.login('boss@example.com')).status, 200)
})

onEachBackend(
  t,
  "[Auth 10] setup-status answers an address once a minute; the front end's own server is not counted",
  async (t, backend) => {
    const house = await openHouse(t, { backend, trusted: ['127.0.0.1'] })
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
