// The AI SDK's chat as its transports ask for it, by recorded requests: what comes back is one message, the same for who comes back.
import t from 'tap'
import { defineAgent } from '../../lib/agent/define.ts'
import type { Json } from '../../lib/base/types.ts'
import { asked, at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'

const CHAT = '/api/ai/chat'
const off = { enabled: false }
const site = await openSite(t)

interface Chunk {
  readonly at: string | null
  readonly type: string
  readonly [name: string]: unknown
}

/** The chunks of a stream, and whether it ended as it should. */
function chunksIn(text: string): { chunks: Chunk[]; isDone: boolean } {
  const events = text.split('\n\n').filter((event) => /^(id|data):/m.test(event))
  const data = events.map((event) => ({
    id: /^id: (.*)$/m.exec(event)?.[1] ?? null,
    data: /^data: (.*)$/m.exec(event)?.[1] ?? ''
  }))
  const chunks = data.filter(({ data }) => data !== '[DONE]').map(({ id, data }) => ({ at: id, ...JSON.parse(data) }))
  return { chunks, isDone: data.at(-1)?.data === '[DONE]' }
}

const said = (words: string, id = `m-${Math.random()}`) => ({
  id,
  role: 'user',
  parts: [{ type: 'text', text: words }]
})
const send = (person: Person, id: string, words: string, more: object = {}) =>
  person.post(CHAT, { id, messages: [said(words)], trigger: 'submit-message', ...more })
const textOf = (chunks: readonly Chunk[]) =>
  chunks.map((one) => (one.type === 'text-delta' ? String(one.delta) : '')).join('')

const TURN = '/demo deltas=3 rate=0 reasoning tool=write_file args={"path":"a.txt","content":"hi"}'

t.test('an answer is one message: steps with reasoning, a call as it grows, its result, and text', async (t) => {
  const person = await signIn(site)
  const id = crypto.randomUUID()
  const { headers, text, status } = await send(person, id, TURN)
  t.equal(status, 200, text)
  t.equal(headers.get('x-vercel-ai-ui-message-stream'), 'v1')
  const { chunks, isDone } = chunksIn(text)
  t.ok(isDone)
  const [start] = chunks
  t.match(start, { type: 'start', messageId: /^[\da-f-]{36}$/, messageMetadata: { thread_id: id, run_id: String } })
  const types = chunks.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1])
  t.strictSame(types, [
    'start',
    ...['start-step', 'reasoning-start', 'reasoning-delta', 'reasoning-end'],
    ...['tool-input-start', 'tool-input-delta', 'tool-input-available', 'finish-step', 'tool-output-available'],
    ...['start-step', 'text-start', 'text-delta', 'text-end', 'finish-step', 'finish']
  ])
  t.equal(textOf(chunks), 'w0000 w0001 w0002 ')
  const args = chunks.filter(({ type }) => type === 'tool-input-delta').map(({ inputTextDelta }) => inputTextDelta)
  t.same(JSON.parse(args.join('')), { path: 'a.txt', content: 'hi' })
  t.match(chunks.at(-1), { type: 'finish', finishReason: 'stop', messageMetadata: { usage: { totalTokens: Number } } })
})

t.test('who comes back gets the whole message again, or exactly what follows each of its chunks', async (t) => {
  const person = await signIn(site)
  const first = await send(person, 'a chat/with its own name', TURN)
  const path = `${CHAT}/${encodeURIComponent('a chat/with its own name')}`
  const again = await person.get(`${path}/stream`)
  t.equal(again.text.replaceAll(/^: .*\n/gm, ''), first.text.replaceAll(/^: .*\n/gm, ''), 'the same bytes')
  const { chunks } = chunksIn(first.text)
  for (const [i, chunk] of chunks.entries()) {
    if (i % 5 !== 0) continue
    const tail = await person.get(`${path}/stream`, { headers: { 'last-event-id': String(chunk.at) } })
    t.strictSame(chunksIn(tail.text), { chunks: chunks.slice(i + 1), isDone: true }, `after chunk ${i}`)
  }
  await send(person, 'a chat/with its own name', '/demo deltas=2 rate=0')
  const behind = await person.get(`${path}/stream`, { headers: { 'last-event-id': String(chunks[3]?.at) } })
  t.strictSame(chunksIn(behind.text).chunks, chunks.slice(4), 'of its own message, also when there is a newer one')
  const gone = await person.get(`${path}/stream`, { headers: { 'last-event-id': '999:1-0.0' } })
  t.equal(gone.status, 204, 'of no message that is there')
  const { body } = await person.get(path)
  const [human, answer] = listIn(body)
  t.match(human, { role: 'user', parts: [{ type: 'text' }] })
  t.equal(textIn(answer, 'id'), textIn(chunks[0], 'messageId'), 'the message has the id that the stream gave it')
  const parts = listIn(answer, 'parts')
  t.strictSame(
    parts.map((part) => at(part, 'type')),
    ['step-start', 'reasoning', 'dynamic-tool', 'step-start', 'text']
  )
  t.match(parts[2], { toolName: 'write_file', state: 'output-available', input: { path: 'a.txt' } })
})

t.test('a stream that is cut in mid-run is joined where it was, and can be stopped from another tab', async (t) => {
  const person = await signIn(site)
  const id = crypto.randomUUID()
  const stream = await person.open('POST', CHAT, {
    body: { id, messages: [said('/demo deltas=100000 rate=100')] }
  })
  await stream.untilFrames(6)
  stream.leave()
  const text = String(stream.bytes)
  const seen = chunksIn(text.slice(0, text.lastIndexOf('\n\n') + 2)).chunks
  const last = String(seen.at(-1)?.at)
  const tail = person.get(`${CHAT}/${id}/stream`, { headers: { 'last-event-id': last } })
  const whole = person.get(`${CHAT}/${id}/stream`)
  t.equal((await person.ask('DELETE', `${CHAT}/${id}/stream`)).status, 204)
  const [rest, all] = await Promise.all([tail, whole])
  t.strictSame([...seen, ...chunksIn(rest.text).chunks], chunksIn(all.text).chunks, 'each chunk once')
  t.equal(chunksIn(all.text).chunks.at(-1)?.type, 'abort')
  const { body } = await person.get(`${CHAT}/${id}`)
  t.equal(textOf(chunksIn(all.text).chunks), at(listIn(body, 1, 'parts').at(-1), 'text'), 'and the state has the same')
})

t.test(
  'a message sent twice begins one run; asked anew or in other words it is answered from the state before',
  async (t) => {
    const person = await signIn(site)
    const id = crypto.randomUUID()
    const first = said('/demo deltas=1 rate=0', 'first')
    const body = { id, messages: [first], trigger: 'submit-message' }
    const [one, other] = [await person.post(CHAT, body), await person.post(CHAT, body)]
    t.equal(chunksIn(one.text).chunks[0]?.messageId, chunksIn(other.text).chunks[0]?.messageId)
    const elsewhere = await send(person, crypto.randomUUID(), '', {
      messages: [said('/demo deltas=1 rate=0', 'first')]
    })
    t.equal(elsewhere.status, 200, 'another chat has messages of the same ids')
    const { id: _, ...nameless } = first
    const answers = [await person.post(CHAT, { ...body, messages: [nameless], id: crypto.randomUUID() })]
    answers.push(await person.post(CHAT, { ...body, messages: [nameless], id: crypto.randomUUID() }))
    t.strictSame(
      answers.map(({ status }) => status),
      [200, 200],
      'and messages without an id are each their own'
    )
    await send(person, id, '/demo deltas=2 rate=0', { messages: [said('/demo deltas=2 rate=0', 'second')] })
    const anew = await person.post(CHAT, { id, messages: [first, said('x', 'second')], trigger: 'regenerate-message' })
    t.equal(textOf(chunksIn(anew.text).chunks), 'w0000 w0001 ', 'the second question is asked anew')
    const edited = said('/demo deltas=3 rate=0', 'second')
    await person.post(CHAT, { id, messages: [first, edited], trigger: 'submit-message', messageId: 'second' })
    const shown = listIn((await person.get(`${CHAT}/${id}`)).body)
    t.strictSame(
      shown.map((message) => at(message, 'role')),
      ['user', 'assistant', 'user', 'assistant']
    )
    t.equal(at(shown[3], 'parts', 1, 'text'), 'w0000 w0001 w0002 ')
  }
)

t.test('a chat of somebody else is as one that is not there', async (t) => {
  const [owner, other] = [await signIn(site), await signIn(site, 'other')]
  const id = crypto.randomUUID()
  await send(owner, id, '/demo deltas=1 rate=0')
  const paths = [`${CHAT}/${id}/stream`, `${CHAT}/${crypto.randomUUID()}/stream`]
  for (const path of paths) t.match(await other.get(path), { status: 204, text: '' })
  t.equal((await other.ask('DELETE', paths[0]!)).status, 204)
  t.equal((await other.get(`${CHAT}/${id}`)).status, 404)
  t.equal((await send(other, id, 'mine?')).status, 404)
})

t.test('what cannot be read is refused, and the refusal names it', async (t) => {
  const person = await signIn(site)
  const id = crypto.randomUUID()
  const bodies: [object, RegExp][] = [
    [{ messages: [said('a')] }, /"id"/],
    [{ id, messages: [] }, /messages/],
    [{ id, messages: [{ role: 'user', parts: [{ type: 'video' }] }] }, /"parts",0,"type"/],
    [{ id, messages: [{ role: 'user', parts: [{ type: 'file' }] }] }, /"parts",0,"url"/],
    [{ id, messages: [{ role: 'system', parts: [] }] }, /"role"/],
    [{ id, messages: [said('a')], trigger: 'delete-message' }, /trigger/],
    [{ id: 'x'.repeat(513), messages: [said('a')] }, /"id"/],
    [{ id, messages: [said('a')], assistant_id: 'no such' }, /assistant/i]
  ]
  for (const [body, named] of bodies) {
    const answer = await person.post(CHAT, body)
    t.ok([404, 422].includes(answer.status), `${answer.status} ${answer.text}`)
    t.match(answer.text, named)
  }
  t.equal((await person.post(CHAT, { id, messages: [{ id: 'a', role: 'assistant', parts: [] }] })).status, 409)
})

t.test('an open call is answered with its output, in the same message; a second tab is told', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'fake', model: 'fake', base_url: model.baseUrl, api_key: 'none' }]
  const person = await signIn(await openSite(t, { config: { models, memory: off, title: off, summarization: off } }))
  const id = crypto.randomUUID()
  const asking = { name: 'ask_user', args: '{"question":"Which colour?"}', id: 'call_colour' }
  const question = said(scripted({ calls: [[asking]], text: 'done' }))
  const first = await person.post(CHAT, { id, messages: [question] })
  const { chunks } = chunksIn(first.text)
  t.equal(chunks.at(-1)?.finishReason, 'tool-calls', first.text)
  const call = chunks.findLast(({ type }) => type === 'tool-input-available')
  t.match(call, { providerExecuted: false, toolCallId: 'call_colour' })
  const part = { type: 'dynamic-tool', toolCallId: 'call_colour', state: 'output-available', output: 'red' }
  const answer = { id: textIn(chunks[0], 'messageId'), role: 'assistant', parts: [part] }
  const sent = { id, messages: [question, answer], trigger: 'submit-message', messageId: answer.id }
  const going = chunksIn((await person.post(CHAT, sent)).text).chunks
  t.equal(going[0]?.messageId, answer.id)
  t.match(
    going.find(({ type }) => type === 'tool-output-available'),
    { toolCallId: 'call_colour', output: /red/ }
  )
  t.equal(textOf(going), 'done')
  t.equal((await person.post(CHAT, sent)).status, 409)
  const replay = chunksIn((await person.get(`${CHAT}/${id}/stream`)).text).chunks
  t.equal(replay.filter(({ type }) => type === 'tool-input-start').length, 1, 'a replay is of the whole message')
  t.equal(textOf(replay), 'done')
  const shown = listIn((await person.get(`${CHAT}/${id}`)).body)
  t.match(shown.at(-1), { id: answer.id, parts: [{}, { state: 'output-available' }, {}, { type: 'text' }] })
})

t.test('what a user has sent beside words is shown again, by every protocol that shows what was said', async (t) => {
  const person = await signIn(site)
  const id = crypto.randomUUID()
  const picture = { url: 'data:image/png;base64,aGk=', mediaType: 'image/png', filename: 'cat.png' }
  const notes = { url: 'data:text/plain;base64,dGVh', mediaType: 'text/plain', filename: 'notes.txt' }
  const parts = [{ type: 'file', ...picture }, { type: 'file', ...notes }, said('Look').parts[0]]
  const given = { id, messages: [{ id: 'm1', role: 'user', parts }], trigger: 'submit-message' }
  const { chunks } = chunksIn((await person.post(CHAT, given)).text)
  const { run_id } = chunks[0]!.messageMetadata as { run_id: string }
  const shown = async () => listIn((await person.get(`${CHAT}/${id}`)).body)[0]
  t.match(await shown(), { role: 'user', parts })
  await person.post(CHAT, { id, messages: given.messages, trigger: 'regenerate-message' })
  t.match(await shown(), { role: 'user', parts }, 'also of a question that was asked anew')

  const page = (await person.get(`/api/agui/lead_agent?threadId=${id}`)).body
  const sourceOf = ({ url: value, mediaType: mimeType }: typeof picture) => ({ type: 'url', value, mimeType })
  t.match(listIn(page, 'messages')[0], {
    parts: [
      { type: 'image', source: sourceOf(picture) },
      { type: 'document', source: sourceOf(notes) },
      { type: 'text' }
    ]
  })
  const connected = await person.post('/api/agui/lead_agent/connect', { threadId: id, runId: 'fresh' })
  const media = chunksIn(connected.text).chunks.filter(({ type }) => type === 'CUSTOM')
  t.match(media, [
    { name: 'media', value: { messageId: 'm1', content: { type: 'image', url: picture.url } } },
    { name: 'media', value: { messageId: 'm1', content: { type: 'file', url: notes.url, filename: 'notes.txt' } } }
  ])

  const items = (await person.get(`/v1/responses/resp_${run_id.replaceAll('-', '')}/input_items`)).body
  t.match(listIn(items, 'data')[0], {
    content: [
      { type: 'input_image', image_url: picture.url },
      { type: 'input_file', filename: 'notes.txt', file_data: notes.url },
      { type: 'input_text' }
    ]
  })
  const rpc = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: run_id } }
  const task = (await person.post('/a2a/lead_agent', rpc, { headers: { 'a2a-version': '1.0' } })).body
  t.match(listIn(task, 'result', 'history')[0], {
    parts: [{ raw: 'aGk=', mediaType: 'image/png' }, { raw: 'dGVh', mediaType: 'text/plain' }, { text: 'Look' }]
  })
})

t.test(
  'a question that was answered in plain words is an answered one, in every protocol that shows what was said',
  async (t) => {
    const person = await signIn(site)
    const id = crypto.randomUUID()
    await send(person, id, '/demo rate=0 tool=ask_user args={"question":"Which?"}')
    const partOf = async () => {
      const [, asking] = listIn((await person.get(`${CHAT}/${id}`)).body)
      return listIn(asking, 'parts').find((part) => at(part, 'type') === 'dynamic-tool')
    }
    t.match(await partOf(), { state: 'input-available', providerExecuted: false }, 'before that it is open')
    await send(person, id, '/demo rate=0 deltas=1')
    t.match(await partOf(), { state: 'output-available', output: '/demo rate=0 deltas=1', providerExecuted: true })
    const page = (await person.get(`/api/agui/lead_agent?threadId=${id}`)).body
    t.match(listIn(page, 'messages', 1, 'parts').at(-1), { type: 'tool-result', content: '/demo rate=0 deltas=1' })
    const items = await person.get(`/v1/conversations/conv_${id.replaceAll('-', '')}/items?order=asc`)
    t.match(listIn(items.body, 'data').slice(1, 4), [
      { type: 'mcp_call', status: 'completed', output: '/demo rate=0 deltas=1' },
      { type: 'message', role: 'assistant', content: [{ text: /Which/ }] },
      { type: 'message', role: 'user' }
    ])
  }
)

t.test('a call that is none is shown again as its stream has shown it', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const person = await signIn(await openSite(t, { config: { models, memory: off, title: off } }))
  const id = crypto.randomUUID()
  const calls = [[{ name: 'current_time', args: '{bad', id: 'c1' }]]
  const { chunks } = chunksIn((await send(person, id, scripted({ calls, text: 'After' }))).text)
  const told = chunks.find(({ type }) => type === 'tool-input-error')
  t.match(told, { toolCallId: 'c1', input: '{bad' })
  const [, shown] = listIn((await person.get(`${CHAT}/${id}`)).body)
  const { toolName, input, errorText } = told!
  t.match(listIn(shown, 'parts')[1], { toolCallId: 'c1', state: 'output-error', toolName, input, errorText })
})

t.test('what an agent sends beside its answer is a source, or data by its name', async (t) => {
  const source = { id: 's1', url: 'https://example.com/a', title: 'A page' }
  const named = (name: string, payload: Json) => ({ type: 'custom', data: { name, payload } }) as const
  const agent = defineAgent(function* () {
    yield named('source', source)
    yield named('source', { url: 'https://example.com/b' })
    yield named('progress', { id: 'p1', done: 3 })
    yield 'Read both'
  })
  const person = await signIn(await openSite(t, { agent }))
  const id = crypto.randomUUID()
  const { chunks } = chunksIn((await send(person, id, 'please')).text)
  const { id: sourceId, ...about } = source
  t.match(
    chunks.filter(({ type }) => /^(source|data)-/.test(type)),
    [
      { type: 'source-url', sourceId, ...about },
      { type: 'source-url', sourceId: 'https://example.com/b', url: 'https://example.com/b' },
      { type: 'data-progress', id: 'p1', data: { id: 'p1', done: 3 } }
    ]
  )
  t.equal(textOf(chunks), 'Read both')
})

t.test(
  'a run that is to begin later is not the answer of a chat: who comes back gets the last one, and stops none',
  async (t) => {
    const person = await signIn(site)
    const id = crypto.randomUUID()
    const sent = chunksIn((await send(person, id, '/demo deltas=3 rate=0')).text)
    const later = { ...asked('later'), after_seconds: 3600 }
    const run = textIn((await person.post(`/api/threads/${id}/runs`, later)).body, 'run_id')
    t.strictSame(chunksIn((await person.get(`${CHAT}/${id}/stream`)).text), sent)
    const agUi = `/api/agui/lead_agent`
    const input = { threadId: id, runId: 'fresh', messages: [], tools: [], context: [] }
    t.match((await person.post(`${agUi}/connect`, input)).text, /RUN_FINISHED/)
    t.match((await person.get(`${agUi}?threadId=${id}`)).body, { activeRun: null })
    t.equal((await person.ask('DELETE', `${CHAT}/${id}/stream`)).status, 204)
    const stop = `/api/copilotkit/agent/lead_agent/stop/${id}`
    t.match((await person.post(stop)).body, { stopped: false })
    t.match((await person.get(`/api/threads/${id}/runs/${run}`)).body, { status: 'pending' })
    t.match((await person.post(stop, { runId: run })).body, { stopped: true }, 'one that is named is stopped')
  }
)
