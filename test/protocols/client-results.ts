// What tools of a client answer besides words: images, files and errors reach the model, and each protocol shows them again as they were sent.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { programOf } from '../fixtures/program.ts'

const CHAT = '/api/ai/chat'

type Chunk = Record<string, unknown>

const chunksIn = (text: string) => [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!) as Chunk)
const sent = (id: string, messages: unknown[], more: object) => ({ id, messages, trigger: 'submit-message', ...more })

/** Asks by the AI SDK until its page's tool is called; returns how the page answers for it. */
async function asksPage(person: Person, id: string, text: string) {
  const question = { id: randomUUID(), role: 'user', parts: [{ type: 'text', text }] }
  const tools = { tools: { get_photo: { parameters: { type: 'object' } } } }
  const asking = chunksIn((await person.post(CHAT, sent(id, [question], tools))).text)
  const call = asking.findLast(({ type }) => type === 'tool-input-available')
  const messageId = asking[0]!.messageId
  return async (result: { readonly state: string; readonly [member: string]: unknown }) => {
    const answer = { id: messageId, role: 'assistant', parts: [{ type: 'dynamic-tool', ...call, ...result }] }
    return chunksIn((await person.post(CHAT, sent(id, [question, answer], { ...tools, messageId }))).text)
  }
}

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
    const answer = await asksPage(person, id, words('a1'))
    const value = [
      { type: 'text', text: 'Here it is' },
      { ...picture, mediaType: 'image/png' },
      { ...notes, mediaType: 'text/plain', filename: 'notes.txt' }
    ]
    const going = await answer({ state: 'output-available', output: { type: 'content', value } })
    t.match(going.at(-1), { type: 'finish', finishReason: 'stop' })
    t.match(told(), SHOWN)
    const output = {
      type: 'content',
      value: [
        value[0],
        { type: 'file-data', data: PNG, mediaType: 'image/png' },
        { type: 'file-data', data: TEXT, mediaType: 'text/plain', filename: 'notes.txt' }
      ]
    }
    const chunk = going.find(({ type }) => type === 'tool-output-available')
    t.strictSame(chunk?.output, output)
    const shown = listIn((await person.get(`${CHAT}/${id}`)).body).at(-1)
    const part = listIn(shown, 'parts').find((one) => at(one, 'toolCallId') === 'a1')
    t.strictSame(at(part, 'output'), output)
  })

t.test('any value of a page’s tool comes back as it was, and its JSON is what the model is told: AI SDK', async (t) => {
  const { person, words, told } = await photoSite(t)
  const values = [{ temperature: 20 }, ['a', { type: 'text', text: 'b' }], [], 42, false, null, '{"a":1}', 'words']
  for (const [nth, value] of values.entries()) {
    const [id, call, json] = [randomUUID(), `v${nth}`, JSON.stringify(value)]
    const answer = await asksPage(person, id, words(call))
    const going = await answer({ state: 'output-available', output: value })
    t.match(going.at(-1), { type: 'finish', finishReason: 'stop' }, json)
    t.match(told(), [{ role: 'tool', content: typeof value === 'string' ? value : json }], json)
    t.strictSame(going.find(({ type }) => type === 'tool-output-available')?.output, value, `the stream has ${json}`)
    const shown = listIn((await person.get(`${CHAT}/${id}`)).body).at(-1)
    const part = listIn(shown, 'parts').find((one) => at(one, 'toolCallId') === call)
    t.strictSame(at(part, 'output'), value, `the history has ${json}`)
  }
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

t.test('an error of a client’s tool is one for the model, in the state and in every protocol: AI SDK', async (t) => {
  const { person, words, told } = await photoSite(t)
  const id = randomUUID()
  const answer = await asksPage(person, id, words('e1'))
  const going = await answer({ state: 'output-error', errorText: 'No camera' })
  t.match(told(), [{ role: 'tool', tool_call_id: 'e1', content: 'No camera' }])
  const failed = { toolCallId: 'e1', errorText: 'No camera' }
  t.match(
    going.find(({ type }) => type === 'tool-output-error'),
    failed
  )
  await shownAsFailed(t, person, id, failed)
})

for (const content of ['', 'null', 'Half of it'])
  t.test(
    `an error of a client’s tool is one for the model, and in every protocol: AG-UI, beside “${content}”`,
    async (t) => {
      const { person, words, told } = await photoSite(t)
      const threadId = randomUUID()
      const user = { id: 'u1', role: 'user', content: words('e1') }
      const tools = [{ name: 'get_photo', description: '' }]
      const post = (messages: unknown[]) =>
        person.post('/api/agui/lead_agent', { threadId, runId: randomUUID(), messages, tools })
      await post([user])
      const calling = { id: 'a1', role: 'assistant', toolCalls: [{ id: 'e1', type: 'function' }] }
      await post([user, calling, { id: 't1', role: 'tool', toolCallId: 'e1', content, error: 'No camera' }])
      const errorText = content === 'Half of it' ? 'Half of it\nNo camera' : 'No camera'
      t.match(told(), [{ role: 'tool', tool_call_id: 'e1', content: errorText }])
      await shownAsFailed(t, person, threadId, { toolCallId: 'e1', errorText })
    }
  )

t.test('an error of a client’s tool is one in an answer of our own API, as LangChain’s message', async (t) => {
  const { person, words, told } = await photoSite(t)
  const thread = await person.thread()
  const path = `/api/threads/${thread}/runs/wait`
  const context = { client_tools: [{ name: 'get_photo' }] }
  await person.post(path, { context, input: { messages: [{ role: 'user', content: words('e1') }] } })
  const resume = { e1: { type: 'tool', status: 'error', content: 'No camera' } }
  t.equal((await person.post(path, { context, command: { resume } })).status, 200)
  t.match(told(), [{ role: 'tool', tool_call_id: 'e1', content: 'No camera' }])
  await shownAsFailed(t, person, thread, { toolCallId: 'e1', errorText: 'No camera' })
})

async function shownAsFailed(
  t: Test,
  person: Person,
  thread: string,
  failed: { toolCallId: string; errorText: string }
) {
  const { toolCallId, errorText } = failed
  const state = (await person.get(`/api/threads/${thread}/state`)).body
  const stored = listIn(state, 'values', 'messages').find((one) => at(one, 'type') === 'tool')
  t.match(stored, { status: 'error', content: errorText, artifact: { client_tool: true } }, 'the state')
  const shown = listIn((await person.get(`${CHAT}/${thread}`)).body).flatMap((one) => listIn(one, 'parts'))
  t.match(
    shown.find((one) => at(one, 'toolCallId') === toolCallId),
    { state: 'output-error', errorText },
    'AI SDK'
  )
  const page = (await person.get(`/api/agui/lead_agent?threadId=${thread}`)).body
  t.match(
    listIn(page, 'messages', 1, 'parts').at(-1),
    { type: 'tool-result', state: 'error', error: errorText },
    'TanStack'
  )
  const connect = { threadId: thread, runId: randomUUID(), messages: [] }
  const events = chunksIn((await person.post('/api/agui/lead_agent/connect', connect)).text)
  t.match(
    events.find(({ type }) => type === 'TOOL_CALL_RESULT'),
    { content: errorText, metadata: { tanstack: { state: 'output-error' } } },
    'AG-UI'
  )
}
