// The sections of langgraph.json beside its graphs: rules about who calls and what they may do, routes of the project's own, defaults of
// the store.
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { AuthHandlers } from '../../lib/langgraph/project/auth-handlers.ts'
import { AccessPolicy } from '../../lib/langgraph/project/access-policy.ts'
import { withRules } from '../../lib/routes/authorization.ts'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { timestamp } from '../../lib/base/types.ts'
import { at, listIn, openSite, textIn, until } from '../fixtures/gateway.ts'
import { type GraphSite, graphSite, graphsFolder } from '../fixtures/graphs.ts'
import { table } from '../fixtures/openapi.ts'
import { PYTHON_MISSING, pythonFiles, pythonSite } from '../fixtures/python-graphs.ts'
import { IS_LONG } from '../fixtures/size.ts'
import { eventsPath, ProtocolClient } from '../fixtures/protocol.ts'

const FOO = { messages: [{ role: 'human', content: 'foo' }] }

/** Somebody whom only the project's own rules know. */
function caller({ site }: Pick<GraphSite, 'site'>, name: string, ...permissions: string[]): Client {
  const authorization = `Bearer ${name}:${permissions.join(',')}`
  return new Client({ apiUrl: site.url, apiKey: null, defaultHeaders: { authorization } })
}

/** A rule that holds in whichever language the project has written its own; `rules`: where they are, in a file of each. */
function rule(
  name: string,
  work: (t: Test, site: GraphSite) => Promise<void>,
  rules = 'auth:auth',
  graphs?: Readonly<Record<string, string>>
): void {
  const config = { streams: { heartbeat_ms: 200 } }
  const settings = (ending: string) => {
    const [file, auth] = rules.split(':')
    return { auth: { path: `./${file}.${ending}:${auth}`, disable_studio_auth: true } }
  }
  const more = graphs ? { graphs } : {}
  t.test(name, async (t) => work(t, await graphSite(t, { settings: settings('mjs'), config, ...more })))
  if (!IS_LONG) return
  t.test(`${name}: in Python`, { skip: PYTHON_MISSING }, async (t) =>
    work(t, await pythonSite(t, pythonFiles(graphsFolder(t, 'newest', graphs, settings('py'))), config))
  )
}

/** John asks, as X-Person says. */
const askingAt =
  ({ site }: GraphSite) =>
  async (method: string, path: string, body?: object) => {
    const headers = { 'x-person': 'john', 'content-type': 'application/json' }
    const answer = await fetch(site.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const text = await answer.text()
    return { status: answer.status, body: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text }
  }

const refused = (t: Test, doing: Promise<unknown>, status: number) => t.rejects(doing, new RegExp(`HTTP ${status}`))

rule('rules of the project say who calls where nobody has signed in', async (t, site) => {
  const john = caller(site, 'john', 'me')
  const thread = await john.threads.create()
  t.equal(thread.metadata?.owner, 'john')
  const values = await john.runs.wait(thread.thread_id, 'agent', { input: FOO })
  t.equal(listIn(values, 'messages').length, 4)
  t.equal((await john.threads.getHistory(thread.thread_id)).length, 5)

  const answer = await fetch(`${site.site.url}/threads/${thread.thread_id}`, {
    headers: { authorization: 'Bearer nobody:me' }
  })
  t.equal(answer.status, 401)
  t.equal(answer.headers.get('www-authenticate'), 'Bearer')
  t.strictSame(await answer.json(), { detail: 'Could not validate credentials' })
  t.equal((await fetch(`${site.site.url}/threads/${thread.thread_id}`)).status, 401)
  // Who says to be LangGraph's studio is nobody for that.
  const studio = { headers: { 'x-auth-scheme': 'langsmith' } }
  t.equal((await fetch(`${site.site.url}/threads/${thread.thread_id}`, studio)).status, 401)

  // Who is signed in with us is asked about as well, and is somebody else.
  await refused(t, site.client.threads.get(thread.thread_id), 404)
  const own = await site.client.threads.create()
  t.not(own.metadata?.owner, 'john')
  await refused(t, john.threads.get(own.thread_id), 404)
})

rule('nobody becomes one of our users by an identity, and no account is changed by one', async (t, site) => {
  const me = await site.person.get('/api/v1/auth/me')
  const authorization = 'Bearer john:me'
  const john = await fetch(`${site.site.url}/api/v1/auth/me`, { headers: { authorization } })
  if (john.ok) t.not(at(await john.json(), 'id'), at(me.body, 'id'))
  for (const path of ['/api/v1/auth/tokens', '/api/v1/auth/change-password']) {
    const body = JSON.stringify({ name: 'x', scopes: ['threads:read'], current_password: 'x', new_password: 'y' })
    const headers = { authorization, 'content-type': 'application/json' }
    t.equal((await fetch(site.site.url + path, { method: 'POST', headers, body })).status, 403, path)
  }
})

rule('a page of another site does nothing in the name of whom the rules know', async (t, site) => {
  const ask = (headers: Record<string, string>) =>
    fetch(`${site.site.url}/threads`, {
      method: 'POST',
      headers: { authorization: 'Bearer john:me', 'content-type': 'application/json', ...headers },
      body: '{}'
    })
  t.equal((await ask({ origin: 'https://evil.example' })).status, 403)
  t.equal((await ask({ origin: site.site.url })).status, 200)
  // A cookie of ours is a session of ours, with all that it asks for.
  t.equal((await ask({ cookie: 'access_token=none' })).status, 403)
})

rule('what a rule refuses is refused, and what it lets through it may change', async (t, site) => {
  const [john, jane] = [caller(site, 'john', 'me'), caller(site, 'jane', 'me', 'assistants')]
  await refused(t, john.assistants.create({ graphId: 'agent' }), 403)
  await refused(t, caller(site, 'jane', 'none').crons.search(), 403)
  const assistant = await jane.assistants.create({ graphId: 'factory', metadata: { a: 1 } })
  t.strictSame(assistant.metadata, { a: 1, owner: 'jane' })
  const { thread_id } = await john.threads.create()
  await john.threads.update(thread_id, { metadata: { owner: 'jane', b: 2 } })
  t.match((await john.threads.get(thread_id)).metadata, { owner: 'john', b: 2 })
  const config = { said: 'hello' } as object
  const values = await john.runs.wait(thread_id, 'factory', { input: { steps: [] }, config })
  t.strictSame(listIn(values, 'steps'), ['word hello heard'])
})

rule('a filter holds for what is found, read, changed and removed, and stands in what is made', async (t, site) => {
  const john = caller(site, 'john', 'me', 'assistants')
  const jane = caller(site, 'jane', 'me', 'assistants')
  const [his, hers] = [
    await john.assistants.create({ graphId: 'agent' }),
    await jane.assistants.create({ graphId: 'agent' })
  ]
  const ids = async (client: Client) => (await client.assistants.search()).map(({ assistant_id }) => assistant_id)
  t.strictSame(await ids(john), [his.assistant_id])
  t.strictSame(await ids(jane), [hers.assistant_id])
  await refused(t, jane.assistants.get(his.assistant_id), 404)
  await refused(t, jane.assistants.update(his.assistant_id, { metadata: { a: 1 } }), 404)
  await refused(t, jane.assistants.delete(his.assistant_id), 404)
  t.equal((await john.assistants.update(his.assistant_id, { metadata: { a: 1 } })).metadata?.owner, 'john')

  const { thread_id } = await john.threads.create()
  t.strictSame(await john.threads.search({ metadata: { owner: 'jane' } }), [])
  t.equal((await john.threads.search()).length, 1)
  await refused(t, jane.threads.get(thread_id), 404)
  await refused(t, jane.threads.copy(thread_id), 404)
  await refused(t, jane.runs.wait(thread_id, 'agent', { input: FOO }), 404)
  t.ok(await john.threads.copy(thread_id))
  // A thread that a run makes bears it too.
  const run = await john.runs.create(null, 'agent', { input: FOO, onCompletion: 'keep' } as object)
  t.equal((await john.threads.get(run.thread_id)).metadata?.owner, 'john')

  const cron = await john.crons.create('agent', { schedule: '0 0 1 1 *' })
  t.match((cron as unknown as { metadata: object }).metadata, { owner: 'crons', teams: ['blue'] })
  t.equal((await john.crons.search()).length, 1)
  t.equal((await john.crons.search({ metadata: { owner: 'somebody' } } as object)).length, 0)
})

rule(
  'a filter keeps a thread of one’s own that does not hold it',
  async (t, { site }) => {
    const client = new Client({ apiUrl: site.url, apiKey: null, defaultHeaders: { 'x-person': 'john' } })
    const open = await client.threads.create({ metadata: { project: 'open' } })
    const other = await client.threads.create({ metadata: { project: 'other' } })
    t.strictSame(
      (await client.threads.search()).map(({ thread_id }) => thread_id),
      [open.thread_id]
    )
    t.equal(await client.threads.count(), 1)
    const list = `${site.url}/api/copilotkit/threads?agentId=agent`
    const listed: unknown = await (await fetch(list, { headers: { 'x-person': 'john' } })).json()
    t.match(listed, { threads: [{ id: open.thread_id }], nextCursor: null })
    t.equal(listIn(listed, 'threads').length, 1, 'nor does another protocol list it')
    const { thread_id } = other
    const path = `${site.url}/threads/${thread_id}`
    const headers = { 'x-person': 'john', 'content-type': 'application/json' }
    const body = (method: string) => (method === 'GET' || method === 'DELETE' ? {} : { body: '{}' })
    const ways: readonly (readonly [string, string])[] = [
      ['GET', ''],
      ['GET', '/state'],
      ['POST', '/history'],
      ['POST', '/runs'],
      ['GET', '/runs'],
      ['PATCH', ''],
      ['DELETE', ''],
      ['GET', '/messages'],
      ['POST', '/copy']
    ]
    for (const [method, more] of ways)
      t.equal((await fetch(path + more, { method, headers, ...body(method) })).status, 404, method + more)
    t.equal((await fetch(`${site.url}/threads/${open.thread_id}`, { headers })).status, 200)
  },
  'ruled:open'
)

rule(
  'of several rules the nearest is asked',
  async (t, site) => {
    const ask = askingAt(site)
    for (const [path, asked] of [
      ['/threads', 'threads:create'],
      ['/threads/search', 'threads'],
      ['/assistants', '*:create'],
      ['/assistants/search', '*']
    ] as const)
      t.match(await ask('POST', path, { graph_id: 'agent' }), { status: 403, body: { detail: asked } }, path)
  },
  'ruled:nearest'
)

rule('a graph knows who asks as the rules do', async (t, site) => {
  const john = caller(site, 'john', 'me', 'more')
  const values = await john.runs.wait(null, 'asker', { input: { steps: [] } })
  t.match(JSON.parse(String(listIn(values, 'steps')[0])), {
    langgraph_auth_user: { identity: 'john', team: 'blue', permissions: ['me', 'more'], is_authenticated: true },
    langgraph_auth_user_id: 'john',
    langgraph_auth_permissions: ['me', 'more']
  })
  // Nobody says so himself.
  const configurable = { langgraph_auth_user_id: 'jane', langgraph_auth_user: { identity: 'jane' } }
  const config = { configurable } as object
  const again = await john.runs.wait(null, 'asker', { input: { steps: [] }, config })
  t.match(JSON.parse(String(listIn(again, 'steps')[0])), { langgraph_auth_user_id: 'john' })
})

rule('items lie where the rules put them', async (t, site) => {
  const john = caller(site, 'john', 'me')
  await john.store.putItem(['john', 'notes'], 'a', { text: 'one' })
  await refused(t, john.store.putItem(['jane'], 'a', { text: 'one' }), 403)
  await john.store.putItem(['shared'], 'b', { text: 'two' })
  t.match(await john.store.getItem(['john', 'shared'], 'b'), { value: { text: 'two' } })
  t.match(await john.store.getItem(['shared'], 'b'), { value: { text: 'two' } })
  await refused(t, john.store.searchItems(['jane']), 403)
  t.equal((await john.store.searchItems(['john'])).items.length, 2)
  await refused(t, john.store.listNamespaces({ prefix: ['jane'] }), 403)
})

rule(
  'a filter holds for items too: by their value, their namespace and their key',
  async (t, { site }) => {
    const as = (may: string) => new Client({ apiUrl: site.url, apiKey: null, defaultHeaders: { 'x-may': may } }).store
    const [all, one, two] = [as(''), as('one'), as('two')]
    await one.putItem(['notes'], 'a', { owner: 'one' })
    await two.putItem(['notes', 'deep'], 'b', { owner: 'two' })
    await refused(t, one.putItem(['notes'], 'c', { owner: 'two' }), 403)
    await refused(t, one.putItem(['notes', 'deep'], 'b', { owner: 'one' }), 404)
    t.match(await one.getItem(['notes'], 'a'), { value: { owner: 'one' } })
    await refused(t, one.getItem(['notes', 'deep'], 'b'), 404)
    t.equal(await one.getItem(['notes'], 'none'), null)
    await refused(t, one.deleteItem(['notes', 'deep'], 'b'), 404)
    await refused(t, one.deleteItem(['notes'], 'none'), 403)

    const keys = async (store: Client['store'], more: object = {}) =>
      (await store.searchItems(['notes'], more)).items.map(({ key }) => key)
    t.strictSame(await keys(one), ['a'])
    t.strictSame(await keys(two, { filter: { owner: 'one' } }), [])
    t.strictSame((await keys(all)).sort(), ['a', 'b'])
    for (let n = 0; n < 5; n++) await (n % 2 ? one : two).putItem(['many'], `n${n}`, { owner: n % 2 ? 'one' : 'two' })
    const page = await two.searchItems(['many'], { limit: 1, offset: 1 })
    t.match(page.items, [{ key: 'n2', value: { owner: 'two' } }], 'a page is one of those that it holds for')

    const namespaces = async (store: Client['store']) => (await store.listNamespaces({ prefix: ['notes'] })).namespaces
    t.strictSame(await namespaces(as('in deep')), [['notes', 'deep']])
    t.strictSame(await namespaces(one), [], 'a namespace has no owner')
    t.equal((await namespaces(all)).length, 2)
    await all.putItem(['notes'], 'moved', { text: 'x' })
    t.match(await all.getItem(['notes'], 'there'), { value: { text: 'x', by: 'rule' } })
    await two.deleteItem(['notes', 'deep'], 'b')
    t.equal(await all.getItem(['notes', 'deep'], 'b'), null)
  },
  'ruled:items'
)

rule(
  'threads that go with their assistant are each asked about, before anything is removed',
  async (t, site) => {
    const ask = askingAt(site)
    const assistant = async () => textIn((await ask('POST', '/assistants', { graph_id: 'agent' })).body, 'assistant_id')
    const thread = async (assistant_id: string, start: string, project: string) => {
      const thread_id = start + randomUUID().slice(1)
      await ask('POST', '/threads', { thread_id, metadata: { assistant_id, project } })
      return thread_id
    }
    const isThere = async (id: string) => (await ask('GET', `/threads/${id}`)).status === 200
    const [one, other] = [await assistant(), await assistant()]
    const ids = [await thread(one, '1', 'open'), await thread(one, '0', 'open')]
    t.match(await ask('DELETE', `/assistants/${one}?delete_threads=true`), { status: 403, body: { detail: 'kept' } })
    t.equal((await ask('GET', `/assistants/${one}`)).status, 200)
    t.strictSame(await Promise.all(ids.map(isThere)), [true, true], 'nothing is half removed')
    const [open, hidden] = [await thread(other, '1', 'open'), await thread(other, '1', 'other')]
    t.equal((await ask('DELETE', `/assistants/${other}?delete_threads=true`)).status, 200)
    t.strictSame([await isThere(open), await isThere(hidden)], [false, true], 'what a filter hides stays')
  },
  'ruled:keeping'
)

rule(
  'what is made bears the filter of its rule, whatever its maker says',
  async (t, site) => {
    const ask = askingAt(site)
    const metadata = { owner: 'me', teams: ['red'], own: 1 }
    const borne = { metadata: { owner: 'rule', teams: ['red', 'blue'], own: 1 } }
    const thread = await ask('POST', '/threads', { metadata })
    t.match(thread, { status: 200, body: borne })
    t.match(await ask('POST', '/assistants', { graph_id: 'agent', metadata }), { status: 200, body: borne })
    t.match(await ask('POST', '/runs/crons', { schedule: '0 0 1 1 *', metadata }), { status: 200, body: borne })
    const id = textIn(thread.body, 'thread_id')
    t.match(await ask('POST', `/threads/${id}/copy`), { status: 200, body: borne })
    const run = await ask('POST', `/threads/${id}/runs`, { assistant_id: 'agent', input: { messages: [] }, metadata })
    t.match(run, { status: 200, body: { metadata: { owner: 'rule', own: 1 } } })
  },
  'ruled:bearing'
)

rule(
  'a copy is made with what the rule for making says',
  async (t, site) => {
    const ask = askingAt(site)
    const { body } = await ask('POST', '/threads', { metadata: { project: 'open' } })
    t.match(await ask('POST', `/threads/${textIn(body, 'thread_id')}/copy`), {
      body: { metadata: { project: 'copies' } }
    })
  },
  'ruled:copying'
)

rule(
  'an assistant that a filter hides is not shown to who makes it again',
  async (t, site) => {
    const ask = askingAt(site)
    const asked = { assistant_id: randomUUID(), graph_id: 'agent', if_exists: 'do_nothing' }
    t.equal((await ask('POST', '/assistants', { ...asked, name: 'first' })).status, 200)
    t.equal((await ask('POST', '/assistants', asked)).status, 409)
  },
  'ruled:hiding'
)

rule(
  'a search under a filter finds all items that it holds for, however long they are',
  async (t, site) => {
    const ask = askingAt(site)
    const text = 'x'.repeat(60_000)
    for (let n = 0; n < 150; n++)
      await ask('PUT', '/store/items', {
        namespace: ['many'],
        key: `k${n}`,
        value: { owner: n % 3 ? 'john' : 'jane', text }
      })
    const found = await ask('POST', '/store/items/search', { namespace_prefix: ['many'], limit: 1000 })
    t.equal(listIn(found.body, 'items').length, 100)
    const last = await ask('POST', '/store/items/search', { namespace_prefix: ['many'], limit: 5, offset: 97 })
    t.equal(listIn(last.body, 'items').length, 3)
  },
  'ruled:searching'
)

rule(
  'who the rules no longer know keeps neither a stream nor a WebSocket, and starts nothing on one',
  async (t, { site }) => {
    const head = (name: string) => ({ 'x-person': name, 'content-type': 'application/json' })
    const made = await fetch(`${site.url}/threads`, { method: 'POST', headers: head('john'), body: '{}' })
    const thread = textIn(await made.json(), 'thread_id')
    const socket = async (name: string) => {
      const ws = new WebSocket(`${site.url.replace('http', 'ws')}${eventsPath(thread)}`, { headers: head(name) })
      const client = new ProtocolClient(ws)
      t.teardown(() => client.close())
      await new Promise((resolve, reject) => ws.once('open', resolve).once('error', reject))
      return client
    }
    const [gone, stays] = [await socket('john'), await socket('jane')]
    const stream = await fetch(`${site.url}/threads/${thread}/stream`, { headers: head('john') })
    const ended = stream.text().then(
      () => 'ended',
      () => 'reset'
    )
    t.equal(
      (await fetch(`${site.url}/threads?forget`, { method: 'POST', headers: head('john'), body: '{}' })).status,
      401
    )
    void gone.command('run.start', { assistant_id: 'agent', input: { messages: [] } })
    await until(() => gone.closed !== null, 'its WebSocket is closed')
    t.equal(gone.closed?.code, 4401)
    t.equal(await ended, 'reset')
    const runs = await fetch(`${site.url}/threads/${thread}/runs`, { headers: head('jane') })
    t.strictSame(await runs.json(), [], 'no run was started on it')
    // The same user by another credential, which still holds.
    t.match(await stays.command('state.get'), { type: 'success' })
  },
  'ruled:leaving'
)

rule(
  'the runs and crons of one whom only the rules know go on: there is no account that could be gone',
  async (t, site) => {
    const john = caller(site, 'john', 'me')
    const { thread_id } = await john.threads.create()
    t.ok(
      await john.runs.wait(thread_id, 'slow', { input: FOO, config: { configurable: { delay: 1000 } } }),
      'it took several looks'
    )
    await john.crons.create('slow', { input: FOO, schedule: '0 0 1 1 *' })
    const db = new Sqlite(join(site.site.home, 'data', 'colloquy.db'))
    t.teardown(() => db.close())
    const past = timestamp(Date.now() - 60_000)
    db.prepare("UPDATE jobs SET due_at = ?, set_at = ? WHERE kind = 'turn'").run(past, past)
    await until(() => site.site.logged.some(([, , text]) => text === 'a cron has started a run'), 'its turn', 30_000)
    t.equal((await john.crons.search()).length, 1, 'it is still there')
  },
  'auth:auth',
  { slow: 'hooks.mjs:slow' }
)

t.test('rules that are none are said at the start', async (t) => {
  const cases: readonly (readonly [text: string, said: RegExp])[] = [
    ['export const other = 1', /exports no default, which auth\.path names/],
    ['export default {}', /is not an Auth object of/],
    ['\nthrow new Error("no key")', /auth-broken\.mjs:2 cannot be loaded: no key/]
  ]
  for (const [text, said] of cases) {
    const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { auth: { path: './auth-broken.mjs' } })
    writeFileSync(join(folder, 'auth-broken.mjs'), text)
    await t.rejects(openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } }), { message: said })
  }
})

rule(
  'rules that fail or do not answer let nobody in',
  async (t, { site }) => {
    const type = { 'content-type': 'application/json' }
    const ask = async (path: string, headers: Record<string, string> = { 'x-person': 'x' }) =>
      (await fetch(site.url + path, { method: 'POST', headers: { ...headers, ...type }, body: '{}' })).status
    t.equal(await ask('/threads', {}), 500)
    t.equal(await ask('/threads'), 500)
    t.equal(await ask('/threads/search'), 500, 'a filter that is not understood')
    t.equal(await ask('/assistants/search'), 500, 'an answer that is none')
  },
  'ruled:mistaken'
)

t.test('the rules are asked before every route that is about something of LangGraph’s', (t) => {
  const rules = new AuthHandlers({})
  // What the routes do is not asked for here.
  const asked = withRules(table, new AccessPolicy(rules), {} as Parameters<typeof withRules>[2])
  const unasked = asked.filter((route, at) => route.access === 'user' && route.handler === table[at]!.handler)
  t.ok(unasked.length > 0 && unasked.length < asked.length / 2)
  // Runs of other protocols ask when they are begun: what their words are the rules do not know.
  const ofRoutes = unasked.filter(({ part }) => part !== 'copilotkit')
  for (const { path } of ofRoutes) t.notMatch(path, /thread|assistant|\brun|store/, path)
  t.end()
})
