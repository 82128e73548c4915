// The Model Context Protocol over HTTP: what its clients send, recorded, by plain fetch; and the client that the project has.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import t, { type Test } from 'tap'
import { asked, at, listIn, openSite, type Person, signIn, type Site, textIn, until } from '../fixtures/gateway.ts'
import type { Stream } from '../fixtures/stream.ts'

const TALK = '/demo rate=0 deltas=40 reasoning tool=current_time'
const QUESTION = '/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'
const HANDSHAKE = '2025-11-25'
const STATELESS = '2026-07-28'
const META = 'io.modelcontextprotocol/'

type Json = Record<string, unknown>

async function open(t: Test): Promise<{ site: Site; person: Person; token: string }> {
  const site = await openSite(t, { config: { memory: { enabled: false }, title: { enabled: false } } })
  const person = await signIn(site)
  return { site, person, token: await tokenOf(person) }
}

async function tokenOf(
  person: Person,
  scopes = ['threads:read', 'threads:write', 'runs:create', 'runs:read', 'runs:cancel']
) {
  return textIn((await person.post('/api/v1/auth/tokens', { scopes })).body, 'token')
}

/** A client of the library, with what it was told. */
async function connect(
  t: Test,
  url: string,
  token: string,
  mode: 'legacy' | { pin: string },
  answer?: (asked: Json) => Json
) {
  const client = new Client(
    { name: 'test', version: '1' },
    { versionNegotiation: { mode }, capabilities: answer ? { elicitation: {} } : {} }
  )
  if (answer) client.setRequestHandler('elicitation/create', async ({ params }) => answer(params as Json) as never)
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  const options = {
    requestInit,
    reconnectionOptions: {
      initialReconnectionDelay: 5,
      maxReconnectionDelay: 50,
      reconnectionDelayGrowFactor: 1.2,
      maxRetries: 20
    }
  }
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), options))
  t.teardown(() => client.close())
  return client
}

/** The answers' texts of a thread's state. */
async function answersOf(person: Person, thread: string): Promise<string[]> {
  const { body } = await person.get(`/api/threads/${thread}/state`)
  return listIn(body, 'values', 'messages').flatMap((one) => (at(one, 'type') === 'ai' ? [textIn(one, 'content')] : []))
}

const rpc = (method: string, params: Json = {}, id: unknown = 1): Json => ({ jsonrpc: '2.0', id, method, params })
const calling = (message: string, more: Json = {}): Json =>
  rpc('tools/call', { name: 'lead_agent', arguments: { message }, _meta: { progressToken: 'p' }, ...more })
const stateless = (params: Json): Json => ({
  ...params,
  _meta: {
    ...(params._meta as Json),
    [`${META}protocolVersion`]: STATELESS,
    [`${META}clientCapabilities`]: { elicitation: {} }
  }
})

/** The messages of a stream, without its position. */
const messagesIn = ({ frames }: Pick<Stream, 'frames'>): Json[] =>
  frames.flatMap(({ data }) => (data === '' ? [] : [JSON.parse(data) as Json]))
const resultIn = (stream: Pick<Stream, 'frames'>): unknown => messagesIn(stream).find(({ result }) => result)?.result
const progressIn = (stream: Pick<Stream, 'frames'>): unknown[] =>
  messagesIn(stream).flatMap(({ method, params }) => (method === 'notifications/progress' ? [params] : []))

for (const mode of ['legacy', { pin: STATELESS }] as const)
  t.test(
    `a client talks to an assistant as to a tool, and goes on with its thread (${JSON.stringify(mode)})`,
    async (t) => {
      const { site, person, token } = await open(t)
      const client = await connect(t, site.url, token, mode)
      const { tools } = await client.listTools()
      t.match(tools, [
        { name: 'lead_agent', inputSchema: { required: ['message'], properties: { message: {}, thread_id: {} } } }
      ])
      const progress: { progress: number; message?: string }[] = []
      const onprogress = (one: { progress: number; message?: string }) => void progress.push(one)
      const first = await client.callTool({ name: 'lead_agent', arguments: { message: TALK } }, { onprogress })
      const thread = textIn(first, 'structuredContent', 'thread_id')
      const answers = await answersOf(person, thread)
      t.match(first, { content: [{ type: 'text', text: answers.at(-1)! }], structuredContent: { status: 'completed' } })
      t.equal(progress.map(({ message = '' }) => message).join(''), answers.join(''), 'the pieces are the answer')
      t.ok(
        progress.every((one, i) => i === 0 || one.progress > progress[i - 1]!.progress),
        'progress only grows'
      )
      const again = await client.callTool({ name: 'lead_agent', arguments: { message: 'hello', thread_id: thread } })
      t.match(again, { structuredContent: { thread_id: thread, status: 'completed' } })
      t.equal((await answersOf(person, thread)).length, answers.length + 1)
      const failed = await client.callTool({
        name: 'lead_agent',
        arguments: { message: '/demo rate=0 deltas=1 error' }
      })
      t.match(failed, { isError: true, structuredContent: { status: 'failed' } })
    }
  )

for (const mode of ['legacy', { pin: STATELESS }] as const)
  t.test(
    `a question is an elicitation, and its answer goes on with the same call (${JSON.stringify(mode)})`,
    async (t) => {
      const { site, token } = await open(t)
      const shown: Json[] = []
      const client = await connect(t, site.url, token, mode, (params) => {
        shown.push(params)
        return { action: 'accept', content: { answer: 'Blue' } }
      })
      const result = await client.callTool({ name: 'lead_agent', arguments: { message: QUESTION } })
      t.match(result, { structuredContent: { status: 'completed', message: /Blue/ } })
      t.match(shown, [
        { message: 'Which colour?', requestedSchema: { properties: { answer: { enum: ['Green', 'Blue'] } } } }
      ])
    }
  )

for (const mode of ['legacy', { pin: STATELESS }] as const)
  t.test(
    `a run of another client is followed, and leaving does not give it up (${JSON.stringify(mode)})`,
    async (t) => {
      const { site, person, token } = await open(t)
      const client = await connect(t, site.url, token, mode)
      const thread = await person.thread()
      const row = await person.run(thread, '/demo rate=40 deltas=80 reasoning tool=current_time')
      const run = row.split('/').at(-1)!
      const follow = (id: unknown, onprogress: (one: { message?: string }) => void, signal?: AbortSignal) =>
        client.callTool({ name: 'lead_agent', arguments: {}, _meta: { 'colloquy/run': id } } as never, {
          onprogress,
          ...(signal && { signal })
        })
      const leaving = new AbortController()
      await t.rejects(follow(run, () => leaving.abort(), leaving.signal))
      let told = ''
      const result = await follow(run, ({ message = '' }) => {
        told += message
      })
      t.equal(told, (await answersOf(person, thread)).join(''), 'from its beginning, each piece once')
      t.match(result, { structuredContent: { thread_id: thread, run_id: run, status: 'completed' } })
      t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1, 'it begins none')
      const other = await signIn(site, 'other')
      const foreign = await other.run(await other.thread(), 'hello')
      for (const id of [foreign.split('/').at(-1)!, 'no-run', '', 7, 'x'.repeat(10_000)])
        await t.rejects(
          follow(id, () => {}),
          { code: -32602 },
          String(id).slice(0, 40)
        )
    }
  )

t.test('a client that can show no form is told the question, and its next message answers it', async (t) => {
  const { site, token } = await open(t)
  const client = await connect(t, site.url, token, 'legacy')
  const asking = await client.callTool({ name: 'lead_agent', arguments: { message: QUESTION } })
  t.match(asking, {
    content: [{ text: 'Which colour?' }],
    structuredContent: { status: 'input_required', question: 'Which colour?' }
  })
  const thread_id = textIn(asking, 'structuredContent', 'thread_id')
  const answered = await client.callTool({ name: 'lead_agent', arguments: { message: 'Green', thread_id } })
  t.match(answered, { structuredContent: { status: 'completed', thread_id, message: /Green/ } })
})

t.test('a stream that is cut goes on behind any of its events: every piece comes once', async (t) => {
  const { person } = await open(t)
  const whole = await person.open('POST', '/mcp', {
    body: calling('/demo rate=400 deltas=60 reasoning tool=current_time')
  })
  await whole.until(({ frames }) => frames.length > 5)
  t.match(whole.frames[0], { data: '', id: /./ }, 'the position comes first')
  const live = await person.open('GET', '/mcp', { headers: { 'last-event-id': whole.frames[3]!.id! } })
  await Promise.all([whole.whole(), live.whole()])
  const ids = whole.frames.map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
  t.strictSame(live.frames.slice(1), whole.frames.slice(4), 'joined while it was at work')
  for (let at = 0; at < whole.frames.length - 1; at += 9) {
    const rest = await person.open('GET', '/mcp', { headers: { 'last-event-id': ids[at]! } })
    await rest.whole()
    t.strictSame(rest.frames[0], { event: '', data: '', id: ids[at] })
    t.strictSame(rest.frames.slice(1), whole.frames.slice(at + 1), `behind event ${at}`)
  }
  t.equal((await person.get('/mcp')).status, 405, 'nothing is streamed without a position')
})

t.test('a request with a session is cancelled by its client', async (t) => {
  const { person } = await open(t)
  const begun = await person.post(
    '/mcp',
    rpc('initialize', { protocolVersion: HANDSHAKE, capabilities: {}, clientInfo: {} })
  )
  t.match(begun.body, { id: 1, result: { protocolVersion: HANDSHAKE, capabilities: { tools: {}, tasks: {} } } })
  const headers = { 'mcp-session-id': begun.headers.get('mcp-session-id')!, 'mcp-protocol-version': HANDSHAKE }
  const stream = await person.open('POST', '/mcp', {
    body: { ...calling('/demo rate=30 deltas=9000'), id: 7 },
    headers
  })
  await stream.until(({ frames }) => frames.length > 3)
  const { params } = rpc('notifications/cancelled', { requestId: 7 })
  const notice = await person.post('/mcp', { jsonrpc: '2.0', method: 'notifications/cancelled', params }, { headers })
  t.equal(notice.status, 202)
  await stream.whole()
  t.match(resultIn(stream), { isError: true, structuredContent: { status: 'cancelled' } })
})

t.test('a call as a task: its state, its result, its cancelling, and what it asks', async (t) => {
  const { person } = await open(t)
  const { body } = await person.post('/mcp', calling('hello', { task: { ttl: 60_000 } }))
  t.match(body, { result: { task: { status: 'working', ttl: null, createdAt: /^\d{4}-/ } } })
  const taskId = textIn(body, 'result', 'task', 'taskId')
  const result = await person.open('POST', '/mcp', { body: rpc('tasks/result', { taskId }) })
  await result.whole()
  t.match(resultIn(result), {
    structuredContent: { status: 'completed' },
    _meta: { [`${META}related-task`]: { taskId } }
  })
  t.match((await person.post('/mcp', rpc('tasks/get', { taskId }))).body, { result: { taskId, status: 'completed' } })
  t.match((await person.post('/mcp', rpc('tasks/list'))).body, { result: { tasks: [{ taskId }] } })
  t.match((await person.post('/mcp', rpc('tasks/cancel', { taskId }))).body, { error: { code: -32602 } })

  const long = await person.post('/mcp', calling('/demo rate=30 deltas=9000', { task: {} }))
  const longId = textIn(long.body, 'result', 'task', 'taskId')
  t.match((await person.post('/mcp', rpc('tasks/cancel', { taskId: longId }))).body, {
    result: { status: 'cancelled' }
  })

  const other = await signIn({ url: person.url })
  for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
    t.match((await other.post('/mcp', rpc(method, { taskId }))).body, { error: { code: -32602, message: /not found/ } })
  t.match((await other.post('/mcp', rpc('tasks/list'))).body, { result: { tasks: [] } })
})

t.test('of two who answer one question one wins, and the other is told', async (t) => {
  const { person } = await open(t)
  const headers = { 'mcp-protocol-version': STATELESS, 'mcp-method': 'tools/call', 'mcp-name': 'lead_agent' }
  const asking = await person.open('POST', '/mcp', {
    body: calling('', { ...stateless({ arguments: { message: QUESTION } }) }),
    headers
  })
  await asking.whole()
  const need = resultIn(asking)
  t.match(need, { resultType: 'input_required', inputRequests: { answer: { method: 'elicitation/create' } } })
  const inputResponses = { answer: { action: 'accept', content: { answer: 'Blue' } } }
  const retry = calling(
    '',
    stateless({ arguments: { message: QUESTION }, inputResponses, requestState: textIn(need, 'requestState') })
  )
  const streams = await Promise.all(
    [1, 2].map((id) => person.open('POST', '/mcp', { body: { ...retry, id }, headers }))
  )
  const results = await Promise.all(
    streams.map(async (one) => {
      await one.ended
      return one.headers.get('content-type')?.startsWith('text/event-stream')
        ? resultIn(one)
        : at(JSON.parse(one.bytes.toString()), 'result')
    })
  )
  t.equal(results.filter((one) => at(one, 'isError') === true).length, 1)
  t.match(
    results.find((one) => at(one, 'isError') !== true),
    { resultType: 'complete', structuredContent: { status: 'completed', message: /Blue/ } }
  )
})

t.test('what is wrong is refused in the words of the protocol, before the handler too', async (t) => {
  const { site, person, token } = await open(t)
  const send = async (body: unknown, headers: Record<string, string> = {}) => {
    const all = { 'content-type': 'application/json', authorization: `Bearer ${token}`, ...headers }
    const response = await fetch(`${site.url}/mcp`, {
      method: 'POST',
      headers: all,
      body: typeof body === 'string' ? body : JSON.stringify(body)
    })
    return { status: response.status, headers: response.headers, body: (await response.json()) as Json }
  }
  const refused = (status: number, code: number) => ({
    status,
    body: { jsonrpc: '2.0', error: { code, message: /./ } }
  })
  const nobody = await send(rpc('ping'), { authorization: 'Bearer clq_nobody' })
  t.match(nobody, refused(401, -32000))
  t.equal(nobody.headers.get('www-authenticate'), 'Bearer')
  t.match(await send('{'), refused(400, -32700))
  t.match(await send([rpc('ping')]), refused(400, -32600))
  t.match(await send({ id: 1, method: 'ping' }), refused(400, -32600))
  t.match(await send(`"${'x'.repeat(3 << 20)}"`), refused(413, -32600))
  t.match(await send(rpc('prompts/list')), refused(200, -32601))
  t.match(await send(rpc('tools/call', { name: 'nobody' })), refused(200, -32602))
  t.match(await send(rpc('tools/call', { name: 'lead_agent', arguments: { message: 7 } })), refused(200, -32602))
  t.match(
    await send(rpc('tools/call', { name: 'lead_agent', arguments: { message: 'x', nonsense: 1 } })),
    refused(200, -32602)
  )
  t.match(await send(rpc('ping'), { 'mcp-protocol-version': '1999-01-01' }), refused(400, -32022))
  t.match(await send(rpc('ping'), { 'mcp-session-id': 'lost' }), refused(404, -32001))
  t.match(await send(rpc('tools/list'), { 'mcp-protocol-version': STATELESS }), refused(400, -32602))
  const list = rpc('tools/list', stateless({}))
  t.match(await send(list, { 'mcp-protocol-version': STATELESS, 'mcp-method': 'tools/call' }), refused(400, -32020))
  t.match(await send(list, { 'mcp-protocol-version': STATELESS, 'mcp-method': 'tools/list' }), {
    body: { result: { resultType: 'complete' } }
  })
  t.match(await send({ jsonrpc: '2.0', id: 'question-x', result: {} }), { status: 404 })
  t.match(await send({ jsonrpc: '2.0', id: 'other', result: {} }), refused(400, -32602))

  const reading = await tokenOf(person, ['runs:read'])
  t.match(await send(calling('hello'), { authorization: `Bearer ${reading}` }), refused(403, -32000))
  t.match(await person.get('/mcp', { headers: { 'last-event-id': 'nonsense' } }), {
    status: 400,
    body: { error: { code: -32000 } }
  })

  const stranger = await signIn(site)
  const theirs = await stranger.thread()
  const none = await send(
    calling('hello', { arguments: { message: 'x', thread_id: '00000000-0000-4000-8000-000000000000' } })
  )
  const foreign = await send(calling('hello', { arguments: { message: 'x', thread_id: theirs } }))
  t.match(foreign.body, { result: { isError: true, content: [{ text: `Thread ${theirs} not found` }] } })
  t.match(none.body, { result: { isError: true } })
  const mine = await person.open('POST', '/mcp', { body: calling('hello') })
  await mine.whole()
  t.match(await stranger.get('/mcp', { headers: { 'last-event-id': mine.lastId! } }), {
    status: 404,
    body: { error: { code: -32000 } }
  })
})

t.test('a run of another door is joined as a task, and its pieces are the state', async (t) => {
  const { person } = await open(t)
  const thread = await person.thread()
  const { body } = await person.post(`/api/threads/${thread}/runs`, asked(TALK))
  const taskId = textIn(body, 'run_id')
  const joined = await person.open('POST', '/mcp', { body: rpc('tasks/result', { taskId }) })
  await joined.whole()
  t.match(resultIn(joined), { structuredContent: { message: (await answersOf(person, thread)).at(-1) } })
  await until(
    async () => at((await person.get(`/api/threads/${thread}/runs/${taskId}`)).body, 'status') === 'success',
    'it ends'
  )
  t.equal(progressIn(joined).length, 0, 'nobody asked for progress')
})
