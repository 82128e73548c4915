// Graphs in other protocols: what is in the state of a graph is told by all of them, also what LangGraph has streamed of it nowhere, or only
// below; and a chat of the AI SDK that is loaded is the one that its stream has shown.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { READERS, TRANSLATED } from '../fixtures/crossing.ts'
import { at, listIn, textIn } from '../fixtures/gateway.ts'
import { graphSite, HOOKED } from '../fixtures/graphs.ts'

const PLAIN = Object.fromEntries(
  ['mailing', 'careful', 'curious', 'endless', 'told', 'showing'].map((name) => [name, `plain.mjs:${name}`])
)
const EVENT_BYTES = 16_384
const config = { streams: { event_bytes: EVENT_BYTES } }
const { person } = await graphSite(t, { graphs: { ...PLAIN, below: HOOKED.below! }, config })
const CHAT = '/api/ai/chat'
/** What a protocol reads by the id of a run is that run; but some read the whole thread, and some the task that a run is of. */
const OF_THREADS = ['AG-UI 1.0.0 by connecting', 'AG-UI 0.0.59', 'CopilotKit']
const OF_TASKS = ['A2A', 'A2A over HTTP+JSON', 'MCP 2025-11-25', 'MCP 2026-07-28']
/** Of the newest run alone, unless that went on in the message of another. */
const OF_MESSAGES = ['AI SDK', 'AI SDK by its WebSocket']

async function stateOf(thread: string): Promise<{ readonly text: string; readonly results: readonly string[] }> {
  const messages = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages')
  const of = (type: string) => messages.flatMap((one) => (at(one, 'type') === type ? [textIn(one, 'content')] : []))
  return { text: of('ai').join(''), results: of('tool') }
}

for (const [graph, resume] of [
  ['mailing', { decisions: [{ type: 'approve' }] }],
  ['curious', 'green'],
  ['below', null]
] as const)
  t.test(`what the graph ${graph} has put into its state is told by every protocol`, async (t) => {
    const thread = await person.thread()
    const begin = async (given: object): Promise<string> => {
      const path = `/api/threads/${thread}/runs`
      const { body } = await person.post(path, { assistant_id: graph, stream_mode: ['values'], ...given })
      await person.get(`${path}/${textIn(body, 'run_id')}/join`)
      return textIn(body, 'run_id')
    }
    const runs = [await begin({ input: { messages: [{ role: 'user', content: 'please' }] } })]
    if (resume !== null) runs.push(await begin({ command: { resume } }))
    const state = await stateOf(thread)
    t.ok(state.text.length > 10, state.text)
    for (const name of TRANSLATED) {
      const read = OF_TASKS.includes(name)
        ? runs.slice(0, 1)
        : [...OF_THREADS, ...OF_MESSAGES].includes(name)
          ? runs.slice(-1)
          : runs
      let text = ''
      for (const run of read) text += (await (await READERS[name]!(person, { thread, run }))()).text
      t.equal(text, state.text, name)
    }
  })

interface Part {
  readonly type: string
  readonly approval?: { readonly id: string }
}

const placesIn = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].map(([, place]) => place)

/** What a page is shown of a chat that it loads. */
async function loaded(id: string): Promise<readonly unknown[]> {
  return listIn((await person.get(`${CHAT}/${id}`)).body)
}

for (const graph of ['mailing', 'careful'])
  t.test(`a page that is loaded is asked to approve what ${graph} asks, in the message that is streamed`, async (t) => {
    const id = randomUUID()
    const question = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'please' }] }
    const body = { id, assistant_id: graph, messages: [question] }
    const { text } = await person.post(CHAT, body)
    const messageId = /"messageId":"([^"]+)"/.exec(text)?.[1]
    const approval = /"approvalId":"([^"]+)"/.exec(text)?.[1]
    const asking = (await loaded(id)).at(-1)
    t.equal(at(asking, 'id'), messageId)
    const part = listIn(asking, 'parts').find((one) => at(one, 'state') === 'approval-requested') as Part
    t.equal(part?.approval?.id, approval)
    const decided = { ...part, state: 'approval-responded', approval: { id: approval, approved: true } }
    const answer = { id: messageId, role: 'assistant', parts: [decided] }
    const going = await person.post(CHAT, { ...body, messages: [question, answer], messageId })
    t.match(going.text, /(mail|bare): approve/)
    const replay = (await person.get(`${CHAT}/${id}/stream`)).text
    t.notMatch(replay, 'tool-approval-request', 'who comes back is not asked again')
    t.match(replay, /(mail|bare): approve/)
    t.strictSame(placesIn(replay), [...placesIn(text), ...placesIn(going.text)], 'and no chunk has another place')
    const after = (await loaded(id)).at(-1)
    t.equal(at(after, 'id'), messageId, 'it went on in its message')
    t.match(at(listIn(after, 'parts').at(-1), 'text'), /(mail|bare): approve/)
  })

t.test('a question that is no review is there for a page that is loaded', async (t) => {
  const id = randomUUID()
  const messages = [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'please' }] }]
  const { text } = await person.post(CHAT, { id, assistant_id: 'curious', messages })
  const asked = /"type":"data-interrupt","id":"([^"]+)"/.exec(text)?.[1]
  t.ok(asked, text)
  t.match((await loaded(id)).at(-1), { role: 'assistant', parts: [{ type: 'data-interrupt', id: asked }] })
})

t.test('a message larger than an event is told by its beginning, in every protocol', async (t) => {
  const thread = await person.thread()
  const body = { assistant_id: 'endless', input: { messages: [{ role: 'user', content: 'please' }] } }
  const run = textIn((await person.post(`/api/threads/${thread}/runs`, body)).body, 'run_id')
  const [, answer] = listIn((await person.get(`/api/threads/${thread}/runs/${run}/join`)).body, 'messages')
  const whole = textIn(answer, 'content')
  for (const name of [...TRANSLATED, 'LangGraph v2']) {
    const { text, status } = await (await READERS[name]!(person, { thread, run }))()
    t.equal(status, 'completed', name)
    t.ok(text.length > EVENT_BYTES / 4 && whole.startsWith(text.slice(0, EVENT_BYTES / 8)), `${name}: ${text.length}`)
  }
})

t.test('tools, state and context of a client go to a graph as far as its input has a place for them', async (t) => {
  const place = { name: 'get_place', description: 'Where the user is', parameters: { type: 'object' } }
  const context = [{ description: 'The page', value: 'Home' }]
  const agUi = (agent: string) => {
    const ids = { threadId: randomUUID(), runId: randomUUID() }
    const messages = [{ id: 'u1', role: 'user', content: 'please' }]
    const state = { cart: ['a pear'], secret: 'nobody asks for it' }
    return person.post(`/api/agui/${agent}`, { ...ids, messages, state, tools: [place], context })
  }
  const { text } = await agUi('told')
  const deltas = [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json!) as { delta?: string })
  const told: unknown = JSON.parse(deltas.map(({ delta = '' }) => delta).join(''))
  t.strictSame(told, { tools: [place], context, cart: ['a pear'] })
  t.match((await agUi('curious')).text, /RUN_FINISHED/, 'a graph without them is run all the same')
  const own = textIn((await person.post('/api/assistants', { graph_id: 'told' })).body, 'assistant_id')
  t.match((await agUi(own)).text, /a pear/, 'an assistant has the input of its graph')
  const respond = (model: string, more: object) => person.post('/v1/responses', { model, input: 'please', ...more })
  const tools = [{ type: 'function', ...place }]
  t.match(await respond('told', { tools, instructions: 'Be short' }), { status: 200, text: /get_place.*Be short/ })
  for (const [field, more] of Object.entries({ tools: { tools }, instructions: { instructions: 'Be short' } }))
    t.match(await respond('curious', more), { status: 400, body: { error: { param: field } } }, field)
})

t.test('files of an answer are parts of the AI SDK, as they come and in a page that is loaded', async (t) => {
  const id = randomUUID()
  const messages = [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'please' }] }]
  const { text } = await person.post(CHAT, { id, assistant_id: 'showing', messages })
  const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!) as Part)
  const files = [
    { type: 'file', url: 'https://files.example/plan.pdf', mediaType: 'application/pdf' },
    { type: 'file', url: 'data:image/png;base64,iVBORw0KGgo=', mediaType: 'image/png' }
  ]
  t.strictSame(
    chunks.filter(({ type }) => type === 'file'),
    files
  )
  const parts = listIn((await loaded(id)).at(-1), 'parts')
  t.strictSame(
    parts.filter((part) => at(part, 'type') === 'file'),
    files
  )
})
