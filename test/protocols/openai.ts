// OpenAI's API over HTTP: what its clients send, recorded, by plain fetch. A response is a run, a conversation is a thread.
import t, { type Test } from 'tap'
import { openBackend } from '../fixtures/backends.ts'
import { type Answer, at, listIn, openSite, Person, signIn, type Site, textIn, until } from '../fixtures/gateway.ts'
import type { Stream } from '../fixtures/stream.ts'

type Json = Record<string, unknown>

const TALK = '/demo rate=0 deltas=40 reasoning tool=current_time'
const SCOPES = ['threads:read', 'threads:write', 'threads:delete', 'runs:create', 'runs:read', 'runs:cancel']
const WEATHER = {
  type: 'function',
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: true
}
const CALL = '/demo rate=0 deltas=3 tool=get_weather args={"city":"Paris"}'

async function open(t: Test): Promise<{ site: Site; person: Person; client: Client }> {
  const site = await openSite(t, { config: { memory: { enabled: false }, title: { enabled: false } } })
  const person = await signIn(site)
  return { site, person, client: await clientOf(site, person) }
}

async function clientOf(site: Site, person: Person): Promise<Client> {
  return new Client(new Person(site.url), await headersOf(person))
}

/** With an API token as the key, as the libraries send it. */
async function headersOf(person: Person): Promise<Record<string, string>> {
  const token = textIn((await person.post('/api/v1/auth/tokens', { scopes: SCOPES })).body, 'token')
  return { authorization: `Bearer ${token}`, accept: 'application/json' }
}

class Client {
  readonly #person: Person
  readonly #headers: Record<string, string>

  constructor(person: Person, headers: Record<string, string>) {
    this.#person = person
    this.#headers = headers
  }

  ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const sent = { ...this.#headers, ...headers }
    return this.#person.ask(method, path, { headers: sent, ...(body !== undefined && { body }) })
  }

  open(method: string, path: string, body?: unknown): Promise<Stream> {
    return this.#person.open(method, path, { headers: this.#headers, ...(body !== undefined && { body }) })
  }

  async respond(body: Json): Promise<Json> {
    const answer = await this.ask('POST', '/v1/responses', body)
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
    return answer.body as Json
  }

  /** Its events, from the one after `after` on. */
  async replay(id: string, after = -1): Promise<Json[]> {
    const from = after < 0 ? '' : `&starting_after=${after}`
    const stream = await this.open('GET', `/v1/responses/${id}?stream=true${from}`)
    await stream.ended
    return eventsIn(stream)
  }
}

const eventsIn = ({ frames }: Pick<Stream, 'frames'>): Json[] => frames.map(({ data }) => JSON.parse(data) as Json)
const typesIn = (events: readonly Json[]): unknown[] => events.map(({ type }) => type)
const textOf = (response: unknown): string =>
  listIn(response, 'output')
    .filter((item) => at(item, 'type') === 'message')
    .map((item) => textIn(item, 'content', 0, 'text'))
    .join('')

/** The answers' texts of a thread's state. */
async function answersOf(person: Person, conversation: string): Promise<string[]> {
  const thread = conversation.slice('conv_'.length).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  const { body } = await person.get(`/api/threads/${thread}/state`)
  return listIn(body, 'values', 'messages').flatMap((one) => (at(one, 'type') === 'ai' ? [textIn(one, 'content')] : []))
}

t.test('a stream is numbered densely from 0, its deltas are the items, and its end is the response', async (t) => {
  const { person, client } = await open(t)
  const stream = await client.open('POST', '/v1/responses', { model: 'lead_agent', input: TALK, stream: true })
  t.equal(await stream.ended, 'whole')
  const events = eventsIn(stream)
  t.strictSame(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, i) => i)
  )
  t.strictSame(
    stream.frames.map(({ event }) => event),
    typesIn(events)
  )
  t.match(events[0], { type: 'response.created', response: { id: /^resp_[0-9a-f]{32}$/, status: 'in_progress' } })
  const response = events.at(-1)?.response as Json
  t.match(events.at(-1), { type: 'response.completed', response: { status: 'completed', object: 'response' } })
  const deltas = events.flatMap(({ type, delta }) => (type === 'response.output_text.delta' ? [delta] : [])).join('')
  t.equal(deltas, textOf(response))
  const done = events.flatMap(({ type, item }) => (type === 'response.output_item.done' ? [item] : []))
  t.strictSame(done, response.output)
  const types = listIn(response, 'output').map((item) => at(item, 'type'))
  t.strictSame(types, ['reasoning', 'mcp_call', 'message'])
  t.ok((at(response, 'usage', 'total_tokens') as number) > 0, 'usage is told')
  const conversation = textIn(response, 'conversation', 'id')
  t.equal((await answersOf(person, conversation)).join(''), textOf(response))
  const id = textIn(response, 'id')
  t.strictSame((await client.ask('GET', `/v1/responses/${id}`)).body, response)
  for (const after of [-1, 0, 7, events.length - 2])
    t.strictSame(await client.replay(id, after), events.slice(after + 1), `after ${after}`)
  t.strictSame(await client.replay(id, 100_000), [events.at(-1)], 'beyond the end comes the end')
})

t.test('a stream that is cut goes on behind any of its events, while the run goes on', async (t) => {
  const { client } = await open(t)
  const input = '/demo rate=200 deltas=60 reasoning'
  const first = await client.open('POST', '/v1/responses', { input, stream: true })
  await first.until(({ frames }) => frames.length > 5)
  const seen = eventsIn(first).slice(0, 5)
  const id = textIn(seen[0], 'response', 'id')
  first.leave()
  const rest = await client.replay(id, 4)
  const all = [...seen, ...rest]
  t.strictSame(
    all.map(({ sequence_number }) => sequence_number),
    all.map((_, i) => i)
  )
  t.strictSame(await client.replay(id), all, 'a replay is the same for every reader')
})

t.test('a response without a stream waits, one in the background does not, and a cancel ends it', async (t) => {
  const { client } = await open(t)
  const waited = await client.respond({ input: TALK, metadata: { a: 'b' }, temperature: 0.2 })
  t.match(waited, { status: 'completed', metadata: { a: 'b' }, temperature: 0.2, background: false })
  const begun = await client.respond({ input: '/demo rate=20 deltas=1000', background: true })
  t.match(begun, { status: 'queued', background: true })
  const path = `/v1/responses/${textIn(begun, 'id')}`
  await until(async () => at((await client.ask('GET', path)).body, 'status') === 'in_progress', 'it runs')
  t.match((await client.ask('POST', `${path}/cancel`)).body, { status: 'cancelled', id: begun.id })
  t.match((await client.replay(textIn(begun, 'id'))).at(-1), {
    type: 'response.incomplete',
    response: { status: 'cancelled' }
  })
  t.match((await client.ask('DELETE', path)).body, { object: 'response', deleted: true })
  t.equal((await client.ask('GET', path)).status, 404)
  t.match(await client.respond({ input: '/demo rate=0 deltas=2 error' }), {
    status: 'failed',
    error: { code: 'server_error', message: /asked to fail/ }
  })
})

t.test('a response goes on from the one before it, or branches from an older one', async (t) => {
  const { person, client } = await open(t)
  const first = await client.respond({ input: 'hello' })
  const second = await client.respond({ input: '/demo rate=0 deltas=2', previous_response_id: first.id })
  t.match(second, { previous_response_id: first.id, conversation: first.conversation as object })
  const branch = await client.respond({ input: '/demo rate=0 deltas=3', previous_response_id: first.id })
  const conversation = textIn(branch, 'conversation', 'id')
  t.strictSame(await answersOf(person, conversation), [textOf(first), textOf(branch)])
  const third = await client.respond({ input: '/demo rate=0 deltas=4', conversation: { id: conversation } })
  t.strictSame(await answersOf(person, conversation), [textOf(first), textOf(branch), textOf(third)])
  const items = await client.ask('GET', `/v1/responses/${textIn(third, 'id')}/input_items`)
  t.match(items.body, { object: 'list', data: [{ type: 'message', role: 'user' }], has_more: false })
})

t.test('a function tool of the client ends the response with its call, and its output goes on', async (t) => {
  const { person, client } = await open(t)
  const asking = await client.respond({ input: CALL, tools: [WEATHER] })
  t.match(asking, { status: 'completed', tools: [WEATHER] })
  const [call] = listIn(asking, 'output').filter((item) => at(item, 'type') === 'function_call')
  t.match(call, { name: 'get_weather', arguments: '{"city":"Paris"}', status: 'completed' })
  const call_id = textIn(call, 'call_id')
  const output = { type: 'function_call_output', call_id, output: 'sunny' }
  const next = { previous_response_id: asking.id, tools: [WEATHER] }
  t.match(await client.ask('POST', '/v1/responses', { input: 'well?', ...next }), {
    status: 400,
    body: { error: { param: 'input', message: /No tool output found/ } }
  })
  const answered = await client.respond({ input: [output], ...next })
  t.match(answered, { status: 'completed' })
  t.notMatch(listIn(answered, 'output'), [{ type: 'function_call' }])
  const again = await client.respond({ input: CALL, previous_response_id: answered.id, tools: [WEATHER] })
  const calls = listIn(again, 'output').filter((item) => at(item, 'type') === 'function_call')
  const results = calls.map((one) => ({ ...output, call_id: textIn(one, 'call_id') }))
  const both = [...results, { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello' }] }]
  t.match(await client.respond({ input: both, previous_response_id: again.id, tools: [WEATHER] }), {
    status: 'completed'
  })
  const state = await answersOf(person, textIn(asking, 'conversation', 'id'))
  t.ok(state.length >= 4, 'every answer is in the state')
})

t.test('what is unknown or cannot be honoured is refused in its own form, by name', async (t) => {
  const { site, person, client } = await open(t)
  const refused: [body: unknown, status: number, param: string | null][] = [
    [{ input: 'x', nonsense: 1 }, 400, 'nonsense'],
    [{ input: 'x', store: false }, 400, 'store'],
    [{ input: 'x', model: 'gpt-none' }, 404, 'model'],
    [{ input: [] }, 400, 'input'],
    [{}, 400, 'input'],
    [{ input: 7 }, 400, 'input'],
    [{ input: [{ type: 'nonsense' }] }, 400, 'input[0].type'],
    [{ input: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, 400, 'input[0].content[0].type'],
    [{ input: [{ type: 'function_call_output', call_id: 'none', output: '' }] }, 400, 'input'],
    [{ input: 'x', tools: [{ type: 'web_search' }] }, 400, 'tools[0].type'],
    [{ input: 'x', previous_response_id: 'resp_none' }, 400, 'previous_response_id'],
    [{ input: 'x', conversation: 'conv_none' }, 404, null],
    [{ input: 'x', stream: 'yes' }, 400, 'stream'],
    [{ input: 'x', text: 'json' }, 400, 'text'],
    [{ input: 'x', text: { verbosity: 'low', tone: 'kind' } }, 400, 'text.tone'],
    [{ input: 'x', metadata: { a: 1 } }, 400, 'metadata']
  ]
  for (const [body, status, param] of refused)
    t.match(await client.ask('POST', '/v1/responses', body), { status, body: { error: { param, message: /./ } } })
  for (const path of ['/v1/responses', '/v1/chat/completions'])
    t.match(await client.ask('POST', path, { nonsense: 1 }), {
      body: { error: { code: 'unknown_parameter', param: 'nonsense', message: /Unknown parameter: 'nonsense'/ } }
    })
  t.match(await client.ask('POST', '/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], n: 2 }), {
    status: 400,
    body: { error: { param: 'n', type: 'invalid_request_error' } }
  })
  t.match(await client.ask('POST', '/v1/responses', '{"input": '), {
    status: 400,
    body: { error: { param: null, message: /no JSON: not valid JSON/ } }
  })
  const deep = await client.ask('POST', '/v1/responses', `{"input": ${'['.repeat(5000)}${']'.repeat(5000)}}`)
  t.match(deep, { status: 400, body: { error: { param: null, message: /nested too deeply/ } } })
  const none = new Client(new Person(site.url), {})
  t.match(await none.ask('GET', '/v1/models'), { status: 401, body: { error: { code: 'invalid_api_key' } } })
  t.match(await client.ask('GET', '/v1/nowhere'), { status: 404, body: { error: { message: 'Not Found' } } })
  const large = 'x'.repeat(20 * 1024 * 1024)
  t.match(await client.ask('POST', '/v1/responses', { input: large }), { status: 413, body: { error: {} } })
  const mine = await client.respond({ input: 'hello' })
  t.match(await client.ask('GET', `/v1/responses/${mine.id}?stream=maybe`), {
    status: 400,
    body: { error: { param: 'stream' } }
  })
  const other = await clientOf(site, await signIn(site, 'other'))
  const [id, conversation] = [textIn(mine, 'id'), textIn(mine, 'conversation', 'id')]
  for (const [method, path] of [
    ['GET', `/v1/responses/${id}`],
    ['DELETE', `/v1/responses/${id}`],
    ['POST', `/v1/responses/${id}/cancel`],
    ['GET', `/v1/conversations/${conversation}/items`],
    ['DELETE', `/v1/conversations/${conversation}`]
  ] as const)
    t.match(await other.ask(method, path), { status: 404, body: { error: {} } }, `${method} ${path}`)
  t.match(await other.ask('POST', '/v1/responses', { input: 'x', previous_response_id: id }), { status: 400 })
  t.match(await other.ask('POST', '/v1/responses', { input: 'x', conversation }), { status: 404 })
  t.equal((await answersOf(person, conversation)).length, 1)
})

t.test('items that two processes add at once all stay', async (t) => {
  const store = await openBackend(t, 'memory')
  const sites = [await openSite(t, { store }), await openSite(t, { store })]
  const headers = await headersOf(await signIn(sites[0]!))
  const clients = sites.map(({ url }) => new Client(new Person(url), headers))
  const path = `/v1/conversations/${textIn((await clients[0]!.ask('POST', '/v1/conversations', {})).body, 'id')}/items`
  const said = Array.from({ length: 12 }, (_, i) => `word ${i}`)
  const adding = said.map((content, i) =>
    clients[i % 2]!.ask('POST', path, { items: [{ type: 'message', role: 'user', content }] })
  )
  for (const { status, text } of await Promise.all(adding)) t.equal(status, 200, text)
  const { body } = await clients[1]!.ask('GET', `${path}?order=asc`)
  const texts = listIn(body, 'data').map((item) => textIn(item, 'content', 0, 'text'))
  t.strictSame(texts.toSorted(), said.toSorted())
})

t.test('a conversation has items, metadata and an end', async (t) => {
  const { client } = await open(t)
  const items = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'I am Ada' }] }]
  const made = (await client.ask('POST', '/v1/conversations', { items, metadata: { topic: 'tea' } })).body
  const id = textIn(made, 'id')
  t.match(made, { object: 'conversation', metadata: { topic: 'tea' } })
  const path = `/v1/conversations/${id}`
  const answered = await client.respond({ input: 'hello', conversation: id })
  t.match(answered.conversation, { id })
  const list = (await client.ask('GET', `${path}/items?order=asc`)).body
  t.match(
    listIn(list, 'data').map((item) => at(item, 'role')),
    ['user', 'user', 'assistant']
  )
  const item = textIn(list, 'data', 0, 'id')
  t.match((await client.ask('GET', `${path}/items/${item}`)).body, { content: [{ text: 'I am Ada' }] })
  const added = await client.ask('POST', `${path}/items`, { items: [{ role: 'user', content: 'more' }] })
  t.match(added.body, { object: 'list', data: [{ role: 'user' }] })
  t.equal(listIn((await client.ask('GET', `${path}/items`)).body, 'data').length, 4, 'what was there stays')
  const atOnce = Array.from({ length: 8 }, (_, n) => ({ items: [{ role: 'user', content: `at once ${n}` }] }))
  await Promise.all(atOnce.map((body) => client.ask('POST', `${path}/items`, body)))
  t.equal(listIn((await client.ask('GET', `${path}/items`)).body, 'data').length, 12, 'and all that comes at once')
  t.equal((await client.ask('DELETE', `${path}/items/${item}`)).status, 200)
  t.equal((await client.ask('GET', `${path}/items/${item}`)).status, 404)
  t.match((await client.ask('POST', path, { metadata: { topic: 'coffee' } })).body, { metadata: { topic: 'coffee' } })
  t.match((await client.ask('DELETE', path)).body, { deleted: true })
  t.equal((await client.ask('GET', path)).status, 404)
})

t.test('models are the assistants and the configured models', async (t) => {
  const { client } = await open(t)
  const { body } = await client.ask('GET', '/v1/models')
  t.match(body, { object: 'list', data: [{ id: 'lead_agent', object: 'model' }, { id: 'demo' }] })
  t.match((await client.ask('GET', '/v1/models/demo')).body, { id: 'demo', object: 'model' })
  t.match(await client.ask('GET', '/v1/models/none'), { status: 404, body: { error: { code: 'model_not_found' } } })
  t.match(await client.respond({ model: 'demo', input: 'hello' }), { model: 'demo', status: 'completed' })
})

t.test('a chat completion is stateless, streamed or not, and with a thread it continues', async (t) => {
  const { person, client } = await open(t)
  const messages = [
    { role: 'system', content: 'Be short' },
    { role: 'user', content: TALK }
  ]
  const whole = await client.ask('POST', '/v1/chat/completions', { model: 'lead_agent', messages })
  t.match(whole, {
    status: 200,
    body: { object: 'chat.completion', choices: [{ finish_reason: 'stop', message: { role: 'assistant' } }] }
  })
  const content = textIn(whole.body, 'choices', 0, 'message', 'content')
  const options = { stream: true, stream_options: { include_usage: true } }
  const stream = await client.open('POST', '/v1/chat/completions', { messages, ...options })
  await stream.ended
  t.equal(stream.frames.at(-1)?.data, '[DONE]')
  const chunks = eventsIn({ frames: stream.frames.slice(0, -1) })
  const text = chunks.map((one) => String(at(one, 'choices', 0, 'delta', 'content') ?? '')).join('')
  t.equal(text.length, content.length, 'both say the same')
  t.match(chunks.at(-1), { choices: [], usage: { total_tokens: Number } })
  const lasting = { 'x-thread-id': await person.thread() }
  const say = (list: unknown[]) => client.ask('POST', '/v1/chat/completions', { messages: list }, lasting)
  const first = await say([{ role: 'user', content: 'hello' }])
  const answer = { role: 'assistant', content: textIn(first.body, 'choices', 0, 'message', 'content') }
  await say([{ role: 'user', content: 'hello' }, answer, { role: 'user', content: '/demo rate=0 deltas=2' }])
  const { body } = await person.get(`/api/threads/${lasting['x-thread-id']}/state`)
  t.equal(listIn(body, 'values', 'messages').length, 4, 'nothing is there twice')
})

t.test(
  'a chat completion that fails is an error, and no answer without choices; it is not asked for again',
  async (t) => {
    const { client } = await open(t)
    const messages = [{ role: 'user', content: '/demo rate=0 deltas=2 error' }]
    const failed = await client.ask('POST', '/v1/chat/completions', { messages })
    t.match(failed, { status: 500, body: { error: { type: 'server_error', code: null, message: /asked to fail/ } } })
    t.equal(failed.headers.get('x-should-retry'), 'false')
    const stream = await client.open('POST', '/v1/chat/completions', { messages, stream: true })
    await stream.ended
    t.match(JSON.parse(stream.frames.at(-2)!.data), failed.body as object, 'a stream says the same')
  }
)

t.test(
  'tools of a chat completion are called by the client, and its results come with the whole conversation',
  async (t) => {
    const { client } = await open(t)
    const tools = [{ type: 'function', function: { name: 'get_weather', parameters: WEATHER.parameters } }]
    const messages: unknown[] = [{ role: 'user', content: CALL }]
    const asking = (await client.ask('POST', '/v1/chat/completions', { messages, tools })).body
    t.match(asking, {
      choices: [
        {
          finish_reason: 'tool_calls',
          message: { tool_calls: [{ type: 'function', function: { name: 'get_weather' } }] }
        }
      ]
    })
    const message = at(asking, 'choices', 0, 'message')
    const tool_call_id = textIn(message, 'tool_calls', 0, 'id')
    messages.push(message, { role: 'tool', tool_call_id, content: 'sunny' })
    t.match((await client.ask('POST', '/v1/chat/completions', { messages, tools })).body, {
      choices: [{ finish_reason: 'stop', message: { content: /./ } }]
    })
  }
)
