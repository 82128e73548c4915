// Accounts over HTTP: who may do what to whom, and what ends at once.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../fixtures/child.ts'
import {
  type Answer,
  homeOf,
  listIn,
  openSite,
  PASSWORD,
  Person,
  type Site,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'

const AUTH = '/api/v1/auth'
const USERS = '/api/v1/admin/users'
const LONG = '/demo deltas=9999 rate=30'
const NEW = 'another-password-7'

async function staffed(t: Test, config: Parameters<typeof openSite>[1] = {}) {
  const site = await openSite(t, config)
  const admin = await adminOf(site)
  return { site, admin }
}

async function adminOf(site: Site): Promise<Person> {
  const admin = new Person(site.url)
  await admin.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })
  return admin
}

async function idOf(person: Person): Promise<string> {
  return textIn((await person.get(`${AUTH}/me`)).body, 'id')
}

async function emailOf(person: Person): Promise<string> {
  return textIn((await person.get(`${AUTH}/me`)).body, 'email')
}

function login(site: Site, username: string, password = PASSWORD): Promise<Answer> {
  return new Person(site.url).post(`${AUTH}/login/local`, { username, password })
}

/** Actions of the audit about an account, oldest first. */
async function auditOf(admin: Person, id: string): Promise<unknown[]> {
  const { body } = await admin.get(`/api/v1/admin/audit?user_id=${id}`)
  return listIn(body, 'entries')
    .map((entry) => textIn(entry, 'action'))
    .reverse()
}

t.test(
  'who is disabled is out at once: sessions, tokens, streams, runs and crons end, and no new ones begin',
  async (t) => {
    const { site, admin } = await staffed(t, { config: { streams: { heartbeat_ms: 100 } } })
    const ann = await signIn(site, 'ann')
    const [id, email] = [await idOf(ann), await emailOf(ann)]
    const scopes = ['runs:read', 'threads:read']
    const token = textIn((await ann.post(`${AUTH}/tokens`, { scopes })).body, 'token')
    const cron = await ann.post('/api/runs/crons', { schedule: '0 0 1 1 *' })
    t.equal(cron.status, 200)
    const stream = await ann.stream(await ann.thread(), LONG)
    t.match(await admin.ask('PATCH', `${USERS}/${id}`, { body: { disabled: true } }), {
      status: 200,
      body: { id, disabled_at: String }
    })
    t.match(await stream.ended, /reset|cut/, 'the stream is broken off, and not ended')
    await until(() => site.sizes().runs === 0, 'the run is over')
    t.equal((await ann.get(`${AUTH}/me`)).status, 401)
    const bearer = { headers: { authorization: `Bearer ${token}` } }
    t.equal((await new Person(site.url).get('/api/models', bearer)).status, 401)
    t.match(await login(site, email), { status: 403, body: { detail: { code: 'account_disabled' } } })
    t.match(
      await login(site, email, 'wrong-password'),
      { status: 401 },
      'who does not know the password learns nothing'
    )

    await admin.ask('PATCH', `${USERS}/${id}`, { body: { disabled: false } })
    t.equal((await login(site, email)).status, 200)
    t.equal((await new Person(site.url).get('/api/models', bearer)).status, 401, 'what has ended stays ended')
    const again = new Person(site.url)
    await again.post(`${AUTH}/login/local`, { username: email, password: PASSWORD })
    const crons = listIn((await again.post('/api/runs/crons/search', {})).body)
    t.match(crons, [{ enabled: false, next_run_date: null }])
    const seen = await auditOf(admin, id)
    for (const action of ['account_created', 'token_created', 'account_disabled', 'account_enabled', 'sign_in'])
      t.ok(seen.includes(action), action)
  }
)

t.test('the last administrator who may sign in stays one, and stays', async (t) => {
  const { site, admin } = await staffed(t)
  const id = await idOf(admin)
  const refused = { status: 409, body: { detail: /last administrator/ } }
  t.match(await admin.ask('PATCH', `${USERS}/${id}`, { body: { system_role: 'user' } }), refused)
  t.match(await admin.ask('PATCH', `${USERS}/${id}`, { body: { disabled: true } }), refused)
  t.match(await admin.ask('DELETE', `${USERS}/${id}`), refused)
  t.match(await admin.ask('DELETE', `${AUTH}/me`, { body: { current_password: PASSWORD } }), refused)
  const second = await idOf(await signIn(site, 'second'))
  await admin.ask('PATCH', `${USERS}/${second}`, { body: { system_role: 'admin' } })
  await admin.ask('PATCH', `${USERS}/${second}`, { body: { disabled: true } })
  t.match(await admin.ask('DELETE', `${USERS}/${id}`), refused, 'one who is disabled does not count')
  await admin.ask('PATCH', `${USERS}/${second}`, { body: { disabled: false } })
  t.equal((await admin.ask('DELETE', `${USERS}/${id}`)).status, 200)
})

t.test('a user deletes the own account, with the password, and nothing of it is left', async (t) => {
  const { site, admin } = await staffed(t)
  const ann = await signIn(site, 'ann')
  const [id, thread] = [await idOf(ann), await ann.thread()]
  t.match(await ann.ask('DELETE', `${AUTH}/me`, { body: { current_password: 'wrong' } }), { status: 400 })
  t.equal((await ann.ask('DELETE', `${AUTH}/me`, { body: { current_password: PASSWORD } })).status, 200)
  t.equal((await ann.get(`/api/threads/${thread}`)).status, 401)
  t.equal((await admin.get(`${USERS}/${id}`)).status, 404)
  const lines = listIn((await admin.get(`/api/v1/admin/audit?user_id=${id}`)).body, 'entries')
  t.match(lines[0], { action: 'account_deleted', actor: `user:${id}`, target: `user:${id}` })
  await until(async () => {
    const { body } = await admin.get(`/api/v1/admin/audit?user_id=${id}`)
    return listIn(body, 'entries').every((line) => JSON.stringify(line).includes('"address":null'))
  }, 'the audit keeps the id, and no address')
})

t.test('a session is listed with device and address, and ended alone', async (t) => {
  const { site } = await staffed(t)
  const ann = await signIn(site, 'ann')
  const phone = new Person(site.url)
  const username = await emailOf(ann)
  await phone.post(`${AUTH}/login/local`, { username, password: PASSWORD }, { headers: { 'user-agent': 'Phone/1' } })
  const listed = listIn((await ann.get(`${AUTH}/sessions`)).body, 'sessions')
  t.match(listed, [
    { device: 'Phone/1', address: '127.0.0.1', is_current: false },
    { device: String, is_current: true }
  ])
  const path = `${AUTH}/sessions/${textIn(listed[0], 'session_id')}`
  const bob = await signIn(site, 'bob')
  t.equal((await bob.ask('DELETE', path)).status, 404, 'nobody ends those of others')
  t.equal((await ann.ask('DELETE', path)).status, 200)
  t.equal((await phone.get(`${AUTH}/me`)).status, 401)
  t.equal((await ann.get(`${AUTH}/me`)).status, 200)
  t.equal(listIn((await ann.get(`${AUTH}/sessions`)).body, 'sessions').length, 1)
  await ann.post(`${AUTH}/logout`)
})

t.test('a password link sets the password once, and ends what was open', async (t) => {
  const { site, admin } = await staffed(t)
  const ann = await signIn(site, 'ann')
  const [id, email] = [await idOf(ann), await emailOf(ann)]
  const path = `${USERS}/${id}/password-link`
  const first = textIn((await admin.post(path)).body, 'token')
  const made = await admin.post(path)
  t.match(made, { status: 201, body: { url: new RegExp(`^${site.url}/#/password/clq_`) } })
  const token = textIn(made.body, 'token')
  const reset = (body: object) => new Person(site.url).post(`${AUTH}/reset-password`, body)
  t.equal((await reset({ token: first, new_password: NEW })).status, 403, 'a newer one has taken its place')
  t.equal((await reset({ token, new_password: 'password' })).status, 422, 'the rules of passwords hold')
  t.equal((await new Person(site.url).get('/api/models', { headers: { 'x-api-key': token } })).status, 401)
  t.equal((await reset({ token, new_password: NEW })).status, 200)
  t.equal((await reset({ token, new_password: NEW })).status, 403)
  t.equal((await ann.get(`${AUTH}/me`)).status, 401)
  t.equal((await login(site, email)).status, 401)
  t.equal((await login(site, email, NEW)).status, 200)
})

t.test(
  'an administrator makes accounts with and without a password; an auditor looks like a user to pages',
  async (t) => {
    const { site, admin } = await staffed(t)
    const without = await admin.post(USERS, { email: 'Ann@Example.com' })
    t.match(without, {
      status: 201,
      body: { email: 'ann@example.com', system_role: 'user', password_link: { token: String } }
    })
    t.match(await admin.post(USERS, { email: 'ann@example.com' }), { status: 400 })
    await admin.post(USERS, { email: 'eyes@example.com', password: PASSWORD, system_role: 'auditor' })
    const eyes = new Person(site.url)
    await eyes.post(`${AUTH}/login/local`, { username: 'eyes@example.com', password: PASSWORD })
    t.match((await eyes.get(`${AUTH}/me`)).body, { system_role: 'user' })
    t.match((await eyes.get(`${USERS}?query=ANN`)).body, { total: 1, users: [{ email: 'ann@example.com' }] })
    t.match((await eyes.get(`${USERS}?role=auditor&limit=1`)).body, {
      total: 1,
      users: [{ email: 'eyes@example.com', last_seen_at: String }]
    })
    t.match((await eyes.get(`${USERS}?query=%25`)).body, { total: 0 }, 'a percent sign is one')
  }
)

t.test('what the command line does to passwords and tokens, and who signs out, is in the audit', async (t) => {
  const { site, admin } = await staffed(t)
  const ann = await signIn(site, 'ann')
  const [id, email] = [await idOf(ann), await emailOf(ann)]
  await ann.post(`${AUTH}/logout`)
  await ann.post(`${AUTH}/logout`)
  t.match(await command(site.home, 'token', 'create', '--email', email), { code: 0 })
  const { body } = await admin.get('/api/v1/admin/audit?action=token_created')
  const token = textIn(body, 'entries', 0, 'target').replace('token:', '')
  t.match(body, { entries: [{ actor: 'operator', details: { for: `user:${id}` } }] })
  t.match(await command(site.home, 'token', 'revoke', token), { code: 0 })
  t.match((await admin.get('/api/v1/admin/audit?action=token_revoked')).body, {
    entries: [{ actor: 'operator', target: `token:${token}` }]
  })
  t.strictSame(
    (await auditOf(admin, id)).filter((action) => action === 'sign_out'),
    ['sign_out'],
    'once'
  )
  t.match(await command(site.home, 'reset-admin'), { code: 0 })
  t.equal((await admin.get(`${AUTH}/me`)).status, 401, 'sessions from before are over')
  t.match((await command(site.home, 'audit', '--action', 'password')).out, /operator/)
})

t.test('a service account acts for a named user with its token, and for nobody else', async (t) => {
  const { site, admin } = await staffed(t)
  const ann = await signIn(site, 'ann')
  const [id, email, thread] = [await idOf(ann), await emailOf(ann), await ann.thread()]
  const robot = textIn((await admin.post(USERS, { name: 'robot' })).body, 'id')
  t.equal((await admin.post(`${USERS}/${robot}/password-link`)).status, 409, 'it has no password')
  const tokenOf = async (...scopes: string[]) =>
    textIn((await admin.post(`${USERS}/${robot}/tokens`, { scopes })).body, 'token')
  const bare = new Person(site.url)
  const as = (token: string, who?: string) => ({
    headers: { authorization: `Bearer ${token}`, ...(who && { 'x-on-behalf-of': who }) }
  })
  const acting = await tokenOf('act:users', 'threads:read', 'admin:users')
  for (const who of [id, email])
    t.match(await bare.get(`/api/threads/${thread}`, as(acting, who)), { status: 200, body: { thread_id: thread } })
  t.equal((await bare.get(`/api/threads/${thread}`, as(acting))).status, 404, 'by itself it is somebody else')
  t.equal((await bare.get(`/api/threads/${thread}`, as(await tokenOf('threads:read'), id))).status, 403)
  t.equal((await bare.get(USERS, as(acting, id))).status, 403, 'acting for a user it administers nothing')
  for (const who of [await idOf(admin), 'nobody@example.com', ''])
    t.equal(
      (await bare.get(`/api/threads/${thread}`, as(acting, who || ' '))).status,
      403,
      `${who} is nobody to act for`
    )
  const named = { headers: { 'x-on-behalf-of': id } }
  t.match(await admin.get(`${AUTH}/me`, named), { status: 403, body: { detail: /cannot act for/ } })
  const own = textIn((await ann.post(`${AUTH}/tokens`, { scopes: ['act:users', 'threads:read'] })).body, 'token')
  const bob = await idOf(await signIn(site, 'bob'))
  t.equal((await bare.get(`/api/threads/${thread}`, as(own, bob))).status, 403, 'a user acts for nobody')
  await until(async () => (await auditOf(admin, robot)).includes('acting_for'), 'it is recorded')
  const acts = await admin.get('/api/v1/admin/audit?action=acting_for')
  const who = { actor: `user:${robot}`, target: `user:${id}`, address: '127.0.0.1', request_id: /\S/ }
  t.match(acts.body, { entries: [who] })
  const input = { messages: [{ role: 'user', content: '/demo deltas=1 rate=0' }] }
  const running = await tokenOf('act:users', 'threads:write', 'runs:create')
  t.equal((await bare.post('/api/runs/wait', { input }, as(running, id))).status, 200)
  t.match((await ann.get(`${AUTH}/usage`)).body, { total: { runs: 1 } }, 'what it takes is the user’s')
  await admin.ask('PATCH', `${USERS}/${id}`, { body: { disabled: true } })
  t.equal((await bare.get(`/api/threads/${thread}`, as(acting, id))).status, 403)
  t.equal((await admin.post(`${USERS}/${id}/tokens`, {})).status, 409, 'persons make their own tokens')
})

t.test(
  'sign-ins, failures and lockouts are in the audit with address and request id, and no address of an account',
  async (t) => {
    const { site, admin } = await staffed(t)
    const ann = await signIn(site, 'ann')
    const email = await emailOf(ann)
    const wrong = await new Person(site.url).post(
      `${AUTH}/login/local`,
      { username: email, password: 'wrong-password' },
      { headers: { 'x-request-id': 'of-my-own.1' } }
    )
    t.equal(wrong.headers.get('x-request-id'), 'of-my-own.1')
    for (let i = 0; i < 4; i++) await login(site, 'nobody@example.com', 'secret-typed-here')
    const all = await admin.get('/api/v1/admin/audit?limit=1000')
    const entries = listIn(all.body, 'entries')
    t.match(
      entries.find(
        (entry) => textIn(entry, 'action') === 'sign_in_failed' && JSON.stringify(entry).includes('of-my-own.1')
      ),
      { actor: 'nobody', target: `user:${await idOf(ann)}`, address: '127.0.0.1' }
    )
    t.ok(entries.some((entry) => textIn(entry, 'action') === 'lockout'))
    for (const text of [email, 'nobody@example.com', 'secret-typed-here']) t.notOk(all.text.includes(text), text)
    const lines = site.logged.filter(([, , message]) => message === 'audit')
    t.equal(lines.length, entries.length, 'each is one line of the log')
    const page = await admin.get('/api/v1/admin/audit?limit=2')
    t.match(page.body, { has_more: true })
  }
)

t.test('beyond loopback the first administrator is made by the link in a file of the home', async (t) => {
  const home = homeOf(t)
  const site = await openSite(t, { home, config: { server: { host: '0.0.0.0', port: 0 } } })
  const url = site.url.replace('0.0.0.0', '127.0.0.1')
  const file = join(home, 'setup_link.txt')
  const link = readFileSync(file, 'utf8').trim()
  t.equal(statSync(file).mode & 0o777, 0o600)
  const token = link.split('/').at(-1)!
  t.notOk(JSON.stringify(site.logged).includes(token), 'the log has only the path')
  const body = { email: 'boss@example.com', password: PASSWORD }
  const refused = { status: 403, body: { detail: { code: 'setup_link_needed' } } }
  t.match(await new Person(url).post(`${AUTH}/initialize`, body), refused)
  t.match(await new Person(url).post(`${AUTH}/initialize`, { ...body, setup_token: `${token}x` }), refused)
  t.equal((await new Person(url).post(`${AUTH}/initialize`, { ...body, setup_token: token })).status, 201)
  t.notOk(existsSync(file))

  const open = await openSite(t, { config: { server: { host: '0.0.0.0', port: 0 }, auth: { setup_link: 'never' } } })
  const there = new Person(open.url.replace('0.0.0.0', '127.0.0.1'))
  t.equal((await there.post(`${AUTH}/initialize`, body)).status, 201)
})

t.test('the command line does the same beside the running server, and is the operator in the audit', async (t) => {
  const { site, admin } = await staffed(t)
  const { home } = site
  const user = (...words: string[]) => command(home, 'user', ...words)
  const created = await user('create', 'ann@example.com', '--json')
  const { id, password_link } = JSON.parse(created.out) as { id: string; password_link: { token: string } }
  const set = { token: password_link.token, new_password: NEW }
  t.equal((await new Person(site.url).post(`${AUTH}/reset-password`, set)).status, 200)
  const ann = new Person(site.url)
  await ann.post(`${AUTH}/login/local`, { username: 'ann@example.com', password: NEW })
  t.match(await user('sessions', 'ann@example.com'), { code: 0, out: /127\.0\.0\.1/ })
  t.match(await user('role', id, 'auditor'), { code: 0, out: 'ann@example.com is auditor\n' })
  t.equal((await ann.get(`${AUTH}/me`)).status, 401, 'a new role, a new session')
  t.match(await user('list', '--role', 'auditor'), { code: 0, out: new RegExp(`^${id}\tann@example.com\tauditor`) })
  const password = (await user('password', id)).out.trim()
  t.equal((await login(site, 'ann@example.com', password)).status, 200)
  t.match(await user('disable', id), { code: 0 })
  t.equal((await login(site, 'ann@example.com', password)).status, 403)
  t.match(await user('enable', id), { code: 0 })
  t.match(await user('disable', 'boss@example.com'), { code: 1, errors: /last administrator/ })
  t.match(await user('role', id, 'king'), { code: 2, errors: /no role/ })
  t.match(await user('disable', 'nobody@example.com'), { code: 1, errors: /not found/ })
  t.match(await user('invite', '--name', 'Bob'), { code: 0, out: /#\/invitation\/clq_/ })
  t.match(await user('delete', id), { code: 0, out: /is gone/ })
  const audit = await command(home, 'audit', '--user', id, '--json')
  const lines = audit.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { action: string; actor: string })
  t.ok(lines.some(({ action, actor }) => action === 'role' && actor === 'operator'))
  t.equal(lines[0]?.action, 'account_deleted')
  t.notOk(audit.out.includes('ann@example.com'))
  t.equal((await admin.get(USERS)).status, 200)
})
