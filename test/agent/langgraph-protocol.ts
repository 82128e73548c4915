// What goes over the wire to a LangGraph server, and what may come back: a server of our own stands for Python's, and for broken ones.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { setTimeout as pause } from 'node:timers/promises'
import { Requests } from '../../lib/langgraph/server-agent/requests.ts'
import { ServerThread } from '../../lib/langgraph/server-agent/server-thread.ts'
import { startChild } from '../fixtures/child.ts'
import { freePort } from '../fixtures/free-port.ts'
import { at, homeOf, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'
import { dataOf, saidIn, Talk, textsIn } from '../fixtures/graph-journey.ts'

interface Asked {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

type Answer = unknown | ((res: ServerResponse) => void)

/** Frames as [event, data]; with ids, unless told otherwise. */
function stream(frames: readonly (readonly [string, unknown])[], { ids = true, cut = false } = {}) {
  return (res: ServerResponse) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', 'content-location': '/threads/T/runs/R' })
    for (const [n, [event, data]] of frames.entries())
      res.write(`event: ${event}\r\ndata: ${JSON.stringify(data)}\r\n${ids ? `id: ${n}\r\n` : ''}\r\n: heartbeat\r\n`)
    // Behind what is read then, however late this timer is: a reset throws away what was not read.
    if (cut) setTimeout(() => setImmediate(() => res.socket?.resetAndDestroy()), 50)
    else res.end()
  }
}

/** Answers by method and the last words of the path; each is used for as long as it is the last one left. */
async function openServer(t: Test, answers: Readonly<Record<string, Answer[]>>, port = 0) {
  const asked: Asked[] = []
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const path = `${req.method} ${req.url}`
    asked.push({ path, headers: req.headers, body: text === '' ? null : JSON.parse(text) })
    const known = Object.keys(answers).find((pattern) => new RegExp(`^${pattern}$`).test(path))
    const list = known ? answers[known]! : []
    const answer = list.length > 1 ? list.shift() : list[0]
    if (typeof answer === 'function') answer(res)
    else if (answer === undefined) res.writeHead(404).end('not here')
    else res.end(JSON.stringify(answer))
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close().closeAllConnections())
  // A server that listens on a port has such an address.
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, asked, of: (pattern: RegExp) => asked.filter(({ path }) => pattern.test(path)) }
}

const HUMAN = { type: 'human', content: 'hello', id: 'h' }
const chunk = (content: string, more: object = {}) => [
  { content, type: 'AIMessageChunk', id: 'run--1', tool_call_chunks: [], ...more },
  { langgraph_node: 'agent', ls_model_name: 'big' }
]
const ai = (content: unknown) => ({ content, type: 'ai', id: 'run--1', example: false, tool_calls: [], name: null })
const stateOf = (messages: unknown[], more: object = {}) => ({
  values: { messages },
  next: [],
  tasks: [],
  metadata: { run_id: 'R' },
  created_at: '2026-01-01T00:00:00Z',
  checkpoint: { thread_id: 'T', checkpoint_ns: '', checkpoint_id: 'c1' },
  ...more
})
const EMPTY = { values: {}, next: [], tasks: [], created_at: null, checkpoint: null }
const OWN = { messages: [HUMAN, ai('done')], notes: ['after 1'] }
const PYTHON = { 'GET /info': [{ version: '0.6.0' }], 'POST /threads': [{ metadata: {} }] }

async function talkTo(t: Test, url: string, more: object = {}): Promise<Talk> {
  const config = { agent: { runtime: 'langgraph', url, ...more } }
  return Talk.begin(await openSite(t, { config }))
}

t.test('a Python server is given configurable alone; its pieces, blocks and checkpoints are understood', async (t) => {
  const blocks = [
    { type: 'thinking', thinking: 'well' },
    { type: 'text', text: 'good day' }
  ]
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, stateOf([HUMAN, ai(blocks)])],
    'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
    'POST /threads/[^/]+/runs/stream': [
      stream([
        ['metadata', { run_id: 'R', attempt: 1 }],
        ['values', { messages: [HUMAN] }],
        ['messages', chunk('', { content: [{ type: 'thinking', thinking: 'well', index: 0 }] })],
        ['messages', chunk('', { content: [{ type: 'text', text: 'good day', index: 1 }] })],
        ['messages', [ai(blocks), {}]],
        ['updates', { agent: { messages: [ai(blocks)] } }],
        ['values', { messages: [HUMAN, ai(blocks)] }],
        ['end', null]
      ])
    ]
  })
  const talk = await talkTo(t, `${server.url}/`, { api_key: 'key-of-ours', headers: { 'x-team': 'blue' } })
  await talk.person.ask('PUT', `/api/threads/${talk.thread}/goal`, { body: { objective: 'Report' } })
  const answer = await talk.person.stream(talk.thread, 'hello', {
    stream_mode: ['messages-tuple', 'values'],
    assistant_id: 'helper',
    context: { colour: 'red', thread_id: 'elsewhere', __pregel_read: 1 },
    config: { recursion_limit: 7 }
  })
  t.strictSame([...textsIn(await answer.whole()).values()], ['good day'])
  const [asked] = server.of(/runs\/stream$/)
  t.match(asked?.headers, { 'x-api-key': 'key-of-ours', 'x-team': 'blue' })
  const { config, context, assistant_id, input } = asked?.body as Record<string, unknown>
  t.equal(assistant_id, 'helper', 'as the run says, where the configuration does not')
  t.equal(context, undefined)
  t.match(config, {
    configurable: { colour: 'red', user_id: String, goal: { objective: 'Report' } },
    recursion_limit: 7
  })
  t.notMatch(JSON.stringify(config), /elsewhere|__pregel/)
  t.match(input, { messages: [{ type: 'human', content: 'hello', id: String }] })
  const messages = at(await talk.state(), 'values', 'messages')
  t.match(messages, [{}, { content: 'good day', additional_kwargs: { reasoning_content: 'well' } }])
})

t.test('what a server has forgotten is told again: calls and results with it', async (t) => {
  const call = { name: 'look', args: { at: 1 }, id: 'c', type: 'tool_call' }
  const said = [
    HUMAN,
    { ...ai(''), tool_calls: [call], usage_metadata: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
    { type: 'tool', content: 'seen', tool_call_id: 'c', id: 't', name: 'look' }
  ]
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, stateOf(said), EMPTY, stateOf(said)],
    'GET /threads/[^/]+/state/c1': [EMPTY],
    'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
    'POST /threads/[^/]+/runs/stream': [stream([['values', { messages: said }]])]
  })
  const talk = await talkTo(t, server.url)
  for (const words of ['hello', 'again'])
    await talk.person.post(`${talk.path}/runs/wait`, { input: { messages: words } })
  const { input, checkpoint } = server.of(/runs\/stream$/)[1]?.body as Record<string, unknown>
  t.equal(checkpoint, undefined)
  t.match(at(input, 'messages'), [
    { type: 'human' },
    { type: 'ai', tool_calls: [call] },
    { type: 'tool', content: 'seen', tool_call_id: 'c', status: 'success' },
    { type: 'human', content: 'again' }
  ])
  t.notMatch(JSON.stringify(input), /usage_metadata|invalid_tool_calls|null/, 'nothing that it would keep as its own')
})

t.test('a run that somebody has stopped on the server is no success; one that asks is none either', async (t) => {
  const interrupts = [{ id: 'q', value: 'Sure?' }]
  const tasks = [{ id: 'x', name: 'agent', interrupts }]
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, EMPTY, stateOf([HUMAN], { next: ['agent'], tasks })],
    'GET /threads/[^/]+/runs/R': [{ status: 'interrupted' }],
    'POST /threads/[^/]+/runs/stream': [
      stream([['values', { messages: [HUMAN] }]]),
      stream([['values', { messages: [HUMAN], __interrupt__: interrupts }]])
    ]
  })
  const talk = await talkTo(t, server.url)
  await talk.wait({})
  t.match((await talk.runs())[0], { status: 'error', error: /ended the run with status interrupted/ })
  t.match(at(await talk.wait({}), '__interrupt__'), interrupts)
  t.match((await talk.runs())[0], { status: 'interrupted' })
})

t.test('a stream that cannot be taken up again ends the run as error, with what was said', async (t) => {
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY],
    'GET /threads/[^/]+/runs/R': [{ status: 'running' }],
    'POST /threads/[^/]+/runs/R/cancel.*': [{}],
    'POST /threads/[^/]+/runs/stream': [stream([['messages', chunk('half ')]], { ids: false, cut: true })]
  })
  const talk = await talkTo(t, server.url)
  const frames = await (await talk.stream({})).whole()
  t.match(dataOf(frames, 'error'), [{ error: 'AgentInterrupted', message: /broke off/ }])
  t.match(await talk.said(), [
    ['human', String],
    ['ai', 'half ']
  ])
  t.equal(server.of(/cancel/).length, 1, 'and the run there is stopped')
})

t.test('what is none of the protocol ends the run as error', async (t) => {
  const garbage = (res: ServerResponse) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', 'content-location': '/threads/T/runs/R' })
    res.end('event: values\ndata: {"messages": [\n\n')
  }
  const nameless = (res: ServerResponse) => void res.end('{}')
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY],
    'POST /threads/[^/]+/runs/R/cancel.*': [{}],
    'POST /threads/[^/]+/runs/stream': [garbage, nameless]
  })
  const talk = await talkTo(t, server.url)
  for (const said of [/none of LangGraph's protocol: a frame "values" that is no JSON/, /a run without its address/]) {
    await talk.wait({})
    t.match((await talk.runs())[0], { status: 'error', error: said })
  }
})

t.test('a refusal is quoted without the key; a redirect is not followed', async (t) => {
  const refuse =
    (status: number, body: string, headers = {}) =>
    (res: ServerResponse) =>
      void res.writeHead(status, headers).end(body)
  const server = await openServer(t, {
    ...PYTHON,
    'POST /threads': [
      refuse(401, '{"detail": "key-of-ours is no key"}'),
      refuse(307, '', { location: 'http://127.0.0.1:9/threads' })
    ]
  })
  const talk = await talkTo(t, server.url, { api_key: 'key-of-ours' })
  await talk.wait({})
  t.match((await talk.runs())[0], { error: "The agent's server refused the request with status 401: *** is no key" })
  await talk.wait({})
  t.match((await talk.runs())[0], { error: /status 307/ })
})

t.test('a failure of the graph is told in its words, and the state that it left is kept', async (t) => {
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY],
    'POST /threads/[^/]+/runs/stream': [
      stream([
        ['updates', { agent: { messages: [ai('done')] } }],
        ['values', { messages: [{ ...HUMAN, id: 'other' }, ai('done')] }],
        ['error', { error: 'ValueError', message: 'no such thing' }]
      ])
    ]
  })
  const talk = await talkTo(t, server.url)
  const frames = await (await talk.stream({})).whole()
  t.match(dataOf(frames, 'error'), [{ error: 'ValueError', message: 'no such thing' }])
  t.strictSame(saidIn(at(await talk.state(), 'values')), [
    ['human', 'hello'],
    ['ai', 'done']
  ])
})

t.test(
  '[Auth 12] a start gives threads of the server that belong to nobody to the administrator, page by page',
  async (t) => {
    const orphan = (n: number) => ({ thread_id: `old-${n}`, metadata: {} })
    const others = [
      { thread_id: 'owned', metadata: { user_id: 'somebody' } },
      { thread_id: 'shared', metadata: { gateway_thread_id: 'ours' } },
      { thread_id: 'broken', metadata: null }
    ]
    const pages = [Array.from({ length: 500 }, (_, n) => orphan(n)), [orphan(500), ...others]]
    const server = await openServer(t, {
      'POST /threads/search': [...pages, []],
      'PATCH /threads/old-7': [(res: ServerResponse) => res.writeHead(403).end('no')],
      'PATCH /threads/.*': [{}]
    })
    const config = { agent: { runtime: 'langgraph', url: server.url } }
    const first = await openSite(t, { config })
    const person = new Person(first.url)
    const made = await person.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
    t.equal(server.of(/threads/).length, 0, 'without an administrator no thread is asked for')
    await first.stop()
    const site = await openSite(t, { config, home: first.home })
    await until(() => server.of(/^PATCH/).length === 502, 'all of them were tried')
    t.equal((await new Person(site.url).get('/health')).status, 200)
    t.same(
      server.of(/threads\/search$/).map(({ body }) => body),
      [
        { limit: 500, offset: 0 },
        { limit: 500, offset: 500 }
      ]
    )
    const admin = textIn(made.body, 'id')
    t.ok(server.of(/^PATCH/).every(({ body }) => at(body, 'metadata', 'user_id') === admin))
    const paths = new Set(server.of(/^PATCH/).map(({ path }) => path))
    t.notOk(paths.has('PATCH /threads/owned') || paths.has('PATCH /threads/shared'))
    t.ok(paths.has('PATCH /threads/old-7') && paths.has('PATCH /threads/old-500'), 'one that fails stops no other')
    await until(() => site.logged.some(([, fields]) => at(fields, 'threads') === 501), 'it is told how many there were')
    // A machine with much else to do has others.
    const warnings = site.logged.filter(([, , words]) => /could not be given an owner/.test(String(words)))
    t.match(warnings, [['warn', { thread_id: 'old-7', err: { message: /status 403/ } }]])
    t.equal(warnings.length, 1, 'one for the thread that was refused, and no other')
  }
)

t.test('[Auth 12] a search that is refused or hangs is a warning at most: the gateway serves meanwhile', async (t) => {
  const refused = (res: ServerResponse) => void res.writeHead(403).end('no')
  const hanging = () => {}
  const server = await openServer(t, { 'POST /threads/search': [refused, hanging] })
  const config = { agent: { runtime: 'langgraph', url: server.url } }
  const first = await openSite(t, { config })
  const { home } = first
  await new Person(first.url).post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  await first.stop()
  for (const [n, warnings] of [[/could not be searched/], []].entries()) {
    const site = await openSite(t, { config, home })
    const told = () => site.logged.flatMap(([level, , message]) => (level === 'warn' ? [message] : []))
    await until(
      () => server.of(/threads\/search$/).length > n && told().length >= warnings.length,
      'the search is on its way'
    )
    t.equal((await new Person(site.url).get('/health')).status, 200)
    t.match(told(), warnings)
    t.equal(told().length, warnings.length)
    await site.stop()
  }
  t.equal(server.of(/threads\/search$/).length, 2)
  t.equal(server.of(/^PATCH/).length, 0)
})

// As servers send it with stream_subgraphs: each checkpoint is named before its values.
t.test('a graph with channels of its own has a step, and values, for each of its own and no more', async (t) => {
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, stateOf([HUMAN, ai('done')], { values: OWN })],
    'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
    'POST /threads/[^/]+/runs/stream': [
      stream([
        ['metadata', { run_id: 'R', attempt: 1 }],
        ['checkpoints', { id: 'c0', next: ['agent'] }],
        ['values', { messages: [HUMAN], notes: [] }],
        ['messages', chunk('done')],
        ['updates', { agent: { messages: [ai('done')], notes: ['after 1'] } }],
        ['checkpoints', { id: 'c1', next: [] }],
        ['values', OWN],
        ['end', null]
      ])
    ]
  })
  const site = await openSite(t, {
    config: { agent: { runtime: 'langgraph', url: server.url }, title: { enabled: false } }
  })
  const talk = await Talk.begin(site)
  const frames = await (await talk.stream({})).whole()
  const nodes = dataOf(frames, 'updates').flatMap((update) => Object.keys(update as object))
  t.strictSame(nodes, ['agent'])
  const values = dataOf(frames, 'values')
  t.match(values.at(-1), { notes: ['after 1'] })
  t.equal(values.length, 2, 'the input, and the one step')
})

t.test('what a graph streams is passed on: subgraphs, updates a node, metadata, and later changes', async (t) => {
  const place = { langgraph_checkpoint_ns: 'agent:1', checkpoint_ns: 'agent:1' }
  const step = { langgraph_node: 'agent', langgraph_step: 1 }
  const about = { ...step, ...place, ls_provider: 'x', custom_key: 'kept', __secret: 1 }
  const done = { ...ai('done'), response_metadata: { at: 'first' } }
  const changed = { ...done, response_metadata: { at: 'later' } }
  const state = { messages: [HUMAN, changed] }
  const inner = [{ content: 'inner', type: 'AIMessageChunk', id: 'run--2' }, { langgraph_node: 'deep' }]
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, stateOf([HUMAN, changed])],
    'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
    'POST /threads/[^/]+/runs/stream': [
      stream([
        ['values', { messages: [HUMAN] }],
        ['messages', [{ content: 'do', type: 'AIMessageChunk', id: 'run--1' }, about]],
        ['messages', [{ content: 'ne', type: 'AIMessageChunk', id: 'run--1' }, about]],
        ['messages|sub:1', inner],
        ['values|sub:1', { messages: [] }],
        ['updates|sub:1', { deep: { seen: true } }],
        ['updates', { agent: { messages: [done] } }],
        ['updates', { other: { notes: null } }],
        ['values', { messages: [HUMAN, done] }],
        ['updates', { last: { messages: [changed] } }],
        ['values', state]
      ])
    ]
  })
  const talk = await talkTo(t, server.url, { idle_timeout_ms: 60_000 })
  const modes = ['messages-tuple', 'values', 'updates']
  const more = { stream_mode: modes, stream_subgraphs: true, interrupt_before: ['agent'], interrupt_after: '*' }
  const frames = await (await talk.person.stream(talk.thread, 'hello', more)).whole()
  t.match(server.of(/runs\/stream$/)[0]?.body, { interrupt_before: ['agent'], interrupt_after: '*' })
  const messages = dataOf(frames, 'messages')
  const shown = { ...step, ls_provider: 'x', custom_key: 'kept' }
  t.strictSame(at(messages[0], 1), shown, 'all that it says of a message, with its first piece')
  t.strictSame(at(messages[1], 1), step, 'and then what clients read')
  t.strictSame(dataOf(frames, 'messages|sub:1'), [inner], 'of a subgraph as it is')
  t.notOk(JSON.stringify(messages).includes('inner'), 'and there alone')
  t.strictSame(dataOf(frames, 'values|sub:1'), [{ messages: [] }])
  t.strictSame(dataOf(frames, 'updates|sub:1'), [{ deep: { seen: true } }])
  t.strictSame(
    dataOf(frames, 'updates').flatMap((one) => Object.keys(one as object)),
    ['agent', 'other', 'last', 'title'],
    'the last is the step of our own'
  )
  const last = at(dataOf(frames, 'values').at(-1), 'messages', 1)
  t.equal(at(last, 'response_metadata', 'at'), 'later')
})

t.test(
  'mode messages has messages whole, also where a server names the task of each; nothing comes unasked',
  async (t) => {
    const about = { langgraph_node: 'agent', langgraph_checkpoint_ns: 'agent:1', checkpoint_ns: 'agent:1' }
    const deep = { langgraph_node: 'deep', langgraph_checkpoint_ns: 'sub:1|deep:2', checkpoint_ns: 'sub:1' }
    const server = await openServer(t, {
      ...PYTHON,
      'GET /threads/[^/]+/state': [EMPTY, stateOf([HUMAN, ai('done')])],
      'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
      'POST /threads/[^/]+/runs/stream': [
        stream([
          ['values', { messages: [HUMAN] }],
          ['messages|agent:1', [{ content: 'done', type: 'AIMessageChunk', id: 'run--1' }, about]],
          ['messages|sub:1', [{ content: 'inner', type: 'AIMessageChunk', id: 'run--2' }, deep]],
          ['updates|sub:1', { deep: { seen: true } }],
          ['updates', { agent: { messages: [ai('done')] } }],
          ['values', { messages: [HUMAN, ai('done')] }]
        ])
      ]
    })
    const talk = await talkTo(t, server.url)
    const more = { stream_mode: ['messages'], stream_subgraphs: true }
    const frames = await (await talk.person.stream(talk.thread, 'hello', more)).whole()
    const whole = dataOf(frames, 'messages/complete')
    t.match(whole.at(-1), [{ id: 'run--1', content: 'done' }])
    t.notOk(JSON.stringify(whole).includes('inner'))
    t.notOk(frames.some(({ event }) => event.startsWith('updates')))
  }
)

t.test('a question that a server has in its values alone is among the updates as well', async (t) => {
  const question = { id: 'q', value: 'really?' }
  const asking = stateOf([HUMAN], { next: ['agent'], tasks: [{ interrupts: [question] }] })
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, asking],
    'GET /threads/[^/]+/runs/R': [{ status: 'interrupted' }],
    'POST /threads/[^/]+/runs/stream': [stream([['values', { messages: [HUMAN], __interrupt__: [question] }]])]
  })
  const talk = await talkTo(t, server.url)
  const frames = await (await talk.person.stream(talk.thread, 'hello', { stream_mode: ['values', 'updates'] })).whole()
  t.match(
    dataOf(frames, 'updates').flatMap((one) => at(one, '__interrupt__') ?? []),
    [question]
  )
})

t.test('the assistants of a server are those of its graphs, with their schemas and drawing', async (t) => {
  const schemas = { graph_id: 'helper', input_schema: { title: 'In' } }
  const server = await openServer(t, {
    'POST /assistants/search': [[{ graph_id: 'helper' }, { graph_id: 'other' }, { graph_id: 'helper' }]],
    'GET /assistants/helper/schemas': [schemas],
    'GET /assistants/helper/graph\\?xray=true': [{ nodes: [{ id: 'a' }], edges: [] }],
    'GET /assistants/helper/subgraphs\\?recurse=true': [{ sub: schemas }]
  })
  const { person } = await talkTo(t, server.url)
  const names = async () => {
    const { body } = await person.post('/api/assistants/search', {})
    return (body as readonly unknown[]).map((one) => at(one, 'graph_id'))
  }
  await until(async () => (await names()).includes('other'), 'the server to be asked')
  t.strictSame((await names()).sort(), ['helper', 'other'])
  t.match((await person.get('/api/assistants/helper/schemas')).body, schemas)
  t.match((await person.get('/api/assistants/helper/graph?xray=true')).body, { nodes: [{ id: 'a' }] })
  t.match((await person.get('/api/assistants/helper/subgraphs?recurse=true')).body, { sub: schemas })
  t.equal((await person.get('/api/assistants/other/schemas')).status, 404)
})

t.test('a step is recorded once, also where the server names no checkpoint before its values', async (t) => {
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY, stateOf([HUMAN, ai('done')])],
    'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
    'POST /threads/[^/]+/runs/stream': [
      stream([
        ['metadata', { run_id: 'R', attempt: 1 }],
        ['values', { messages: [HUMAN] }],
        ['updates', { agent: { messages: [ai('done')] } }],
        ['values', { messages: [HUMAN, ai('done')] }]
      ])
    ]
  })
  const config = { agent: { runtime: 'langgraph', url: server.url }, title: { enabled: false } }
  const talk = await Talk.begin(await openSite(t, { config }))
  const frames = await (await talk.stream({})).whole()
  t.equal(dataOf(frames, 'values').length, 2, 'the input, and the one step')
})

/** A run whose stream stays open behind these frames, and says nothing more. */
function quiet(frames: readonly (readonly [string, unknown])[], { heartbeat = false } = {}) {
  return (res: ServerResponse) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', 'content-location': '/threads/T/runs/R' })
    for (const [n, [event, data]] of frames.entries())
      res.write(`event: ${event}\ndata: ${JSON.stringify(data)}\nid: ${n}\n\n`)
    if (heartbeat) res.write(': heartbeat\n\n')
  }
}

/** What one run of the graph of this server passes on. */
async function partsOf(url: string, silenceMs: number, reconnectMs = 5000): Promise<string[]> {
  const requests = new Requests({
    url,
    apiKey: null,
    headers: {},
    assistantId: null,
    idleTimeoutMs: 0,
    reconnectMs
  })
  const { signal } = new AbortController()
  const call = {
    id: 'T',
    creation: {},
    parameters: () => ({}),
    idleMs: 200,
    silenceMs,
    eventCharacters: undefined,
    signal
  }
  const parts: string[] = []
  await new ServerThread(requests, call).work(
    { input: null, resume: null, checkpointId: null },
    { onPart: ({ mode }) => parts.push(mode) > 0, space: async () => {} }
  )
  return parts
}

t.test('a server that has sent heartbeats and falls silent is joined again where it was', async (t) => {
  const server = await openServer(t, {
    'GET /threads/T/runs/R': [{ status: 'running' }, { status: 'success' }],
    'POST /threads/T/runs/stream': [quiet([['values', {}]], { heartbeat: true })],
    'GET /threads/T/runs/R/stream': [stream([['updates', {}]])]
  })
  t.strictSame(await partsOf(server.url, 300), ['values', 'updates'])
  t.match(server.of(/GET .*stream/)[0]?.headers, { 'last-event-id': '0' })
})

t.test('a silent server that lets nobody join again is given up, though it says that its run goes on', async (t) => {
  const server = await openServer(t, {
    'GET /threads/T/runs/R': [{ status: 'running' }],
    'POST /threads/T/runs/stream': [quiet([['values', {}]], { heartbeat: true })],
    'GET /threads/T/runs/R/stream': [(res: ServerResponse) => void res.writeHead(503).end()],
    'POST /threads/T/runs/R/cancel.*': [{}]
  })
  await t.rejects(partsOf(server.url, 200, 500))
})

t.test('without heartbeats a run that goes on is joined again after the idle timeout, where it was', async (t) => {
  const server = await openServer(t, {
    'GET /threads/T/runs/R': [{ status: 'running' }, { status: 'running' }, { status: 'success' }],
    'POST /threads/T/runs/stream': [quiet([['values', {}]])],
    'GET /threads/T/runs/R/stream': [quiet([['custom', 1]]), stream([['updates', {}]])]
  })
  t.strictSame(await partsOf(server.url, 60_000), ['values', 'custom', 'updates'])
  t.equal(server.of(/GET .*stream/).length, 2)
})

t.test('a run that has ended is over, though its stream stays open and silent', async (t) => {
  const server = await openServer(t, {
    'GET /threads/T/runs/R': [{ status: 'running' }, { status: 'success' }],
    'POST /threads/T/runs/stream': [quiet([['values', {}]])],
    'GET /threads/T/runs/R/stream': [stream([])]
  })
  t.strictSame(await partsOf(server.url, 60_000), ['values'])
})

t.test('a server that refuses connections is tried again: its restart ends no run that has not begun', async (t) => {
  const port = await freePort()
  const talk = await talkTo(t, `http://127.0.0.1:${port}`)
  const waiting = talk.wait({})
  await pause(600)
  await openServer(
    t,
    {
      ...PYTHON,
      'GET /threads/[^/]+/state': [EMPTY, stateOf([HUMAN, ai('done')])],
      'GET /threads/[^/]+/runs/R': [{ status: 'success' }],
      'POST /threads/[^/]+/runs/stream': [stream([['values', { messages: [HUMAN, ai('done')] }]])]
    },
    port
  )
  t.match(saidIn(await waiting).at(-1), ['ai', 'done'])
})

t.test('rejoin false: after kill -9 of the gateway the run on the server is cancelled there', async (t) => {
  const metadata: { gateway_run_id?: string } = {}
  const server = await openServer(t, {
    ...PYTHON,
    'GET /threads/[^/]+/state': [EMPTY],
    'POST /threads/[^/]+/runs/stream': [quiet([['messages', chunk('half ')]])],
    'POST /threads/search': [[{ thread_id: 'T' }]],
    'GET /threads/T/runs\\?.*': [
      [
        { run_id: 'other', status: 'running', metadata: { gateway_run_id: 'not ours' } },
        { run_id: 'R', status: 'running', metadata }
      ]
    ],
    'POST /threads/T/runs/R/cancel.*': [{}]
  })
  const config = { agent: { runtime: 'langgraph', url: server.url, rejoin: false } }
  const home = homeOf(t)
  const child = await startChild(t, { home, config })
  const talk = await Talk.begin(child)
  const streamed = await talk.stream({})
  await streamed.until(({ frames }) => frames.some(({ data }) => data.includes('half ')))
  metadata.gateway_run_id = textIn((await talk.runs())[0], 'run_id')
  await child.kill()
  await startChild(t, { home, config })
  await until(() => server.of(/cancel/).length > 0, 'it is cancelled')
  t.strictSame(
    server.of(/cancel/).map(({ path }) => path.replace(/\?.*/, '')),
    ['POST /threads/T/runs/R/cancel'],
    'and no other'
  )
})
