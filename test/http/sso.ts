// Signing in at a provider: who comes in, as whom, and when it is over. The provider is oidc-provider as it is.
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { listIn, openSite, Person, textIn, until } from '../fixtures/gateway.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { FloodServer, json } from '../fixtures/inbound.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { Browser, openCompany } from '../fixtures/provider.ts'

const AUTH = '/api/v1/auth'
const PASSWORD = 'correct-horse-42'

const meOf = async ({ person }: Browser) => (await person.get(`${AUTH}/me`)).body

t.test('the first sign-in makes an account, the next one finds it, and nobody else is it', async (t) => {
  const { site, people, signIn, rotateKeys } = await openCompany(t)
  people.set('ann', { email: 'Ann@example.com', email_verified: true })
  people.set('bob', { email: 'bob@example.com' })
  const { body } = await new Person(site.url).get(`${AUTH}/providers`)
  t.strictSame(body, { providers: [{ id: 'company', display_name: 'The company', type: 'oidc' }] })
  const { browser, at } = await signIn('ann', undefined, '/?from=mail')
  t.equal(at, `${site.url}/?from=mail`)
  const me = await meOf(browser)
  t.match(me, { email: 'ann@example.com', system_role: 'user', oauth_provider: 'company' })
  t.equal((await browser.person.post('/api/threads')).status, 200, 'the session may write')
  // No key that was known signs any more. It is fetched again once a second at most.
  rotateKeys()
  await pause(1_100)
  t.strictSame(await meOf((await signIn('ann')).browser), me)
  t.not(textIn(await meOf((await signIn('bob')).browser), 'id'), textIn(me, 'id'))
  const login = await new Person(site.url).post(`${AUTH}/login/local`, { username: 'ann@example.com', password: '' })
  t.equal(login.status, 401, 'it has no password')
})

t.test(
  'a way back that did not begin in this browser signs nobody in, and only listed origins are gone to',
  async (t) => {
    const { site, people, signIn } = await openCompany(
      t,
      {},
      { server: { cors_origins: ['https://front.example.com'] } }
    )
    people.set('ann', { email: 'ann@example.com' })
    const ann = new Browser(site.url)
    const begun = await ann.person.get(`${AUTH}/oauth/company`, { redirect: 'manual' })
    const state = new URL(begun.headers.get('location') ?? '').searchParams.get('state') ?? ''
    const victim = new Browser(site.url)
    const { at } = await victim.follow(`${AUTH}/callback/company?code=of-ann&state=${state}`)
    t.equal(at, `${site.url}/?error=sso_failed`)
    t.equal((await victim.person.get(`${AUTH}/me`)).status, 401)
    for (const next of [
      'https://evil.example.com/',
      '//evil.example.com',
      '/\\evil.example.com',
      'javascript:alert(1)'
    ])
      t.equal((await ann.person.get(`${AUTH}/oauth/company?next=${encodeURIComponent(next)}`)).status, 400, next)
    const front = await ann.person.get(`${AUTH}/oauth/company?next=https://front.example.com/chat`, {
      redirect: 'manual'
    })
    t.equal(front.status, 302)
    t.equal((await ann.person.get(`${AUTH}/oauth/nobody`)).status, 400)
    const cancelled = await signIn('', undefined, '/workspace')
    t.equal(cancelled.at, `${site.url}/login?error=sso_cancelled`)
  }
)

t.test('groups give roles, models and agents, and the last administrator keeps the role', async (t) => {
  const model = { base_url: 'http://127.0.0.1:9/v1', model: 'm' }
  const groups = [
    { name: 'ops', role: 'admin' },
    { name: 'research', models: ['large'] }
  ]
  const models = [
    { ...model, name: 'large' },
    { ...model, name: 'small' }
  ]
  const { site, people, signIn } = await openCompany(t, { groups }, { models })
  people.set('ann', { email: 'ann@example.com', groups: ['ops'] })
  people.set('bob', { email: 'bob@example.com', groups: ['research', 'others'] })
  people.set('cid', { email: 'cid@example.com' })
  const modelsOf = async ({ person }: Browser) =>
    listIn((await person.get('/api/models')).body, 'models').map((one) => textIn(one, 'name'))
  const ann = (await signIn('ann')).browser
  t.match(await meOf(ann), { system_role: 'admin' })
  t.strictSame(await modelsOf(ann), ['large', 'small'])
  t.strictSame(await modelsOf((await signIn('bob')).browser), ['large', 'small'])
  const cid = (await signIn('cid')).browser
  t.strictSame(await modelsOf(cid), ['small'])
  const threadId = await cid.person.thread()
  const ask = (context: object) =>
    cid.person.post(`/api/threads/${threadId}/runs`, {
      input: { messages: [] },
      context,
      multitask_strategy: 'enqueue'
    })
  t.equal((await ask({ model_name: 'large' })).status, 403)
  const { status, headers } = await ask({})
  t.equal(status, 200)
  const run = await cid.person.get(headers.get('content-location') ?? '')
  t.notMatch(run.text, 'large', 'who names none gets the first that he may use')
  const [large, hiding] = [{ model_name: 'large' }, ['small', '']]
  for (const model_name of hiding)
    for (const named of [
      { context: large, config: { configurable: { model_name } } },
      { context: { model_name }, config: { configurable: large } }
    ]) {
      const body = { input: { messages: [] }, ...named }
      const { status } = await cid.person.post(`/api/threads/${threadId}/runs`, body)
      t.equal(status, 403, `a graph would find it: ${JSON.stringify(named)}`)
    }
  people.set('ann', { email: 'ann@example.com', groups: [] })
  t.match(await meOf((await signIn('ann')).browser), { system_role: 'admin' })
  t.ok(site.logged.some(([, , text]) => text.includes('the last administrator keeps the role')))
})

const TOOLS = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
/** Every route that reads and whose path names nothing, and what else lists: by its name, with its body. */
const LISTS: readonly (readonly [name: string, body?: object])[] = [
  ...Object.entries(EXPECTED)
    .filter(([name, { reach, endless }]) => /^GET [^{]*$/.test(name) && reach !== 'admin' && !endless)
    .map(([name, { query = '' }]) => [`${name}${query}`] as const),
  ['POST /api/assistants/search', {}],
  ['POST /mcp', TOOLS],
  ['GET /api/models/model-of-some'],
  ['GET /v1/models/model-of-some'],
  ['GET /v1/models/graph-of-some'],
  ...['', '/graph', '/schemas', '/subgraphs'].map((part) => [`GET /api/assistants/graph-of-some${part}`] as const)
]

/** Those in which somebody finds one of the names. */
async function listing({ person }: Browser, names: RegExp): Promise<string[]> {
  const found: string[] = []
  for (const [name, body] of LISTS) {
    const [method = '', path = ''] = name.split(' ')
    const { status, text } = method === 'GET' ? await person.get(path) : await person.post(path, body)
    if (status === 200 && names.test(name + text)) found.push(name)
  }
  return found.sort()
}

t.test('what is for a group is listed for nobody else, by no protocol, and is found by its own', async (t) => {
  const groups = [{ name: 'research', models: ['model-of-some'], agents: ['graph-of-some'] }]
  const model = { base_url: 'http://127.0.0.1:9/v1', model: 'm' }
  const models = ['model-of-some', 'model-of-all'].map((name) => ({ ...model, name }))
  const folder = graphsFolder(t, 'newest', { 'graph-of-some': 'graph', 'graph-of-all': 'graph' })
  const sites = {
    model: [
      { models },
      ['GET /api/models', 'GET /api/models/model-of-some', 'GET /v1/models', 'GET /v1/models/model-of-some']
    ],
    graph: [
      { agent: { runtime: 'graphs', config: folder } },
      [
        ...['', '/graph', '/schemas', '/subgraphs'].map((part) => `GET /api/assistants/graph-of-some${part}`),
        'GET /api/copilotkit/info',
        'GET /v1/models',
        'GET /v1/models/graph-of-some',
        'POST /api/assistants/search',
        'POST /mcp'
      ]
    ]
  } as const
  for (const [kind, [config, lists]] of Object.entries(sites)) {
    const { people, signIn } = await openCompany(t, { groups }, config)
    people.set('bob', { email: 'bob@example.com', groups: ['research'] })
    people.set('cid', { email: 'cid@example.com' })
    const bob = (await signIn('bob')).browser
    const cid = (await signIn('cid')).browser
    t.strictSame(await listing(bob, new RegExp(`${kind}-of-some`)), [...lists].sort(), `a ${kind}, by its group`)
    t.strictSame(await listing(cid, new RegExp(`${kind}-of-some`)), [], `a ${kind}, by others`)
    t.ok((await listing(cid, new RegExp(`${kind}-of-all`))).length > 0)
    if (kind === 'model') continue
    const { body } = await bob.person.post('/api/assistants', { graph_id: 'graph-of-some' })
    t.equal((await bob.person.post('/api/assistants/count', {})).text, '3')
    t.equal((await cid.person.post('/api/assistants/count', {})).text, '1')
    const refused = { status: 403, body: { detail: 'The agent graph-of-some is for other groups' } }
    t.match(await cid.person.post('/api/assistants', { graph_id: 'graph-of-some' }), refused)
    const own = await cid.person.post('/api/assistants', { graph_id: 'graph-of-all' })
    const path = `/api/assistants/${textIn(own.body, 'assistant_id')}`
    t.match(await cid.person.ask('PATCH', path, { body: { graph_id: 'graph-of-some' } }), refused)
    const says = { input: { messages: [{ role: 'user', content: 'hello' }] } }
    t.match(await cid.person.post('/api/runs/wait', { ...says, assistant_id: 'graph-of-some' }), refused)
    const first = await cid.person.post('/v1/chat/completions', { messages: says.input.messages })
    t.equal(first.status, 200, 'who names no agent gets the first that he may use')
    t.match(await cid.person.get('/.well-known/agent-card.json'), { body: { name: 'graph-of-all' } })
    // Who leaves the group keeps what he has made, and cannot use it.
    people.set('bob', { email: 'bob@example.com' })
    const left = (await signIn('bob')).browser
    const { assistant_id } = body as { assistant_id: string }
    t.equal((await left.person.get(`/api/assistants/${assistant_id}`)).status, 200)
    t.notMatch((await left.person.get('/v1/models')).text, assistant_id)
    t.notMatch((await left.person.post('/mcp', TOOLS)).text, assistant_id.slice(0, 8))
    t.match(await left.person.post('/api/runs/wait', { ...says, assistant_id }), refused)
  }
})

t.test(
  'a model of other groups is asked by no way beside runs: not where it is named, nor where none is',
  async (t) => {
    const model = await startModel()
    t.teardown(() => model.stop())
    const models = ['large', 'small'].map((name) => ({ name, model: `of-${name}`, base_url: model.baseUrl }))
    const beside = {
      title: { enabled: false },
      memory: { debounce_seconds: 1 },
      summarization: { enabled: true, keep_messages: 2 }
    }
    const groups = [{ name: 'research', models: ['large'] }]
    const { people, signIn } = await openCompany(t, { groups }, { models, ...beside })
    people.set('cid', { email: 'cid@example.com' })
    const { person } = (await signIn('cid')).browser
    const path = `/api/threads/${await person.thread()}`
    const says = { input: { messages: [{ role: 'user', content: 'hello' }] } }
    for (let turn = 0; turn < 4; turn++) t.equal((await person.post(`${path}/runs/wait`, says)).status, 200)
    const messages = [{ role: 'user', content: scripted({ text: '["Why?"]' }) }]
    const asks: readonly [string, object][] = [
      [`${path}/suggestions`, { messages }],
      [`${path}/compact`, {}]
    ]
    for (const [place, body] of asks) {
      const named = await person.post(place, { ...body, model_name: 'large' })
      t.match(named, { status: 403, body: { detail: 'The model large is for other groups' } }, place)
      t.equal((await person.post(place, body)).status, 200, place)
    }
    t.equal((await person.post('/api/input-polish', { text: 'hi' })).status, 200)
    const ofMemory = () => model.requests.filter(({ body }) => JSON.stringify(body).includes('You keep the memory'))
    await until(() => ofMemory().length > 0, 'what was said to be read for memory')
    t.equal(model.requests.length - ofMemory().length, 7)
    t.strictSame([...new Set(model.requests.map(({ body }) => body.model))], ['of-small'])
  }
)

t.test('allowlists, accounts that are there already, and accounts that may not be made', async (t) => {
  const rules = { allowed_domains: ['example.com'], allowed_groups: ['staff'], trusts_email: true }
  const { site, people, signIn } = await openCompany(t, rules)
  const boss = new Person(site.url)
  await boss.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })
  const dora = new Person(site.url)
  await dora.post(`${AUTH}/register`, { email: 'dora@example.com', password: PASSWORD })
  const token = textIn((await dora.post(`${AUTH}/tokens`, { scopes: ['threads:read'] })).body, 'token')
  const groups = ['staff']
  people.set('out', { email: 'out@example.org', groups })
  people.set('none', { email: 'none@example.com', groups: ['guests'] })
  people.set('unsure', { email: 'unsure@example.com', email_verified: false, groups })
  people.set('boss', { email: 'boss@example.com', groups })
  people.set('dora', { email: 'dora@example.com', groups })
  for (const name of ['out', 'none', 'unsure'])
    t.equal((await signIn(name)).at, `${site.url}/?error=sso_not_allowed`, name)
  t.equal((await signIn('boss')).at, `${site.url}/?error=sso_account_exists`, 'never onto an administrator')
  const before = textIn((await dora.get(`${AUTH}/me`)).body, 'id')
  const linked = await meOf((await signIn('dora')).browser)
  t.match(linked, { id: before, email: 'dora@example.com' })
  // Whoever has made the account with her address, it is hers alone now.
  t.equal((await dora.get(`${AUTH}/me`)).status, 401)
  t.equal((await dora.get('/api/models', { headers: { authorization: `Bearer ${token}`, cookie: '' } })).status, 401)
  const login = { username: 'dora@example.com', password: PASSWORD }
  t.equal((await new Person(site.url).post(`${AUTH}/login/local`, login)).status, 401)
  // Whoever is disabled, before or after the first sign-in here, is nobody's defect: told so, and not linked.
  await new Person(site.url).post(`${AUTH}/register`, { email: 'eve@example.com', password: PASSWORD })
  people.set('eve', { email: 'eve@example.com', groups })
  for (const name of ['dora', 'eve']) {
    const found = listIn((await boss.get(`/api/v1/admin/users?query=${name}`)).body, 'users')
    await boss.ask('PATCH', `/api/v1/admin/users/${textIn(found[0], 'id')}`, { body: { disabled: true } })
    t.equal((await signIn(name)).at, `${site.url}/?error=sso_not_allowed`, name)
  }
  t.notOk(site.logged.some(([, , text]) => text.includes('a sign-in at a provider has failed')))
  const actions = listIn((await boss.get('/api/v1/admin/audit?limit=100')).body, 'entries')
  t.equal(actions.filter((one) => textIn(one, 'action') === 'account_linked').length, 1)
  t.ok(actions.some((one) => textIn(one, 'action') === 'account_linked'))
})

t.test(
  'without trust in its addresses a provider takes over nobody, and makes no account where it may not',
  async (t) => {
    const { site, people, signIn } = await openCompany(t, { create_users: false })
    await new Person(site.url).post(`${AUTH}/register`, { email: 'eve@example.com', password: PASSWORD })
    people.set('eve', { email: 'eve@example.com', email_verified: true })
    people.set('new', { email: 'new@example.com' })
    t.equal((await signIn('eve')).at, `${site.url}/?error=sso_account_exists`)
    t.equal((await signIn('new')).at, `${site.url}/?error=sso_not_allowed`)
  }
)

t.test('a session ends with the refresh that the provider refuses, and not because the provider is down', async (t) => {
  const { site, people, signIn, asked } = await openCompany(t, {}, { oidc: { recheck_s: 4 } })
  people.set('ann', { email: 'ann@example.com' })
  people.set('bob', { email: 'bob@example.com' })
  const { browser: ann } = await signIn('ann')
  const { browser: bob } = await signIn('bob')
  const stream = await ann.person.stream(await ann.person.thread(), '/demo deltas=9999 rate=20')
  const before = asked.tokens
  people.delete('ann')
  await until(async () => (await ann.person.get(`${AUTH}/me`)).status === 401, 'her session is over')
  t.match(await stream.ended, /reset|cut/)
  await until(() => asked.tokens > before + 2, 'others are asked about again and again')
  t.equal((await bob.person.get(`${AUTH}/me`)).status, 200)
  t.equal(site.logged.filter(([level]) => level === 'error').length, 0)
})

t.test('signing out here signs out there, and a sign-out there ends the sessions here', async (t) => {
  const { site, people, signIn } = await openCompany(t)
  people.set('ann', { email: 'ann@example.com' })
  const { browser: ann } = await signIn('ann')
  const { browser: other } = await signIn('ann')
  const { body } = await ann.person.post(`${AUTH}/logout`)
  const there = await ann.follow(textIn(body, 'logout_url'))
  t.equal(there.answer?.status, 200, 'the provider asks whether it is meant')
  t.equal((await other.person.get(`${AUTH}/me`)).status, 200, 'a session of another browser stands')
  const back = await ann.confirm(there.answer?.text ?? '', there.at)
  t.equal(back, `${site.url}/`)
  const { browser: again } = await signIn('ann')
  // As from another application of the company.
  const issuer = new URL(there.at).origin
  const page = await again.follow(`${issuer}/session/end`)
  await again.confirm(page.answer?.text ?? '', page.at)
  await until(async () => (await again.person.get(`${AUTH}/me`)).status === 401, 'the provider has said so')
  for (const logout_token of ['', 'a.b.c', 'e30.e30.'])
    t.equal((await other.person.post(`${AUTH}/backchannel/company`, { logout_token })).status, 400, logout_token)
  t.equal((await other.person.get(`${AUTH}/me`)).status, 200)
})

t.test('no answer of a provider is read without an end: what it says of itself, and its keys', async (t) => {
  const flood = await FloodServer.start(t, json)
  flood.type = 'application/json'
  flood.shape = 'endless'
  const silent = { id: 'silent', issuer: flood.url, client_id: 'c', client_secret: 's' }
  const described = { ...silent, id: 'described', issuer: `${flood.url}/described` }
  const { issuer } = described
  const description = { issuer, jwks_uri: `${issuer}/keys`, authorization_endpoint: `${issuer}/auth` }
  flood.answerOf = ({ url }) => (url?.startsWith('/described/.well-known') ? JSON.stringify(description) : null)
  const site = await openSite(t, { config: { auth: { oidc: { providers: [silent, described] } } } })
  const person = new Person(site.url)
  const isLeft = () => !flood.isReadWhole
  const { headers } = await person.get(`${AUTH}/oauth/silent`, { redirect: 'manual' })
  t.match(headers.get('location') ?? '', /error=/)
  t.ok(flood.asked === 1 && isLeft(), 'its description')
  const part = (of: object) => Buffer.from(JSON.stringify(of)).toString('base64url')
  const logout_token = [part({ alg: 'RS256', kid: 'k' }), part({ iss: issuer, aud: 'c' }), 'AAAA'].join('.')
  t.equal((await person.post(`${AUTH}/backchannel/described`, { logout_token })).status, 400)
  t.ok(flood.asked === 2 && isLeft(), 'its keys')
})

t.test('without local sign-in there is no other way in, and no set-up to wait for', async (t) => {
  const { site, people, signIn } = await openCompany(
    t,
    { groups: [{ name: 'ops', role: 'admin' }] },
    { auth: { local: false } }
  )
  const person = new Person(site.url)
  t.match((await person.get(`${AUTH}/setup-status`)).body, { needs_setup: false, local: false })
  const account = { email: 'boss@example.com', password: PASSWORD }
  for (const [path, body] of [
    ['login/local', { username: 'boss@example.com', password: PASSWORD }],
    ['register', account],
    ['initialize', account],
    ['reset-password', { token: 't', new_password: PASSWORD }]
  ] as const)
    t.equal((await person.post(`${AUTH}/${path}`, body)).status, 403, path)
  people.set('ann', { email: 'ann@example.com', groups: ['ops'] })
  t.match(await meOf((await signIn('ann')).browser), { system_role: 'admin' })
})
