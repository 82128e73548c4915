// Tools of a page, and what it tells the agent: called out to the page, which runs them, and gone on with, by the built-in agent and by a
// graph. What assistant-ui's transport sends to the AI SDK's route is recorded.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Store } from '../../lib/store/store.ts'
import { at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { scripted, startModel } from '../fixtures/model.ts'
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

const PNG = 'aGk='
const TEXT = 'dGVh'
const PICTURE = { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }
const NOTES = { type: 'file', file: { filename: 'notes.txt', file_data: `data:text/plain;base64,${TEXT}` } }

/** A site with a model of ours, and how its client asks for a call of `get_photo`. */
async function photoSite(t: Test) {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'fake', model: 'fake', base_url: model.baseUrl, api_key: 'none' }]
  const off = { enabled: false }
  const site = await openSite(t, { config: { models, memory: off, title: off, summarization: off } })
  const call = { name: 'get_photo', args: '{}' }
  const words = (id: string) => scripted({ strict: true, calls: [[{ ...call, id }]], text: 'seen' })
  /** What the model was sent last: the result, and what stands behind it. */
  const told = () => {
    const { messages } = model.requests.at(-1)!
    return messages.slice(messages.findLastIndex(({ role }) => role === 'tool'))
  }
  return { person: await signIn(site), words, told }
}

const SHOWN = [
  { role: 'tool', content: 'Here it is\n[shown to you below]' },
  { role: 'user', content: [{ type: 'text', text: 'get_photo:' }, PICTURE, NOTES] }
]

t.test(
  'images and files of a client’s tool reach the model, and are shown again as they were sent: OpenAI',
  async (t) => {
    const { person, words, told } = await photoSite(t)
    const headers = { authorization: `Bearer ${(await programOf(person, ...PERMISSIONS)).token}` }
    const ask = (method: string, path: string, body?: object) =>
      person.ask(method, path, { headers, ...(body && { body }) })
    const tools = [{ type: 'function', name: 'get_photo', parameters: { type: 'object' } }]
    const output = [
      { type: 'input_text', text: 'Here it is' },
      { type: 'input_image', image_url: PICTURE.image_url.url, detail: 'auto' },
      { type: 'input_file', ...NOTES.file }
    ]
    const first = await ask('POST', '/v1/responses', { model: 'lead_agent', tools, input: words('r1') })
    const input = [{ type: 'function_call_output', call_id: 'r1', output }]
    const previous_response_id = textIn(first.body, 'id')
    const next = await ask('POST', '/v1/responses', { tools, previous_response_id, input })
    t.match(listIn(next.body, 'output').at(-1), { content: [{ text: 'seen' }] }, next.text)
    t.match(told(), [
      { ...SHOWN[0] },
      { content: [{}, { image_url: { ...PICTURE.image_url, detail: 'auto' } }, NOTES] }
    ])
    const items = (await ask('GET', `/v1/responses/${textIn(next.body, 'id')}/input_items`)).body
    t.match(listIn(items, 'data'), [{ type: 'function_call_output', call_id: 'r1', output }])
    const conversation = textIn(next.body, 'conversation', 'id')
    const all = (await ask('GET', `/v1/conversations/${conversation}/items?order=asc`)).body
    t.match(
      listIn(all, 'data').filter((one) => at(one, 'type') === 'function_call_output'),
      [{ call_id: 'r1', output }]
    )
    const again = await ask('POST', '/v1/responses', {
      tools,
      input: [
        { role: 'user', content: words('r2') },
        { type: 'function_call', call_id: 'r2', name: 'get_photo', arguments: '{}' },
        { type: 'function_call_output', call_id: 'r2', output }
      ]
    })
    t.equal(again.status, 200, again.text)
    t.match(told(), SHOWN, 'also of a client that sends all of it')
    const content = [{ type: 'text', text: 'Here it is' }, PICTURE, NOTES]
    const messages = [
      { role: 'user', content: words('c1') },
      { role: 'assistant', tool_calls: [{ id: 'c1', function: { name: 'get_photo', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 'c1', content }
    ]
    t.equal((await ask('POST', '/v1/chat/completions', { model: 'fake', messages })).status, 200)
    t.match(told(), SHOWN, 'chat completions')
  }
)

const CONTENTS = {
  5: { picture: { type: 'media', data: PNG }, notes: { type: 'media', data: TEXT } },
  6: { picture: { type: 'image-data', data: PNG }, notes: { type: 'file-data', data: TEXT } },
  7: {
    picture: { type: 'file', data: { type: 'data', data: PNG } },
    notes: { type: 'file', data: { type: 'data', data: TEXT } }
  }
}

for (const [version, { picture, notes }] of Object.entries(CONTENTS))
  t.test(`images and files of a page’s tool reach the model, and are shown again: AI SDK ${version}`, async (t) => {
    const { person, words, told } = await photoSite(t)
    const id = randomUUID()
    const question = said(words('a1'))
    const tools = { tools: { get_photo: { parameters: { type: 'object' } } } }
    const asking = chunksIn((await person.post(CHAT, sent(id, [question], tools))).text)
    const call = asking.findLast(({ type }) => type === 'tool-input-available')
    const messageId = asking[0]!.messageId
    const value = [
      { type: 'text', text: 'Here it is' },
      { ...picture, mediaType: 'image/png' },
      { ...notes, mediaType: 'text/plain', filename: 'notes.txt' }
    ]
    const answer = answered(messageId, call, { type: 'content', value })
    const going = await person.post(CHAT, sent(id, [question, answer], { ...tools, messageId }))
    t.match(chunksIn(going.text).at(-1), { type: 'finish', finishReason: 'stop' }, going.text)
    t.match(told(), SHOWN)
    const output = {
      type: 'content',
      value: [
        value[0],
        { type: 'file-data', data: PNG, mediaType: 'image/png' },
        { type: 'file-data', data: TEXT, mediaType: 'text/plain', filename: 'notes.txt' }
      ]
    }
    const chunk = chunksIn(going.text).find(({ type }) => type === 'tool-output-available')
    t.strictSame(chunk?.output, output)
    const shown = listIn((await person.get(`${CHAT}/${id}`)).body).at(-1)
    const part = listIn(shown, 'parts').find((one) => at(one, 'toolCallId') === 'a1')
    t.strictSame(at(part, 'output'), output)
  })

const source = (value: string, mimeType: string) => ({ source: { type: 'data', value, mimeType } })
const SAID = {
  picture: { type: 'image', ...source(PNG, 'image/png') },
  notes: { type: 'document', ...source(TEXT, 'text/plain') }
}
const AG_UI = {
  '1.0': { content: [{ type: 'text', text: 'Here it is' }, SAID.picture, SAID.notes] },
  // As TanStack sends parts.
  '0.0': {
    content: '[]',
    metadata: {
      tanstack: { toolResult: { content: [{ type: 'text', content: 'Here it is' }, SAID.picture, SAID.notes] } }
    }
  }
}

for (const [dialect, result] of Object.entries(AG_UI))
  t.test(`images and files of a page’s tool reach the model, and are shown again: AG-UI ${dialect}`, async (t) => {
    const { person, words, told } = await photoSite(t)
    const threadId = randomUUID()
    const user = { id: 'u1', role: 'user', content: words('g1') }
    const post = (messages: unknown[], path = '') =>
      person.post(`/api/agui/lead_agent${path}`, {
        threadId,
        runId: randomUUID(),
        protocolVersion: dialect,
        messages,
        tools: [{ name: 'get_photo', description: '' }]
      })
    await post([user])
    const calling = { id: 'a1', role: 'assistant', toolCalls: [{ id: 'g1', type: 'function' }] }
    const going = await post([user, calling, { id: 't1', role: 'tool', toolCallId: 'g1', ...result }])
    t.match(going.text, 'RUN_FINISHED')
    const { file_data } = NOTES.file
    t.match(told(), [SHOWN[0], { content: [{}, PICTURE, { type: 'file', file: { file_data } }] }])
    const connected = chunksIn((await post([], '/connect')).text)
    const event = connected.find(({ type }) => type === 'TOOL_CALL_RESULT')
    const urls = [PICTURE.image_url.url, file_data]
    if (dialect === '1.0')
      t.match(event?.content, [
        { type: 'text', text: 'Here it is' },
        { type: 'image', source: { value: urls[0] } },
        { type: 'document', source: { value: urls[1] } }
      ])
    else {
      const media = connected.filter(({ type }) => type === 'CUSTOM')
      t.match([event, ...media], [{ content: 'Here it is' }, ...urls.map((url) => ({ value: { content: { url } } }))])
    }
    const page = (await person.get(`/api/agui/lead_agent?threadId=${threadId}`)).body
    const part = listIn(page, 'messages', 1, 'parts').at(-1)
    t.match(part, {
      type: 'tool-result',
      content: [
        { type: 'text', content: 'Here it is' },
        { type: 'image', source: { value: urls[0] } },
        { type: 'document', source: { value: urls[1] } }
      ]
    })
  })
