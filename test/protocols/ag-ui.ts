// AG-UI as its clients ask for it, by recorded requests: a run, the same run again, its exact tail, and the thread.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { parse } from 'valibot'
import { runBodyOf, runInput } from '../../lib/protocols/ag-ui/input.ts'
import { at, listIn, openSite, type Person, signIn } from '../fixtures/gateway.ts'
import { watchQueries } from '../fixtures/queries.ts'

const site = await openSite(t)
const PATH = '/api/agui/lead_agent'
const TURN = '/demo deltas=2 rate=0 reasoning tool=write_file args={"path":"a.txt","content":"hi"}'

/** Of an agent that is no graph, on a thread that has nothing. */
const SITUATION = {
  ...{ agent: 'lead_agent', questions: [], stored: () => [], isOfGraphs: false, takes: () => false },
  history: () => Promise.resolve([])
}

interface Event {
  readonly at: string
  readonly type: string
  readonly [name: string]: unknown
}

const eventsIn = (text: string): Event[] =>
  [...text.matchAll(/^id: (.*)\ndata: (.*)$/gm)].map(([, place, json]) => ({ at: place, ...JSON.parse(json!) }))

const inputOf = (threadId: string, runId: string, more: object = {}) => ({
  threadId,
  runId,
  messages: [{ id: 'u1', role: 'user', content: TURN }],
  tools: [],
  context: [],
  ...more
})
const run = (person: Person, threadId: string, runId: string, more: object = {}) =>
  person.post(PATH, inputOf(threadId, runId, more))

t.test(
  'a run is told as its client called it; the same runId joins it, and each place has its exact tail',
  async (t) => {
    const person = await signIn(site)
    const first = await run(person, 'a thread', 'run_1', { protocolVersion: '1.0' })
    const events = eventsIn(first.text)
    t.match(events[0], { type: 'RUN_STARTED', threadId: 'a thread', runId: 'run_1' }, first.text)
    t.match(events.at(-1), { type: 'RUN_FINISHED', runId: 'run_1', outcome: { type: 'success' }, usage: [{}] })
    t.notOk('usage' in eventsIn((await run(person, 'a thread', 'run_1')).text).at(-1)!, 'the older dialect has none')
    const types = events.map(({ type }) => type)
    for (const type of ['REASONING_MESSAGE_CONTENT', 'TOOL_CALL_ARGS', 'TOOL_CALL_RESULT', 'TEXT_MESSAGE_CONTENT'])
      t.ok(types.includes(type), type)
    const path = String(first.headers.get('content-location'))
    for (const i of [0, 7, events.length - 2]) {
      const tail = await person.get(path, { headers: { 'last-event-id': events[i]!.at } })
      t.strictSame(eventsIn(tail.text), events.slice(i + 1), `after event ${i}`)
    }
    const joined = await person.get(`${PATH}?offset=-1&runId=run_1`)
    t.equal(eventsIn(joined.text).length, events.length)
    t.equal((await run(person, 'another thread', 'run_1')).status, 409)
  }
)

t.test('a run is found below its thread by both of its names, and below no other thread', async (t) => {
  const [person, other] = [await signIn(site), await signIn(site, 'other')]
  const thread = randomUUID()
  const first = await run(person, thread, 'run_path', { protocolVersion: '1.0' })
  const path = `/api/agui/threads/${thread}/runs/run_path`
  t.strictSame(eventsIn((await person.get(path)).text), eventsIn(first.text), 'as RUN_STARTED says it')
  t.equal((await person.get(String(first.headers.get('content-location')))).text, (await person.get(path)).text)
  t.equal((await person.get(path.replace(thread, await person.thread()))).status, 404)
  t.equal((await other.get(path)).status, 404)
})

t.test('runs whose long names begin alike are two', async (t) => {
  const person = await signIn(site)
  for (const end of ['a', 'b']) {
    const runId = 'r'.repeat(300) + end
    const text = () => run(person, `thread ${end}`, runId).then((answer) => answer.text)
    const first = await text()
    t.match(eventsIn(first)[0], { type: 'RUN_STARTED', runId }, first)
    // Heartbeats come by the clock.
    t.strictSame(eventsIn(await text()), eventsIn(first), 'and each is joined by its name')
  }
})

t.test('a page finds its thread, and who connects gets it from its start; others get nothing', async (t) => {
  const [person, other] = [await signIn(site), await signIn(site, 'other')]
  await run(person, 'mine', 'run_2')
  const page = (await person.get(`${PATH}?threadId=mine`)).body
  t.match(page, { messages: [{ id: 'u1', role: 'user' }, { role: 'assistant' }], activeRun: null, interrupts: null })
  const connected = await person.post(`${PATH}/connect`, inputOf('mine', 'fresh', { messages: [] }))
  t.match(eventsIn(connected.text)[1], { type: 'TEXT_MESSAGE_START', messageId: 'u1', role: 'user' })
  t.match(await other.post(`${PATH}/connect`, inputOf('mine', 'fresh')), { status: 200, text: '' })
  t.strictSame(at((await other.get(`${PATH}?threadId=mine`)).body, 'messages'), [])
  t.equal((await other.get(`${PATH}?runId=run_2`)).status, 404)
})

/** What a page that connects shows, as `[who, text]`. */
async function shownTo(person: Person, threadId: string): Promise<string[][]> {
  const connected = await person.post(`${PATH}/connect`, inputOf(threadId, randomUUID(), { messages: [] }))
  const shown = new Map<unknown, string[]>()
  for (const { type, messageId, role, delta } of eventsIn(connected.text)) {
    if (type === 'TEXT_MESSAGE_START' && !shown.has(messageId)) shown.set(messageId, [String(role), ''])
    if (type === 'TEXT_MESSAGE_CONTENT') shown.get(messageId)![1] += String(delta)
  }
  return [...shown.values()]
}

t.test(
  'an answer asked anew, or a question in other words, takes the place of what was behind the question',
  async (t) => {
    const person = await signIn(site)
    const threadId = randomUUID()
    const user = (id: string, deltas: number) => ({ id, role: 'user', content: `/demo rate=0 deltas=${deltas}` })
    const answer = (id: string) => ({ id, role: 'assistant', content: '-' })
    const say = (...messages: object[]) => run(person, threadId, randomUUID(), { messages })
    const pair = (deltas: number) => [
      ['user', `/demo rate=0 deltas=${deltas}`],
      ['assistant', ['w0000 ', 'w0001 ', 'w0002 '].slice(0, deltas).join('')]
    ]
    await say(user('u1', 1))
    await say(user('u1', 1), answer('a1'), user('u2', 2))
    t.strictSame(await shownTo(person, threadId), [...pair(1), ...pair(2)])
    const anew = await say(user('u1', 1), answer('a1'), user('u2', 2))
    t.match(eventsIn(anew.text).at(-1), { type: 'RUN_FINISHED' }, anew.text)
    t.strictSame(await shownTo(person, threadId), [...pair(1), ...pair(2)], 'each once')
    await say(user('u1', 3))
    t.strictSame(await shownTo(person, threadId), pair(3))
    const chat = { id: threadId, trigger: 'regenerate-message', messages: [{ id: 'u1', role: 'user', parts: [] }] }
    t.equal((await person.post('/api/ai/chat', chat)).status, 200)
    t.strictSame(await shownTo(person, threadId), pair(3), 'also of one that another protocol has asked for')
    const stored = listIn((await person.get(`/api/threads/${threadId}/state`)).body, 'values', 'messages')
    t.strictSame(
      stored.map((one) => at(one, 'type')),
      ['human', 'ai']
    )
  }
)

t.test('who asks something new without having seen the newest turns takes away nothing of them', async (t) => {
  const person = await signIn(site)
  const threadId = randomUUID()
  const user = (id: string, deltas: number) => ({ id, role: 'user', content: `/demo rate=0 deltas=${deltas}` })
  const answer = (id: string) => ({ id, role: 'assistant', content: '-' })
  const say = (...messages: object[]) => run(person, threadId, randomUUID(), { messages })
  const asked = async () => (await shownTo(person, threadId)).flatMap(([who, text]) => (who === 'user' ? [text] : []))
  const words = (...deltas: number[]) => deltas.map((n) => `/demo rate=0 deltas=${n}`)
  await say(user('u1', 1))
  await say(user('u1', 1), answer('a1'), user('u2', 2))
  await say(user('u1', 1), answer('a1'), user('u3', 3))
  t.strictSame(await asked(), words(1, 2, 3), 'a tab that has seen the first answer alone')
  const anew = await say(user('u1', 1), answer('a1'), user('u2', 9), user('u4', 4))
  t.match(eventsIn(anew.text).at(-1), { type: 'RUN_FINISHED' }, anew.text)
  t.strictSame(await asked(), words(1, 2, 3, 4), 'one that has lost an answer, and knows the question in older words')
  await say(user('u1', 1), answer('a1'), user('u2', 5))
  t.strictSame(await asked(), words(1, 5), 'a question by its id in other words is edited')
})

t.test('a turn reads the state of its thread once, and its run once more', async (t) => {
  const person = await signIn(site)
  const threadId = randomUUID()
  // Of a run that is stored before its reader comes, states that its frames name are read too.
  const user = (id: string) => ({ id, role: 'user', content: '/demo rate=50 deltas=5' })
  await run(person, threadId, randomUUID(), { messages: [user('u0')] })
  const queries = watchQueries(t)
  const reads: number[] = []
  for (let n = 1; n <= 10 && reads.at(-1) !== 2; n++) {
    queries.length = 0
    await run(person, threadId, randomUUID(), { messages: [{ role: 'assistant', content: '-' }, user(`u${n}`)] })
    reads.push(queries.filter((sql) => sql.includes('parent_checkpoint_id')).length)
  }
  t.equal(Math.min(...reads), 2, reads.join(' '))
})

t.test(
  'a page that loads its thread is shown what the stream has shown: reasoning, calls and results too',
  async (t) => {
    const person = await signIn(site)
    const words = '/demo rate=0 deltas=3 reasoning tool=current_time'
    await run(person, 'loaded', 'run_l', { messages: [{ id: 'u9', role: 'user', content: words }] })
    const messages = listIn((await person.get(`${PATH}?threadId=loaded`)).body, 'messages')
    t.match(messages, [
      { id: 'u9', role: 'user', parts: [{ type: 'text', content: words }] },
      {
        role: 'assistant',
        parts: [
          { type: 'thinking', content: /thinking looks/ },
          { type: 'tool-call', id: 'call_demo_1', name: 'current_time', arguments: '{}', state: 'input-complete' },
          { type: 'tool-result', toolCallId: 'call_demo_1', content: /./, state: 'complete' }
        ]
      },
      { role: 'assistant', parts: [{ type: 'text', content: 'w0000 w0001 w0002 ' }] }
    ])
  }
)

t.test(
  'a page that loads a thread which waits for an answer has the question as its stream has asked it',
  async (t) => {
    const person = await signIn(site)
    const words = '/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'
    const asked = await run(person, 'asked', 'run_a', { messages: [{ id: 'u8', role: 'user', content: words }] })
    const pending = at(eventsIn(asked.text).at(-1), 'outcome', 'interrupts')
    t.equal(listIn(pending).length, 1)
    const page = (await person.get(`${PATH}?threadId=asked`)).body
    t.strictSame(at(page, 'interrupts'), { runId: 'run_a', pending })
  }
)

t.test(
  'who is to be shown only what is stored says so, and nothing else of what is forwarded is looked at',
  async (t) => {
    const person = await signIn(site)
    const forwardedProps = { durability: 'sync', assistant_id: 'nobody' }
    const given = parse(runInput, inputOf('stored', 'run_3', { forwardedProps }))
    const body = await runBodyOf(given, { ...SITUATION, takesClientContext: true })
    t.match(body, { durability: 'sync', assistant_id: 'lead_agent' })
    t.equal((await run(person, 'stored', 'run_3', { forwardedProps })).status, 200)
  }
)

for (const dialect of [{ protocolVersion: '1.0' }, {}])
  t.test(`a tool of the client is called, and its result goes on: ${dialect.protocolVersion ?? '0.0'}`, async (t) => {
    const person = await signIn(site)
    const [threadId, name] = [`tools ${dialect.protocolVersion}`, `tools_${dialect.protocolVersion}`]
    const content = '/demo rate=0 deltas=2 tool=get_place args={"near":"Paris"}'
    const parameters = { type: 'object', properties: { near: { type: 'string' } } }
    const given = { ...dialect, tools: [{ name: 'get_place', description: 'Where the user is', parameters }] }
    const messages: object[] = [{ id: 'u1', role: 'user', content }]
    const said = async (run: string, more: object[]): Promise<Event[]> => {
      messages.push(...more)
      const { text, status } = await person.post(PATH, inputOf(threadId, `${name}_${run}`, { ...given, messages }))
      t.equal(status, 200, text)
      return eventsIn(text)
    }
    const asking = await said('1', [])
    const call = asking.find(({ type }) => type === 'TOOL_CALL_START')
    t.match(call, { toolCallName: 'get_place' })
    const types = asking.map(({ type }) => type)
    t.ok(types.includes('TOOL_CALL_END'), 'the client knows that it may run it')
    t.notOk(types.includes('TOOL_CALL_RESULT'), 'nobody else has run it')
    t.match(asking.at(-1), { type: 'RUN_FINISHED', outcome: { type: 'success' } }, 'no question to its user')
    const page = (await person.get(`${PATH}?threadId=${encodeURIComponent(threadId)}`)).body
    t.match(page, { interrupts: null })
    t.notMatch(JSON.stringify(page), 'Waiting for the result', 'and a page that is loaded runs it too')
    const toolCallId = String(call?.toolCallId)
    const assistant = { id: 'a1', role: 'assistant', toolCalls: [{ id: toolCallId, type: 'function' }] }
    const result = { id: 'r1', role: 'tool', toolCallId, content: 'at the Seine' }
    const going = await said('2', [assistant, result])
    t.ok(going.some(({ type }) => type === 'TEXT_MESSAGE_CONTENT'))
    t.notOk(
      going.some(({ type }) => type === 'TOOL_CALL_RESULT'),
      'its client has the result in a message of its own'
    )
    const connected = await person.post(`${PATH}/connect`, inputOf(threadId, `${name}_c`, { ...given, messages: [] }))
    t.match(
      eventsIn(connected.text).filter(({ type }) => type === 'TOOL_CALL_RESULT'),
      [{ toolCallId, content: 'at the Seine' }],
      'and who connects gets it'
    )
    t.match(going.at(-1), { type: 'RUN_FINISHED', outcome: { type: 'success' } })
    // With a tool that needs no answer, the result comes beside the next words.
    const answer = { id: 'a2', role: 'assistant', content: 'thanks' }
    const again = await said('3', [answer, { id: 'u2', role: 'user', content }])
    const second = String(again.find(({ type }) => type === 'TOOL_CALL_START')?.toolCallId)
    const late = { id: 'r2', role: 'tool', toolCallId: second, content: 'at the Marne' }
    const calls = { id: 'a3', role: 'assistant', toolCalls: [{ id: second, type: 'function' }] }
    await said('4', [calls, late, { id: 'u3', role: 'user', content: '/demo rate=0 deltas=2' }])
    const { thread_id } = (await newest(person)) as { thread_id: string }
    const stored = listIn((await person.get(`/api/threads/${thread_id}/state`)).body, 'values', 'messages')
    const results = stored.filter((one) => at(one, 'type') === 'tool').map((one) => at(one, 'content'))
    t.strictSame(results, ['at the Seine', 'at the Marne'])
    t.equal(
      at(
        stored.findLast((one) => at(one, 'type') === 'human'),
        'content'
      ),
      '/demo rate=0 deltas=2'
    )
  })

t.test('what a page tells the agent of itself is among its instructions', async (t) => {
  const tools = [{ name: 'a b', description: '' }]
  const given = (more: object) => parse(runInput, inputOf('context', 'run_4', more))
  const bodyOf = (more: object) => runBodyOf(given(more), { ...SITUATION, takesClientContext: true })
  const messages = [{ id: 's1', role: 'system', content: 'Be short' }]
  const context = [{ description: 'The cart', value: '[]' }]
  t.match(await bodyOf({ messages, context }), { context: { client_instructions: 'Be short\n\nThe cart:\n[]' } })
  await t.rejects(bodyOf({ tools }), { message: /tools.0.name/ })
  t.notOk('context' in (await runBodyOf(given({ context }), { ...SITUATION, takesClientContext: false })))
})

async function newest(person: Person): Promise<unknown> {
  return listIn((await person.post('/api/threads/search', { limit: 1 })).body)[0]
}

t.test('what cannot be read is refused by name', async (t) => {
  const person = await signIn(site)
  const bodies: [object, RegExp][] = [
    [{ runId: 'a' }, /threadId/],
    [inputOf('b', 'c', { protocolVersion: '9.0' }), /protocolVersion/],
    [inputOf('b', 'c', { forwardedProps: { durability: 'never' } }), /durability/],
    [inputOf('b', 'c', { messages: [{ content: 'x' }] }), /role/],
    [inputOf('b', 'c', { messages: [{ role: 'bard', content: 'x' }] }), /role/]
  ]
  for (const [body, named] of bodies) t.match(await person.post(PATH, body), { status: 422, text: named })
  t.equal((await run(person, 'b', 'd', { resume: [{ interruptId: 'x', status: 'resolved' }] })).status, 409)
})
