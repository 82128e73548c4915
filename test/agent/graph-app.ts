// Routes of a project's own beside its graphs, and what its langgraph.json says of ours.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { at, openSite, type Site, signIn, until } from '../fixtures/gateway.ts'
import { graphSite, graphsFolder } from '../fixtures/graphs.ts'

const APP = { http: { app: './app.mjs:app' } }
const OPEN = { http: { app: './app.mjs:app', enable_custom_route_auth: false } }

const status = async ({ url }: Pick<Site, 'url'>, path: string, options: RequestInit = {}) =>
  (await fetch(url + path, options)).status

t.test('routes of the project are for who is signed in, and know who that is', async (t) => {
  const { site, person } = await graphSite(t, { settings: APP })
  t.equal(await status(site, '/custom/me'), 401)
  const me = await person.get('/api/v1/auth/me')
  const { body, headers } = await person.get('/custom/me')
  t.equal(at(body, 'user', 'identity'), at(me.body, 'id'))
  t.equal(headers.get('x-middleware'), 'here')
  t.equal((await person.post('/custom/echo', 'x', { csrf: false })).status, 403)
  t.equal((await person.post('/custom/echo', 'hello')).text, 'HELLO')
  t.equal((await person.get('/custom/stream')).text, 'Count: 0\nCount: 1\nCount: 2\n')
  t.strictSame((await person.get('/custom/cookies')).headers.getSetCookie(), ['a=1', 'b=2'])
})

t.test('what the project declares goes before ours, and all that it does not is ours', async (t) => {
  const { site, person } = await graphSite(t, { settings: APP })
  t.equal((await person.get('/health')).text, 'their own')
  const thread = await person.thread()
  t.strictSame((await person.get(`/threads/${thread}/mine`)).body, { mine: thread })
  t.equal((await person.get(`/threads/${thread}/state`)).status, 200)
  t.equal(at((await person.get(`/threads/${thread}`)).body, 'thread_id'), thread)
  t.equal(await status(site, '/readyz'), 200)
  t.equal((await person.get('/nowhere')).status, 404)
  t.equal((await person.get('/custom/refused')).text, 'a teapot')
})

t.test(
  'a mistake in a route of the project is its request’s, and one that is told a giant body is not read',
  async (t) => {
    const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { http: { app: './app.mjs:mistaken' } })
    const config = { agent: { runtime: 'graphs', config: folder }, server: { body_bytes: 65_536 } }
    const site = await openSite(t, { config })
    const person = await signIn(site)
    t.equal((await person.get('/custom/broken')).status, 500)
    t.ok(site.logged.some(([level, fields]) => level === 'error' && at(fields, 'path') === '/custom/broken'))
    const echo = graphsFolder(t, 'newest', { agent: 'graph' }, APP)
    const other = await openSite(t, { config: { ...config, agent: { runtime: 'graphs', config: echo } } })
    const somebody = await signIn(other)
    t.equal((await somebody.post('/custom/echo', 'x'.repeat(70_000))).status, 413)
    t.equal((await somebody.post('/custom/echo', 'x'.repeat(60_000))).status, 200)
    t.equal(await status(other, '/readyz'), 200)
  }
)

t.test('a project may open its routes to everybody', async (t) => {
  const { site } = await graphSite(t, { settings: OPEN })
  const answer = await fetch(`${site.url}/custom/me`)
  t.strictSame(await answer.json(), { user: null })
  t.equal(await status(site, '/custom/echo', { method: 'POST', body: 'x' }), 200)
  t.equal(await status(site, '/threads/search', { method: 'POST', body: '{}' }), 403, 'ours are not')
  const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { http: { ...OPEN.http, app: './app.mjs:plain' } })
  const plain = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  t.equal(await (await fetch(`${plain.url}/anything`)).text(), 'plain')
  t.equal(await status(plain, '/health'), 200)
})

t.test('parts that the project turns off are not there, and its origins may call', async (t) => {
  const http = { disable_store: true, disable_runs: true, cors: { allow_origins: ['https://pages.example'] } }
  const { person, site } = await graphSite(t, { settings: { http } })
  const thread = await person.thread()
  t.equal((await person.post('/store/items/search')).status, 404)
  t.equal((await person.post(`/threads/${thread}/runs`, { input: {} })).status, 404)
  t.equal((await person.post('/runs/wait', { input: {} })).status, 404)
  t.equal((await person.get(`/threads/${thread}`)).status, 200)
  const answer = await fetch(`${site.url}/health`, { headers: { origin: 'https://pages.example' } })
  t.equal(answer.headers.get('access-control-allow-origin'), 'https://pages.example')
})

t.test('items are kept as long as the project says, and what it asks for in vain is said', async (t) => {
  const settings = {
    store: { index: { embed: 'openai:text-embedding-3-small', dims: 8 }, ttl: { default_ttl: 0.01 } },
    dependencies: ['.']
  }
  const { client, site } = await graphSite(t, { settings })
  await client.store.putItem(['notes'], 'a', { text: 'one' })
  await client.store.putItem(['notes'], 'b', { text: 'two' }, { ttl: 60 })
  await until(
    async () => {
      const { items } = await client.store.searchItems(['notes'])
      return items.length === 1 && items[0]!.key === 'b'
    },
    'the item without a time of its own to go',
    30_000
  )
  const said = site.logged.map(([, fields]) => String(at(fields, 'what')))
  t.ok(said.some((text) => text.startsWith('store.index:')))
  t.ok(said.some((text) => text.startsWith('store.ttl.refresh_on_read:')))
})

t.test('what of the project cannot be served is one sentence', async (t) => {
  const cases: readonly (readonly [settings: object, said: RegExp])[] = [
    [{ http: { app: './app.mjs:nothing' } }, /exports no nothing, which http\.app is to be/],
    [{ http: { app: './agent.mjs:graph' } }, /answers no requests: http\.app is to have a method fetch/],
    [{ graphs: { agent: './agent.py:graph' } }, /graph agent is Python/],
    [{ node_version: '99' }, /asks for Node 99/]
  ]
  for (const [settings, said] of cases) {
    const folder = graphsFolder(t, 'newest', { agent: 'graph' }, settings)
    await t.rejects(openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } }), { message: said })
  }
  const folder = graphsFolder(t)
  writeFileSync(join(folder, 'langgraph.json'), '[]')
  await t.rejects(openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } }), {
    message: /no JSON object/
  })
})
