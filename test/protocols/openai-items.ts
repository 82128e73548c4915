// The items of OpenAI's conversations: which calls the client runs, and which the server has run, whichever protocol has made them.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { responses } from '../../lib/protocols/openai/translate.ts'
import { Kind } from '../../lib/run/log/frame.ts'
import { at, listIn, openSite, Person, signIn, textIn } from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { programOf } from '../fixtures/program.ts'
import { aStoredRun } from '../fixtures/run-log.ts'

const WEATHER = { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }
const CALL = '/demo rate=0 deltas=3 tool=get_weather args={"city":"Paris"}'
const config = { memory: { enabled: false }, title: { enabled: false } }

type Item = Record<string, unknown>

t.test('a call that an earlier attempt has made gets its result, whatever else was cut there', async (t) => {
  const tool_call_chunks = [{ index: 0, id: 'c', name: 'look', args: '{}' }]
  const chunk = (id: string, more: object) => [{ type: 'AIMessageChunk', id, content: '', ...more }, {}]
  const attempt = { kind: Kind.metadata, data: {} }
  const said = [
    chunk('asking', { tool_call_chunks }),
    chunk('asking', { chunk_position: 'last' }),
    // Beside it, of another branch.
    chunk('cut', { content: 'half' }),
    attempt,
    chunk('again', { content: 'whole' }),
    [{ type: 'tool', id: 't', tool_call_id: 'c', content: 'found' }, {}],
    chunk('again', { content: ' words', chunk_position: 'last' })
  ]
  const run = { ...aStoredRun({ run_id: randomUUID() }), status: 'success' } as const
  let state = responses.initial
  const events: unknown[] = []
  for (const [n, one] of [attempt, ...said].entries()) {
    const { kind, data } = 'kind' in one ? one : { kind: Kind.messages, data: one }
    const bytes = Buffer.from(
      `event: ${kind === Kind.messages ? 'messages' : 'metadata'}\ndata: ${JSON.stringify(data)}\n\n`
    )
    const step = responses.frame(run, state, { n, epoch: 1, kind, bytes }, null)
    state = step.state
    events.push(...step.events)
  }
  events.push(...responses.end(run, state, { epoch: 1, n: 99 }))
  const done = events
    .map((event) => JSON.parse(String(at(event, 'json'))))
    .filter(({ type }) => /item\.done/.test(type))
  t.match(
    done.map(({ item: { type, status, output } }) => [type, status, output]),
    [
      ['message', 'incomplete'],
      ['mcp_call', 'completed', 'found'],
      ['message', 'completed']
    ]
  )
})

const typesOf = (items: readonly unknown[]) => items.map((item) => textIn(item, 'type'))
const idOf = (thread: string) => `conv_${thread.replaceAll('-', '')}`

/** With an API token as the key. */
class Client {
  readonly #person: Person
  readonly #headers: Record<string, string>

  constructor(url: string, token: string) {
    this.#person = new Person(url)
    this.#headers = { authorization: `Bearer ${token}` }
  }

  ask(method: string, path: string, body?: unknown) {
    return this.#person.ask(method, path, { headers: this.#headers, ...(body !== undefined && { body }) })
  }

  async items(thread: string): Promise<Item[]> {
    const { body } = await this.ask('GET', `/v1/conversations/${idOf(thread)}/items?order=asc&limit=100`)
    return listIn(body, 'data') as Item[]
  }
}

const agUi = (person: Person, agent: string, threadId: string, words: string, tools: unknown[] = []) =>
  person.post(`/api/agui/${agent}`, {
    threadId,
    runId: randomUUID(),
    messages: [{ id: randomUUID(), role: 'user', content: words }],
    tools,
    context: [],
    state: {}
  })

t.test('calls of the server are told from those of the client, of any protocol, and after a restart', async (t) => {
  const home = t.testdir()
  const site = await openSite(t, { home, config })
  const person = await signIn(site)
  const { token } = await programOf(person, ...PERMISSIONS)
  const client = new Client(site.url, token)
  const thread = await person.thread()
  await agUi(person, 'lead_agent', thread, '/demo rate=0 deltas=2 tool=current_time')
  await agUi(person, 'lead_agent', thread, CALL, [WEATHER])
  const asking = await client.items(thread)
  t.strictSame(typesOf(asking), ['message', 'mcp_call', 'message', 'message', 'function_call'])
  t.match(asking[1], { id: /^mcp_/, name: 'current_time', status: 'completed', output: /\d/, error: null })
  const input = [{ type: 'function_call_output', call_id: asking[4]!.call_id, output: 'sunny' }]
  t.match(await client.ask('POST', '/v1/responses', { input, conversation: idOf(thread) }), { status: 200 })
  const answered = await client.items(thread)
  const all = ['message', 'mcp_call', 'message', 'message', 'function_call', 'function_call_output', 'message']
  t.strictSame(typesOf(answered), all)
  t.match(answered[5], { call_id: asking[4]!.call_id, output: 'sunny' })

  const path = `/v1/conversations/${idOf(thread)}/items`
  const items = [
    { type: 'function_call', call_id: 'mine', name: 'get_weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'mine', output: 'rain' },
    { type: 'mcp_call', id: 'mcp_theirs', name: 'look', server_label: 'x', arguments: '{}', output: 'seen' },
    { type: 'mcp_call', id: 'mcp_failed', name: 'look', server_label: 'x', arguments: '{}', error: 'gone' }
  ]
  t.equal((await client.ask('POST', path, { items })).status, 200)
  const brought = (await client.items(thread)).slice(all.length)
  t.strictSame(
    typesOf(brought).toSorted(),
    ['function_call', 'function_call_output', 'mcp_call', 'mcp_call'],
    'what it brings'
  )
  t.match(
    brought.find(({ error }) => error === 'gone'),
    { type: 'mcp_call', status: 'failed', output: null },
    'one that failed too'
  )

  await agUi(person, 'lead_agent', thread, '/demo rate=0 deltas=2 tool=ask_user args={"question":"Which?"}')
  const asked = (await client.items(thread)).slice(-2)
  t.match(asked, [
    { type: 'mcp_call', name: 'ask_user', status: 'in_progress', output: null },
    { type: 'message', role: 'assistant', content: [{ text: /Which/ }] }
  ])
  const before = await client.items(thread)
  await site.stop()
  const later = new Client((await openSite(t, { home, config })).url, token)
  t.strictSame(await later.items(thread), before, 'the same after a restart')
  const server = textIn(before[1], 'id')
  t.match((await later.ask('GET', `${path}/${server}`)).body, { id: server, type: 'mcp_call' })
  t.equal((await later.ask('DELETE', `${path}/${server}`)).status, 200)
  t.equal((await later.items(thread)).length, before.length - 1, 'a call goes with its result')
})

t.test('items that are added are told again as they came', async (t) => {
  const site = await openSite(t, { config })
  const { token } = await programOf(await signIn(site), ...PERMISSIONS)
  const client = new Client(site.url, token)
  const path = `/v1/conversations/${textIn((await client.ask('POST', '/v1/conversations', {})).body, 'id')}/items`
  const items = ['one', 'two', 'three'].map((content) => ({ type: 'message', role: 'user', content }))
  const { body } = await client.ask('POST', path, { items })
  const told = listIn(body, 'data')
  t.strictSame(
    told.map((one) => at(one, 'content', 0, 'text')),
    ['one', 'two', 'three']
  )
  t.match(body, { object: 'list', first_id: at(told[0], 'id'), last_id: at(told[2], 'id'), has_more: false })
  t.strictSame(at((await client.ask('GET', `${path}?order=asc`)).body, 'data'), told)
})

t.test('of a graph, a call is the client’s that its run was given the tool of', async (t) => {
  const { site, person } = await graphSite(t, { graphs: { handing: 'plain.mjs:handing' } })
  const { token } = await programOf(person, ...PERMISSIONS)
  const client = new Client(site.url, token)
  const thread = await person.thread()
  await agUi(person, 'handing', thread, 'please', [WEATHER])
  const items = await client.items(thread)
  t.strictSame(typesOf(items), ['message', 'mcp_call', 'function_call'])
  t.match(items, [
    { role: 'user' },
    { name: 'look_up', output: 'found' },
    { name: 'get_weather', call_id: /^for_client/ }
  ])
  const tools = [{ type: 'function', ...WEATHER }]
  const response = (await client.ask('POST', '/v1/responses', { model: 'handing', input: 'please', tools })).body
  const output = listIn(response, 'output')
  t.strictSame(typesOf(output), ['mcp_call', 'function_call'], 'as its response has said')
  t.match(output[1], { name: 'get_weather', call_id: /^for_client/ })
  t.equal(at(output[0], 'output'), 'found')
})
