// Routes of a project's own beside its graphs, and what its langgraph.json says of ours.
import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text as textOfStream } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { ConfigurableHeaders } from '../../lib/langgraph/api/configurable-headers.ts'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { at, listIn, openSite, type Site, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type GraphSite, graphSite, graphsFolder } from '../fixtures/graphs.ts'
import { inEitherLanguage, PYTHON_MISSING, pythonFolder, pythonSite } from '../fixtures/python-graphs.ts'
import { IS_LONG } from '../fixtures/size.ts'

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

t.test('middlewares of the project lie around all that is ours, and may answer themselves', async (t) => {
  const { site, person } = await graphSite(t, { settings: APP })
  const info = await fetch(`${site.url}/info`)
  t.equal(info.headers.get('x-middleware'), 'here')
  t.strictSame(await (await fetch(`${site.url}/info?halt`)).json(), { status: 'halted' })
  t.equal(await status(site, '/threads/search?halt', { method: 'POST', body: '{}' }), 403, 'behind our guards')
  const made = await person.post('/threads?read', { metadata: { a: 1 } })
  t.match(made, { status: 200, body: { metadata: { a: 1 } } }, 'a body that one has read is ours as well')
  t.equal(made.headers.get('x-seen'), '200')
  t.equal(made.headers.get('content-type'), 'application/json')
  const missing = await person.get(`/api/threads/${randomUUID()}`)
  t.match(missing, { status: 404, body: { detail: String } })
  t.equal(missing.headers.get('x-seen'), '404')
  t.equal((await person.get('/nowhere')).status, 404, 'what it would say of them itself is not asked for')
  t.equal((await person.get('/info?change')).text, JSON.stringify((await person.get('/info')).body).toUpperCase())
  t.equal((await person.post('/runs/crons?read', { metadata: { a: 'x'.repeat(70_000) } })).status, 413)
})

t.test('a stream of ours bears what middlewares say of its head, and comes as it comes', async (t) => {
  const { person } = await graphSite(t, { settings: APP })
  const thread = await person.thread()
  const asked = { assistant_id: 'agent', input: { messages: [{ role: 'user', content: 'foo' }] } }
  for (const query of ['', '?read']) {
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream${query}`, { body: asked })
    t.equal(stream.headers.get('x-middleware'), 'here')
    t.match(stream.headers.get('content-type'), 'text/event-stream')
    t.equal((await stream.whole()).at(-1)?.event, 'end')
  }
  const waited = await person.post(`/api/threads/${thread}/runs/wait?read`, asked)
  t.equal(listIn(waited.body, 'messages').length, 12)
  t.equal(waited.headers.get('x-middleware'), 'here')
})

/** By a route and by a graph of the project, for whoever has asked for either. */
async function callsItself(t: Test, { person, site, client }: GraphSite): Promise<void> {
  const { body } = await person.get('/custom/client')
  t.equal((await person.get(`/api/threads/${at(body, 'id')}`)).status, 200, 'a route of the project')
  const values = await client.runs.wait(null, 'calling', { input: { steps: [] } })
  const [made] = listIn(values, 'steps')
  t.match((await person.get(`/api/threads/${made}`)).body, { metadata: { by: 'a graph' } }, 'a graph')
  const other = await signIn(site)
  t.equal((await other.get(`/api/threads/${made}`)).status, 404)
}

if (IS_LONG)
  t.test("LangGraph's client for Python without a URL does so too", { skip: PYTHON_MISSING }, async (t) => {
    const calling = { calling: './agent.py:calling' }
    const app = './app.py:app'
    await callsItself(t, await pythonSite(t, pythonFolder(t, calling, { http: { app } })))
    const open = { http: { app, enable_custom_route_auth: false } }
    const { site } = await pythonSite(t, pythonFolder(t, calling, open))
    t.equal(await status(site, '/custom/client'), 500, 'for nobody it is nobody')
  })

t.test("LangGraph's client without an address calls this server, as whoever its code works for", async (t) => {
  for (const isolation of ['none', 'worker']) {
    await callsItself(t, await graphSite(t, { settings: APP, config: { graphs: { isolation } } }))
  }
  const open = await graphSite(t, { settings: OPEN })
  t.equal(await status(open.site, '/custom/client'), 500, 'for nobody it is nobody')
})

t.test('a webhook that is a path is a route of the project', async (t) => {
  const { person, client } = await graphSite(t, { settings: APP, config: { webhooks: { retry_ms: 20 } } })
  const thread = await person.thread()
  const input = { messages: [{ role: 'user', content: 'foo' }] }
  await client.runs.wait(thread, 'agent', { input, webhook: '/custom/webhook' })
  const brought = async () => (await person.get('/custom/webhook')).body
  await until(async () => at(await brought(), 'status') === 'success', 'the webhook')
  t.equal(at(await brought(), 'thread_id'), thread)
  for (const webhook of ['//elsewhere.example/x', '/custom/me', '/threads', '/nowhere'])
    t.equal((await person.post(`/api/threads/${thread}/runs`, { assistant_id: 'agent', input, webhook })).status, 422)
})

t.test(
  'a webhook that is a path runs as the run’s user, with the rights of who asked for it, however it is spelled',
  async (t) => {
    const folder = graphsFolder(
      t,
      'newest',
      { agent: 'graph' },
      { auth: { path: './auth.mjs:auth' }, http: { app: './hooked.mjs:app' } }
    )
    writeFileSync(
      join(folder, 'hooked.mjs'),
      `import { Client } from '@langchain/langgraph-sdk'
     import { Hono } from 'hono'
     const seen = []
     export const app = new Hono()
       .use('/admin/*', (c, next) => (c.env.user?.permissions.includes('boss') ? next() : c.text('bosses only', 403)))
       .post('/admin/delete/:id', (c) => c.text(seen.push('deleted')))
       .post('/hook', async (c) => {
         const made = await new Client().threads.create().catch((error) => ({ thread_id: error.message }))
         seen.push({ user: c.env.user, made: made.thread_id })
         return c.text('')
       })
       .get('/seen', (c) => c.json(seen))`
    )
    const webhooks = { retry_ms: 20, attempts: 1 }
    const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder }, webhooks } })
    const person = await signIn(site)
    const john = { authorization: 'Bearer john:me', 'content-type': 'application/json' }
    const scopes = ['runs:create', 'runs:read', 'threads:read']
    const made = await person.post('/api/v1/auth/tokens', { name: 'few', scopes })
    const few = { 'x-api-key': textIn(made.body, 'token'), 'content-type': 'application/json' }
    const start = (headers: Record<string, string>, webhook: string) => {
      const body = JSON.stringify({ assistant_id: 'agent', input: { messages: [] }, webhook })
      return status(site, '/runs/wait', { method: 'POST', headers, body })
    }
    const seen = async () => listIn((await person.get('/seen')).body)
    const id = textIn((await person.get('/api/v1/auth/me')).body, 'id')
    for (const [headers, webhook, user, mayWrite] of [
      [john, '/hook', { identity: 'john', permissions: ['me'] }, true],
      [few, '/x/../hook', { identity: id, permissions: scopes }, false],
      [{ ...person.headers(), 'content-type': 'application/json' }, '/%68ook/', { identity: id }, true]
    ] as const) {
      const before = (await seen()).length
      t.equal(await start(headers, webhook), 200)
      await until(async () => (await seen()).length > before, webhook)
      const last = (await seen()).at(-1)
      t.match(last, { user }, webhook)
      t.equal(/^[0-9a-f-]{36}$/.test(textIn(last, 'made')), mayWrite, `${webhook}: ${at(last, 'made')}`)
    }
    for (const webhook of ['/admin/delete/42', '/files/../admin/delete/42', '/x/./../%61dmin/delete/42/'])
      t.equal(await start(john, webhook), 200)
    t.equal(await start(john, '/x/%2e%2E/admin/delete/42'), 422, 'escaped dots are in no path')
    const gone = () => site.logged.filter(([, fields]) => /answered 403/.test(String(at(fields, 'reason')))).length
    await until(() => gone() === 3, 'what the project refuses')
    t.notOk((await seen()).includes('deleted'))
  }
)

t.test('of a project that names a route in two forms, what is said of either is asked', async (t) => {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { http: { app: './two.mjs:app' } })
  writeFileSync(
    join(folder, 'two.mjs'),
    `import { Hono } from 'hono'
     const mark = (name) => async (c, next) => {
       if (c.req.query('refuse') === name) return c.text(name, 418)
       if (c.req.query('read') === name) await c.req.json()
       await next()
       c.header('x-' + name, 'here')
     }
     export const app = new Hono()
       .use('/threads/*', mark('root'))
       .use('/api/threads/*', mark('api'))
       .get('/threads/:id/mine', (c) => c.text('mine'))`
  )
  const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  const person = await signIn(site)
  for (const prefix of ['', '/api', '/api/langgraph']) {
    for (const name of ['root', 'api']) {
      t.equal((await person.post(`${prefix}/threads/search?refuse=${name}`)).text, name)
      t.equal((await person.get(`${prefix}/threads/x/mine?refuse=${name}`)).text, name)
      t.match(await person.post(`${prefix}/threads/search?read=${name}`, { limit: 1 }), { status: 200, body: [] })
    }
    const { headers } = await person.post(`${prefix}/threads/search`)
    t.strictSame([headers.get('x-root'), headers.get('x-api')], ['here', 'here'])
    t.equal((await person.get(`${prefix}/threads/x/mine`)).text, 'mine')
  }
})

/** A tool that puts a component of its own in the place of LangGraph's. */
function bundler(folder: string): void {
  const tool = join(folder, 'node_modules', '@langchain', 'langgraph-ui')
  mkdirSync(tool, { recursive: true })
  writeFileSync(join(tool, 'package.json'), '{"name":"@langchain/langgraph-ui","type":"module","main":"./index.mjs"}')
  writeFileSync(
    join(tool, 'index.mjs'),
    `import { mkdirSync, writeFileSync } from 'node:fs'
     export async function build({ output, defs, cwd }) {
       for (const [name, path] of Object.entries(defs)) {
         mkdirSync(output + '/public/' + name, { recursive: true })
         writeFileSync(output + '/public/' + name + '/entrypoint.js', '// ' + path + ' of ' + cwd)
         writeFileSync(output + '/public/' + name + '/entrypoint.css', 'p { color: red }')
       }
     }`
  )
}

inEitherLanguage(
  'components for pages are bundled by the tool beside the project, and told as its own server tells them',
  ['graph'],
  { ui: { graph: './ui.tsx', 'two.0': './ui.tsx' } },
  async (t, { site, person, folder }) => {
    const { host } = new URL(site.url)
    for (const [prefix, graph, id] of [
      ['', 'graph', 'graph'],
      ['/api', 'two.0', 'two_0']
    ] as const) {
      const { text } = await person.post(`${prefix}/ui/${graph}`, { name: "it's" })
      t.equal(
        text,
        `<link rel="stylesheet" href="http://${host}${prefix}/ui/${graph}/entrypoint.css" />\n` +
          `<script src="http://${host}${prefix}/ui/${graph}/entrypoint.js" onload='__LGUI_${id}.render("it&#39;s", "{{shadowRootId}}")'></script>`
      )
      const script = await fetch(`http://${host}${prefix}/ui/${graph}/entrypoint.js`)
      t.match(script.headers.get('content-type'), 'text/javascript')
      t.equal(await script.text(), `// ./ui.tsx of ${folder}`)
    }
    t.equal((await person.post('/ui/other', { name: 'x' })).status, 404)
    t.equal(await status(site, '/ui/graph/other.js'), 404)
    t.equal(await status(site, '/ui/graph', { method: 'POST', body: '{}' }), 403)
  },
  bundler
)

inEitherLanguage(
  'without that tool it is said that components are not served',
  ['graph'],
  { ui: { graph: './ui.tsx' } },
  async (t, { person, site }) => {
    t.equal((await person.post('/ui/graph', { name: 'x' })).status, 404)
    t.ok(site.logged.some(([level, , text]) => level === 'warn' && /components of langgraph.json/.test(String(text))))
  }
)

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

t.test('an app that answers before it has read a body leaves nothing of it to the next request', async (t) => {
  const { site, person } = await graphSite(t, { settings: APP, config: { server: { body_bytes: 65_536 } } })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const send = (path: string, parts: readonly string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const sent = request(site.url + path, { method: 'POST', agent, headers: person.headers() }, (answer) => {
        textOfStream(answer).then(resolve, reject)
      })
      sent.on('error', reject)
      for (const part of parts) sent.write(part)
      setTimeout(() => sent.end('end'), 50)
    })
  const answers = async () => {
    const echoed = () => send('/custom/echo', ['hello ']).catch(() => '')
    await until(async () => (await echoed()) === 'HELLO END', 'the next one is answered', 5000)
  }
  t.match(await send('/custom/first', ['x'.repeat(100)]), /^10[03]$/)
  await answers()
  t.equal(await send('/custom/count', ['x'.repeat(100)]), 'counting 103')
  await t.rejects(send('/custom/count', ['x'.repeat(70_000)]), 'a part of an answer is none')
  await answers()
})

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

const PARTS_OFF = {
  http: {
    ...{ disable_store: true, disable_runs: true, disable_mcp: true, disable_a2a: true, disable_webhooks: true },
    cors: { allow_origins: ['https://pages.example'] }
  }
}

inEitherLanguage(
  'parts that the project turns off are not there, and its origins may call',
  ['graph'],
  PARTS_OFF,
  async (t, { person, site }) => {
    const thread = await person.thread()
    t.equal((await person.post('/store/items/search')).status, 404)
    t.equal((await person.post(`/threads/${thread}/runs`, { input: {} })).status, 404)
    t.equal((await person.post('/runs/wait', { input: {} })).status, 404)
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    for (const path of ['/mcp', '/a2a/graph']) t.equal((await person.post(path, call)).status, 404, path)
    t.equal((await person.get('/.well-known/agent-card.json?assistant_id=graph')).status, 404)
    t.not((await person.get('/api/mcp/config')).status, 404, 'its own tool servers are something else')
    t.ok(site.logged.some(([, fields]) => /disable_webhooks/.test(String(at(fields, 'what')))))
    t.equal((await person.get(`/threads/${thread}`)).status, 200)
    const answer = await fetch(`${site.url}/health`, { headers: { origin: 'https://pages.example' } })
    t.equal(answer.headers.get('access-control-allow-origin'), 'https://pages.example')
  }
)

const FORGETFUL = {
  store: {
    path: './store.py:make_store',
    index: { embed: 'openai:text-embedding-3-small', dims: 8 },
    ttl: { default_ttl: 0.05 }
  },
  checkpointer: { path: './saver.py:make_saver' },
  dependencies: ['.']
}

inEitherLanguage(
  'items are kept as long as the project says, also those of a graph, and what it asks for in vain is said',
  ['keeping'],
  FORGETFUL,
  async (t, { client, site }) => {
    const kept = await client.runs.wait(null, 'keeping', { input: { steps: ['tea'] } })
    t.ok(listIn(kept, 'steps').includes('last: tea'), 'a graph has what it keeps')
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
    const { items } = await client.store.searchItems(['memories'])
    t.strictSame(items, [], 'nor is what the graph has kept')
    const said = site.logged.map(([, fields]) => String(at(fields, 'what')))
    for (const what of ['store.index', 'store.path', 'store.ttl.refresh_on_read', 'checkpointer'])
      t.equal(said.filter((text) => text.startsWith(`${what}:`)).length, 1, what)
  }
)

inEitherLanguage(
  'a graph is told which thread, run, assistant and graph it is for, and not what the caller says',
  ['described'],
  {},
  async (t, { person }) => {
    const thread = await person.thread()
    const names = ['thread_id', 'run_id', 'assistant_id', 'graph_id']
    const metadata = { ...Object.fromEntries(names.map((name) => [name, 'forged'])), own: 'yes' }
    const asked = { assistant_id: 'described', input: { steps: [] }, metadata, config: { metadata } }
    const { body } = await person.post(`/api/threads/${thread}/runs/wait`, asked)
    const told = JSON.parse(String(listIn(body, 'steps')[0]))
    const [run] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    const ids = { run_id: at(run, 'run_id'), assistant_id: at(run, 'assistant_id') }
    t.match(told, { thread_id: thread, ...ids, graph_id: 'described', own: 'yes' })
    t.notMatch(JSON.stringify(told), /forged/)
  }
)

inEitherLanguage(
  'the goal of a thread stands in its metadata, waits for the run at work, and is told to its graph until it is cleared',
  ['told', 'odd'],
  {},
  async (t, { person, client }) => {
    const { thread_id: thread } = await client.threads.create()
    const path = `/api/threads/${thread}/goal`
    // Each run adds what it is told.
    const timesTold = async () => {
      const values = await client.runs.wait(thread, 'told', { input: { steps: [] } })
      return listIn(values, 'steps').filter((line) => String(line).startsWith('goal: ')).length
    }
    t.strictSame((await person.get(path)).body, { goal: null })
    const put = () => person.ask('PUT', path, { body: { objective: 'Report' } })
    t.match((await put()).body, { goal: { objective: 'Report', status: 'active' } })
    t.match((await person.get(path)).body, { goal: { objective: 'Report' } })
    t.match((await client.threads.get(thread)).metadata, { goal: { objective: 'Report' } })
    t.equal(await timesTold(), 1)
    const run = await client.runs.create(thread, 'odd', { input: { what: 'hang' } })
    await until(async () => (await client.runs.get(thread, run.run_id)).status === 'running', 'it works')
    t.equal((await put()).status, 409)
    await client.runs.cancel(thread, run.run_id, true)
    t.strictSame((await person.ask('DELETE', path)).body, { goal: null })
    t.strictSame((await person.get(path)).body, { goal: null })
    t.equal(await timesTold(), 1, 'and no more')
  }
)

inEitherLanguage(
  'a thread whose metadata names a graph that is gone has the state of the one that ran',
  ['graph', 'asker'],
  {},
  async (t, { person }) => {
    const { body } = await person.post('/api/threads', { metadata: { graph_id: 'gone' } })
    const path = `/api/threads/${textIn(body, 'thread_id')}`
    const asked = { assistant_id: 'graph', input: { messages: [{ role: 'user', content: 'foo' }] } }
    t.equal(listIn((await person.post(`${path}/runs/wait`, asked)).body, 'messages').length, 4)
    t.equal(listIn((await person.get(`${path}/state`)).body, 'values', 'messages').length, 4)
    // Nor does another that is there take its place.
    await person.ask('PATCH', path, { body: { metadata: { graph_id: 'asker' } } })
    t.equal(listIn((await person.get(path)).body, 'values', 'messages').length, 4)
  }
)

const TELLING = { http: { configurable_headers: { include: ['*'], exclude: ['x-private-*', 'Accept*', 'host'] } } }

inEitherLanguage(
  'headers that the project names are told to graphs, credentials and reserved keys never',
  ['told'],
  TELLING,
  async (t, { site, person }) => {
    const key = textIn((await person.post('/api/v1/auth/tokens', { name: 'told', scopes: PERMISSIONS })).body, 'token')
    const own = ['thread_id', 'run_id', 'user_id', 'graph_id', 'checkpoint_id', 'langgraph_auth_user', '__proto__']
    const headers: Record<string, string> = {
      'x-org': 'tea',
      'my-own': 'yes',
      'x-private-key': 'secret',
      'proxy-authorization': 'secret',
      'x-service-key': 'secret',
      'x-tenant-id': 'secret',
      ...Object.fromEntries(own.map((name) => [name, 'forged'])),
      'content-type': 'application/json'
    }
    const wait = async (credential: Record<string, string>, body: object): Promise<string[]> => {
      const given = { method: 'POST', headers: { ...headers, ...credential }, body: JSON.stringify(body) }
      return listIn(await (await fetch(`${site.url}/runs/wait`, given)).json(), 'steps').map(String)
    }
    const body = { assistant_id: 'told', input: { steps: [] } }
    for (const credential of [person.headers(), { 'x-api-key': key }, { authorization: `Bearer ${key}` }]) {
      const steps = await wait(credential, body)
      t.ok(steps.includes('x-org: tea') && steps.includes('my-own: yes'), Object.keys(credential).join())
      t.notMatch(steps.join(), /secret|forged|authorization|cookie|x-api-key|x-csrf|accept|host:/)
    }
    const said = { ...body, config: { configurable: { 'x-org': 'said' } } }
    t.ok((await wait({ 'x-api-key': key }, said)).includes('x-org: tea'), 'a header counts, as with LangGraph itself')
  }
)

t.test('headers: a star is any characters, what is excluded is not included, case does not count', (t) => {
  const request = (headers: Record<string, string>) => ({ req: { headers } as IncomingMessage })
  const names = ['user-agent', 'x-org-id', 'x-org-key', 'x-forwarded-for', 'x-real-ip', 'my-own', 'x-api-key', 'cookie']
  const sent = Object.fromEntries(names.map((name) => [name, 'v']))
  const cases: readonly (readonly [include: string[], exclude: string[], told: string[]])[] = [
    [[], [], ['user-agent', 'x-org-id', 'x-org-key']],
    [[], ['*'], []],
    [[], ['X-*-Key'], ['user-agent', 'x-org-id']],
    [['X-Org-*'], [], ['x-org-id', 'x-org-key']],
    [['x-org-*'], ['x-org-key'], ['x-org-id']],
    [['my-own', 'x-api-key', 'cookie'], [], ['my-own']],
    [['*forwarded*', 'x-*-i*d', 'x-o*o*'], [], ['x-org-id', 'x-forwarded-for']],
    [['x-org'], [], []],
    [['*'], ['my-*', 'x-*'], ['user-agent']]
  ]
  for (const [include, exclude, told] of cases) {
    const found = Object.keys(new ConfigurableHeaders({ include, exclude }).of(request(sent)))
    t.strictSame(found.sort(), told.sort(), JSON.stringify([include, exclude]))
  }
  const long = new ConfigurableHeaders({ include: [`${'*a'.repeat(40)}*b`], exclude: [] })
  t.strictSame(long.of(request({ ['a'.repeat(16_000)]: 'v' })), {}, 'no name makes a pattern cost more than its length')
  t.end()
})

t.test('what of the project cannot be served is one sentence', async (t) => {
  const cases: readonly (readonly [settings: object, said: RegExp])[] = [
    [{ http: { app: './app.mjs:nothing' } }, /exports no nothing, which http\.app names/],
    [
      { http: { app: './agent.mjs:graph' } },
      /exports no app for http\.app: it must be a function or have a method fetch/
    ],
    [{ graphs: { agent: './agent.py:graph' } }, /\/nowhere\/python/],
    [{ http: { configurable_headers: ['x-org'] } }, /http\.configurable_headers is to be/],
    [{ http: { configurable_headers: { excludes: 'x-org' } } }, /langgraph\.json: http\.configurable_headers is to be/],
    [{ http: { configurable_headers: { include: [1] } } }, /http\.configurable_headers is to be/],
    [{ node_version: '99' }, /asks for Node 99/]
  ]
  for (const [settings, said] of cases) {
    const folder = graphsFolder(t, 'newest', { agent: 'graph' }, settings)
    const agent = { runtime: 'graphs', config: folder, python: '/nowhere/python' }
    await t.rejects(openSite(t, { config: { agent } }), { message: said })
  }
  const folder = graphsFolder(t)
  writeFileSync(join(folder, 'langgraph.json'), '[]')
  await t.rejects(openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } }), {
    message: /is not a JSON object/
  })
  writeFileSync(
    join(folder, 'langgraph.json'),
    '{"env": {"a": "{"}, "graphs": {"a": "./agent.mjs:graph", "b": {"path": "./a.py:b"}, "\\u0061": "./agent.py:graph"}}'
  )
  await t.rejects(openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } }), {
    message: /names graph a twice: give each a name of its own/
  })
})
