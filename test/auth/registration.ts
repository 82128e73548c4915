// Registration: open, by invitation, closed; how often from one address, and that who signs in can write as long as the session.
import t from 'tap'
import { at, listIn, openSite, PASSWORD, Person, textIn } from '../fixtures/gateway.ts'
import { Browser, cookiesOf, openHouse, refusal } from '../fixtures/house.ts'

const AUTH = '/api/v1/auth'
const INVITE = { auth: { registration: 'invite' } }

async function administrator(url: string): Promise<Person> {
  const admin = new Person(url)
  t.equal((await admin.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })).status, 201)
  return admin
}

t.test('[18.A.5] with registration by invitation each lets one account in, until it ends or is revoked', async (t) => {
  const site = await openSite(t, { config: INVITE })
  const admin = await administrator(site.url)
  const register = (email: string, invitation?: string) =>
    new Person(site.url).post(`${AUTH}/register`, { email: `${email}@example.com`, password: PASSWORD, invitation })
  const refused = { status: 403, body: { detail: { code: 'registration_disabled' } } }
  t.match(await register('nobody'), refused)
  t.match(await register('nobody', 'clq_of-my-own-making'), refused)
  const made = await admin.post(`${AUTH}/invitations`, { name: 'for ann' })
  t.match(made, { status: 201, body: { name: 'for ann', invitation: /^clq_/ } })
  const invitation = textIn(made.body, 'invitation')
  t.match((await admin.get(`${AUTH}/invitations`)).body, { invitations: [{ name: 'for ann' }] })
  t.notOk((await admin.get(`${AUTH}/invitations`)).text.includes(invitation))
  t.match((await admin.get(`${AUTH}/tokens`)).body, { tokens: [] }, 'it is none of the API tokens')
  const bearer = { authorization: `Bearer ${invitation}` }
  t.equal((await new Person(site.url).get(`${AUTH}/me`, { headers: bearer })).status, 401, 'it is nobody')
  const all = await Promise.all(['ann', 'bob', 'cid'].map((name) => register(name, invitation)))
  t.strictSame(
    all.map(({ status }) => status).toSorted(),
    [201, 403, 403],
    'of those who come with one the first is let in'
  )
  t.strictSame(listIn((await admin.get(`${AUTH}/invitations`)).body, 'invitations'), [])
  const other = (await admin.post(`${AUTH}/invitations`)).body
  const path = `${AUTH}/invitations/${textIn(other, 'invitation_id')}`
  t.equal((await admin.ask('DELETE', path)).status, 200)
  t.equal((await admin.ask('DELETE', path)).status, 404)
  t.match(await register('late', textIn(other, 'invitation')), refused)
})

t.test('only administrators make, see and revoke invitations', async (t) => {
  const site = await openSite(t)
  const person = new Person(site.url)
  await person.post(`${AUTH}/register`, { email: 'ann@example.com', password: PASSWORD })
  for (const [method, path] of [
    ['POST', ''],
    ['GET', ''],
    ['DELETE', '/x']
  ] as const)
    t.equal((await person.ask(method, `${AUTH}/invitations${path}`)).status, 403, method)
})

t.test('setup-status says how one gets an account', async (t) => {
  for (const registration of ['open', 'invite', 'closed']) {
    const { body } = await new Person((await openSite(t, { config: { auth: { registration } } })).url).get(
      `${AUTH}/setup-status`
    )
    t.match(body, { registration, registration_enabled: registration === 'open' })
  }
})

t.test('a server that everybody reaches says at its start that everybody can make an account', async (t) => {
  const warned = async (server: object, auth: object) =>
    (await openSite(t, { config: { server: { shutdown_grace_ms: 0, ...server }, auth } })).logged.some(([, , text]) =>
      text.includes('auth.registration')
    )
  t.ok(await warned({ host: '0.0.0.0' }, {}))
  t.notOk(await warned({ host: '0.0.0.0' }, { registration: 'invite' }))
  t.notOk(await warned({}, {}))
})

t.test('[18.A.5] an address registers so often, then it waits; others do not', async (t) => {
  const house = await openHouse(t)
  const taken = new Browser(house)
  await taken.register('ann@example.com')
  // An address that is taken costs no hash, and one of the allowance.
  const again = (from = '127.0.0.1') =>
    house.door.knock('POST', `${AUTH}/register`, { from, body: { email: 'ann@example.com', password: PASSWORD } })
  let answer = await again()
  for (let n = 0; n < 200 && answer.status === 400; n++) answer = await again()
  t.equal(answer.status, 429)
  t.match(answer.headers['retry-after'], /^[1-9]\d*$/)
  t.equal((await again('127.0.0.9')).status, 400)
})

t.test('[18.B.8] a wrong current password counts as a failed sign-in: the fifth locks the address', async (t) => {
  const house = await openHouse(t)
  const browser = new Browser(house)
  await browser.register('ann@example.com')
  const change = () =>
    browser.ask('POST', '/change-password', { current_password: 'not-this-one-1', new_password: 'another-horse-43' })
  for (let n = 0; n < 5; n++) t.equal((await change()).status, 400)
  const locked = await change()
  t.equal(locked.status, 429)
  t.match(locked.headers['retry-after'], /^[1-9]\d*$/)
  t.match(await browser.login('ann@example.com'), { status: 429 })
})

t.test(
  '[17.1.2] csrf_token lives as long as access_token, also after a change of password and a refusal',
  async (t) => {
    const house = await openHouse(t)
    const lives = (answer: Parameters<typeof cookiesOf>[0]) =>
      ['access_token', 'csrf_token'].map((name) => /Max-Age=(\d+)/.exec(cookiesOf(answer).get(name) ?? '')?.[1])
    for (const remember_me of [true, false]) {
      const browser = new Browser(house)
      const days = remember_me ? '604800' : undefined
      const email = `ann-${remember_me}@example.com`
      const registered = await browser.ask('POST', '/register', { email, password: PASSWORD, remember_me })
      t.strictSame(lives(registered), [days, days])
      const changed = await browser.ask('POST', '/change-password', {
        current_password: PASSWORD,
        new_password: 'another-horse-43'
      })
      t.strictSame(lives(changed), [days, days])
      const login = await browser.ask('POST', '/login/local', { email, password: 'another-horse-43', remember_me })
      t.strictSame(lives(login), [days, days])
    }
    const refused = await new Browser(house).login('ann-true@example.com', 'not-this-one-1')
    t.match(refused, refusal(401, 'invalid_credentials'))
    t.ok(Number(lives(refused)[1]) >= 604_800, 'a page that was signed in before can go on writing')
  }
)

t.test('[17.1.12] a password has eight characters: four of two units each are four', async (t) => {
  const house = await openHouse(t)
  const register = (password: string) =>
    new Browser(house).ask('POST', '/register', { email: 'a@example.com', password })
  for (const password of ['🦜🦜🦜🦜', '🦜🦜🦜🦜🦜🦜🦜', 'seven77']) {
    const { status, body } = await register(password)
    t.equal(status, 422)
    t.match(at(body, 'detail', 0), {
      type: 'string_too_short',
      msg: 'String should have at least 8 characters',
      ctx: { min_length: 8 }
    })
  }
  t.equal((await register('🦜🦜🦜🦜🦜🦜🦜🦜')).status, 201)
})

t.test('[17.5.6] a refusal has a text beside its details', async (t) => {
  const house = await openHouse(t)
  const answer = await new Browser(house).ask('POST', '/register', { email: 'a', password: 'short' })
  t.equal(
    answer.body.message,
    'body.email: value is not a valid email address: An email address must have an @-sign.; body.password: String should have at least 8 characters'
  )
  t.equal((await new Browser(house).me()).body.message, 'Authentication required')
})
