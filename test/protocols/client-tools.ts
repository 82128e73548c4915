// Tools of a page, and what it tells the agent: called out to the page, which runs them, and gone on with, by the built-in agent and by a
// graph. What assistant-ui's transport sends to the AI SDK's route is recorded.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Store } from '../../lib/store/store.ts'
import { listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { programOf } from '../fixtures/program.ts'

const CHAT = '/api/ai/chat'
const WEATHER = {
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } } }
}
const CALL = '/demo rate=0 deltas=3 tool=get_weather args={"city":"Paris"}'

type Chunk = Record<string, unknown>

const chunksIn = (text: string) => [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!) as Chunk)
const textOf = (chunks: readonly Chunk[]) => chunks.map(({ delta = '' }) => delta).join('')

/** As its transport sends it: the page's tools by their names, its instructions, and the messages with the chat's id. */
const sent = (id: string, messages: unknown[], more: object = {}) => ({
  callSettings: { maxTokens: 100 },
  system: 'Be brief',
  tools: { get_weather: WEATHER },
  id,
  messages,
  trigger: 'submit-message',
  ...more
})
const said = (text: string) => ({ id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] })

/** The assistant's message, with what the page's tool has answered. */
const answered = (id: unknown, call: Chunk | undefined, output: unknown) => ({
  id,
  role: 'assistant',
  parts: [{ type: 'dynamic-tool', ...call, state: 'output-available', output }]
})

t.test('assistant-ui’s tools are called by the built-in agent and run by the page', async (t) => {
  let store: Store
  const behind = (opened: Store) => {
    store = opened
    return opened
  }
  const config = { memory: { enabled: false }, title: { enabled: false } }
  const person = await signIn(await openSite(t, { config, behind }))
  const id = randomUUID()
  const question = said(CALL)
  const asking = chunksIn((await person.post(CHAT, sent(id, [question]))).text)
  const call = asking.findLast(({ type }) => type === 'tool-input-available')
  t.match(call, { toolName: 'get_weather', input: { city: 'Paris' }, providerExecuted: false })
  t.equal(asking.filter((one) => one.providerExecuted === false).length, 1, 'the page is asked once')
  t.match(asking.at(-1), { type: 'finish', finishReason: 'tool-calls' })
  const [run] = await store!.runs.list(id, { limit: 1, offset: 0 }, null)
  t.match(run!.kwargs.context, {
    client_tools: [{ name: 'get_weather', ...WEATHER }],
    client_instructions: 'Be brief'
  })
  const messageId = asking[0]!.messageId
  const answer = answered(messageId, call, 'sunny')
  const going = await person.post(CHAT, sent(id, [question, answer], { messageId }))
  t.match(chunksIn(going.text).at(-1), { type: 'finish', finishReason: 'stop' })
  t.match(going.text, '"output":"sunny"')
  t.match(await person.post(CHAT, sent(id, [question, answer], { messageId })), { status: 409 }, 'one tab wins')
  const own = { context: { model_name: 'demo' }, tools: {}, system: null }
  t.match(await person.post(CHAT, sent(randomUUID(), [said('hello')], own)), { status: 200 })
})

t.test('what is no tool is refused by name', async (t) => {
  const person = await signIn(await openSite(t))
  const many = Object.fromEntries(Array.from({ length: 129 }, (_, n) => [`tool${n}`, WEATHER]))
  for (const [tools, loc] of [
    [[WEATHER], 'tools'],
    [{ get_weather: 'sunny' }, 'get_weather'],
    [{ 'get weather': WEATHER }, 'get weather'],
    [many, 'tools']
  ] as const)
    t.match(await person.post(CHAT, sent(randomUUID(), [said('hello')], { tools })), { status: 422, text: loc })
  t.match(await person.post(CHAT, sent(randomUUID(), [said('hello')], { system: 7 })), { status: 422, text: 'system' })
})

t.test('a graph that ends with a call for its client goes on with the result, by every protocol', async (t) => {
  const { site, person } = await graphSite(t, {
    graphs: { handing: 'plain.mjs:handing', curious: 'plain.mjs:curious' }
  })
  const { token } = await programOf(person, ...PERMISSIONS)
  const headers = { authorization: `Bearer ${token}` }

  const id = randomUUID()
  const question = said('please')
  const chat = { assistant_id: 'handing' }
  const asking = chunksIn((await person.post(CHAT, sent(id, [question], chat))).text)
  const own = asking.filter((one) => one.providerExecuted === false)
  t.match(own, [{ type: 'tool-input-available', toolName: 'get_weather' }], 'AI SDK: the page is asked, and once')
  t.match(asking.at(-1), { type: 'finish', finishReason: 'tool-calls' })
  const messageId = asking[0]!.messageId
  const answer = answered(messageId, own[0], { sky: 'blue' })
  const going = await person.post(CHAT, sent(id, [question, answer], { ...chat, messageId }))
  t.match(textOf(chunksIn(going.text)), 'Its client says {"sky":"blue"}; Be brief', 'AI SDK')
  t.match(await person.post(CHAT, sent(id, [question, answer], { ...chat, messageId })), { status: 409 })
  const other = await person.post(CHAT, sent(randomUUID(), [said('please')], { assistant_id: 'curious' }))
  t.match(other, { status: 200 }, 'a graph without a place for them is run all the same')

  const threadId = randomUUID()
  const run = (messages: unknown[]) =>
    person.post('/api/agui/handing', {
      threadId,
      runId: randomUUID(),
      messages,
      tools: [{ name: 'get_weather', ...WEATHER }],
      context: [],
      state: {}
    })
  const user = { id: 'u1', role: 'user', content: 'please' }
  const events = chunksIn((await run([user])).text)
  const started = events.findLast(({ type }) => type === 'TOOL_CALL_START')
  t.match(started, { toolCallName: 'get_weather' })
  const result = { id: 't1', role: 'tool', toolCallId: started!.toolCallId, content: 'sunny' }
  const calling = { id: started!.parentMessageId, role: 'assistant', content: '' }
  t.match(textOf(chunksIn((await run([user, calling, result])).text)), 'Its client says sunny', 'AG-UI')

  const tools = [{ type: 'function', name: 'get_weather', ...WEATHER }]
  const respond = async (body: object) => {
    const answer = await person.ask('POST', '/v1/responses', { headers, body: { model: 'handing', tools, ...body } })
    t.equal(answer.status, 200, answer.text)
    return answer.body
  }
  const first = await respond({ input: 'please' })
  const call = listIn(first, 'output').at(-1)
  t.match(call, { type: 'function_call', name: 'get_weather' })
  const input = [{ type: 'function_call_output', call_id: textIn(call, 'call_id'), output: 'sunny' }]
  const next = await respond({ input, previous_response_id: textIn(first, 'id') })
  t.match(listIn(next, 'output').at(-1), { content: [{ text: /^Its client says sunny/ }] }, 'Responses')
  const messages = [{ role: 'user', content: 'please' }]
  const completion = await person.ask('POST', '/v1/chat/completions', {
    headers,
    body: { model: 'handing', messages, tools: [{ type: 'function', function: { name: 'get_weather', ...WEATHER } }] }
  })
  t.match(completion.body, { choices: [{ finish_reason: 'tool_calls' }] }, 'chat completions')
  t.ok(site.url)
})
