// What DeerFlow's web frontend, of April and of today, asks of the service, and what it would break without.
import t from 'tap'
import { asked, at, listIn, openSite, Person, PASSWORD, signIn, textIn, until } from '../fixtures/gateway.ts'

t.test(
  '[Auth 10] a first boot is answered twice: to the server of the front end, and to the browser beside it',
  async (t) => {
    const person = new Person((await openSite(t)).url)
    const browser = { headers: { 'sec-fetch-site': 'same-origin' } }
    const ask = async (asking = {}) => (await person.get('/api/v1/auth/setup-status', asking)).status
    t.equal(await ask(), 200, "the front end's server")
    t.equal(await ask(browser), 200, 'the browser')
    t.strictSame([await ask(), await ask(browser)], [429, 429], 'each within its own minute')
  }
)

t.test('the memory of who has none was updated now: an empty date is no date to a page', async (t) => {
  const person = await signIn(await openSite(t))
  for (const path of ['/api/memory', '/api/memory/export', '/api/memory/status']) {
    const { body } = await person.get(path)
    const told = at(body, 'lastUpdated') ?? at(body, 'data', 'lastUpdated')
    t.ok(Math.abs(Date.parse(String(told)) - Date.now()) < 60_000, `${path}: ${told}`)
  }
})

t.test(
  'everybody sees names and states of the tool servers; only administrators see how they are reached',
  async (t) => {
    const site = await openSite(t, { config: { mcp: { stdio_commands: ['false'] } } })
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
    const server = {
      enabled: false,
      type: 'stdio',
      command: 'false',
      args: ['secret-argument'],
      env: { KEY: 'secret-value' },
      description: 'does things'
    }
    t.equal((await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers: { tools: server } } })).status, 200)
    const person = await signIn(site)
    const answer = await person.get('/api/mcp/config')
    t.equal(answer.status, 200)
    t.strictSame(at(answer.body, 'mcp_servers'), {
      tools: { enabled: false, type: 'stdio', description: 'does things', status: { state: 'off' } }
    })
    for (const [method, body] of [
      ['PUT', { mcp_servers: {} }],
      ['PATCH', { server_name: 'tools', enabled: true }]
    ] as const)
      t.equal((await person.ask(method, '/api/mcp/config', { body })).status, 403, method)
    t.match((await admin.get('/api/mcp/config')).body, { mcp_servers: { tools: { command: 'false' } } })
  }
)

t.test('features that are not there answer empty, so that a page shows none and tries nothing again', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const run = await person.run(thread, '/demo deltas=1 rate=0')
  const empty = {
    '/api/channels': { service_running: false, channels: {} },
    '/api/channels/providers': { enabled: false, providers: [] },
    '/api/channels/connections': { connections: [] },
    '/api/scheduled-tasks': [],
    '/api/agents': { agents: [] },
    '/api/features': {
      agents_api: { enabled: true },
      browser_control: { enabled: false },
      mcp_tasks: { enabled: false },
      sharing: { enabled: false }
    },
    [`/api/threads/${thread}/scheduled-tasks`]: [],
    [`/api/threads/${thread}/goal`]: { goal: null }
  }
  for (const [path, wanted] of Object.entries(empty)) t.strictSame((await person.get(path)).body, wanted, path)
  t.match((await person.get(`${run}/workspace-changes`)).body, { available: false, files: [], summary: { created: 0 } })
  const stranger = await signIn({ url: person.url })
  t.equal((await stranger.get(`/api/threads/${thread}/goal`)).status, 404)
})

t.test('a list of runs has the fields that are selected', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const run = await person.run(thread, '/demo deltas=1 rate=0')
  const wanted = [{ run_id: run.split('/').at(-1) }]
  for (const query of ['select=run_id', 'select=["run_id"]', 'select=run_id&select=nothing'])
    t.strictSame((await person.get(`/api/threads/${thread}/runs?${query}`)).body, wanted, query)
})

t.test(
  'the first run of a thread writes into its metadata which graph it is with, and overwrites nothing',
  async (t) => {
    const person = await signIn(await openSite(t))
    const found = async (metadata: object) => listIn((await person.post('/api/threads/search', { metadata })).body)
    const ask = (thread: string, more = {}) =>
      person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=1 rate=0', more))
    await ask(await person.thread())
    await until(
      async () => (await found({ graph_id: 'lead_agent', assistant_id: 'lead_agent' })).length === 1,
      'it is found'
    )
    const named = textIn((await person.post('/api/threads', { metadata: { graph_id: 'mine' } })).body, 'thread_id')
    await ask(named, { assistant_id: 'writer' })
    await until(
      async () => (await found({ graph_id: 'mine', assistant_id: 'writer' })).length === 1,
      'what was said stays'
    )
  }
)

t.test('a chat whose first answer fails has a title all the same', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=2 rate=0 error'))
  t.equal(at((await person.get(`/api/threads/${thread}`)).body, 'status'), 'error')
  const [found] = listIn((await person.post('/api/threads/search', {})).body)
  t.equal(at(found, 'values', 'title'), '/demo deltas=2 rate=0 error')
  t.equal(at((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'title'), '/demo deltas=2 rate=0 error')
})

t.test(
  'the final answer says how many seconds its turn took, in state, history and messages; no other does',
  async (t) => {
    const person = await signIn(await openSite(t))
    const thread = await person.thread()
    await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=1 rate=0 tool=current_time'))
    const durations = (messages: readonly unknown[]) =>
      messages.map((one) => [at(one, 'type'), at(one, 'additional_kwargs', 'turn_duration')])
    const wanted = [
      ['human', undefined],
      ['ai', undefined],
      ['tool', undefined],
      ['ai', 1]
    ]
    const path = `/api/threads/${thread}`
    t.strictSame(durations(listIn((await person.get(`${path}/state`)).body, 'values', 'messages')), wanted)
    t.strictSame(durations(listIn((await person.post(`${path}/history`, {})).body, 0, 'values', 'messages')), wanted)
    const rows = listIn((await person.get(`${path}/messages`)).body)
    t.strictSame(durations(rows.map((row) => at(row, 'content'))), wanted)
  }
)

t.test(
  "a list of runs without a limit has a hundred, and ten that a front end's library asks for by itself are no limit",
  async (t) => {
    const person = await signIn(await openSite(t))
    const thread = await person.thread()
    for (let n = 0; n < 12; n++) await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=1 rate=0'))
    const listed = async (prefix: string, query: string) =>
      listIn((await person.get(`${prefix}/threads/${thread}/runs${query}`)).body).length
    t.equal(await listed('/api', ''), 12)
    t.equal(await listed('/api', '?limit=10&offset=0'), 10, 'what a client of LangGraph says holds')
    t.equal(await listed('/api/langgraph', '?limit=10&offset=0'), 12, 'pages of DeerFlow mean all of them')
    t.equal(await listed('/api/langgraph', '?limit=5'), 5)
    t.equal(await listed('/api', '?limit=1000'), 12)
  }
)
