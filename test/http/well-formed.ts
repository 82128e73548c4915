// Half a surrogate pair is no text: whatever comes in, and whatever was stored before, is read well-formed on every backend.
import t from 'tap'
import type { Agent, AgentInput, Sink } from '../../lib/agent/runtime.ts'
import type { Store } from '../../lib/store/store.ts'
import { newThread } from '../../lib/thread/thread.ts'
import { wellFormed, wellFormedJson } from '../../lib/base/json.ts'
import { aCall, anAnswer, aResult, request, response } from '../fixtures/agent.ts'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { textOf } from '../fixtures/stream.ts'

const HALF = 'a\ud83d'
const WHOLE = 'a\ufffd'

t.test('a half becomes U+FFFD, a pair and an escaped backslash stay', async (t) => {
  const texts = [
    '\ud83d',
    '\ude00\ud83d',
    '\ud83d\ude00',
    'x\ud83dx',
    '\\ud83d',
    '\\\ud83d',
    '\\\\ud83d',
    '😀\ud83d',
    'ü\u2028'
  ]
  for (const text of texts) {
    const value = { [text]: [text, { deep: text }] }
    const wanted = { [text.toWellFormed()]: [text.toWellFormed(), { deep: text.toWellFormed() }] }
    t.strictSame(wellFormed(value), wanted)
    t.strictSame(JSON.parse(wellFormedJson(JSON.stringify(value))), wanted)
  }
  t.strictSame(JSON.parse(wellFormedJson('"\\uD83D\\uDE00\\uD83D\\u0041\\uDE00"')), '😀\ufffdA\ufffd', 'in either case')
  const plain = { a: ['b', null, 1] }
  t.equal(wellFormed(plain), plain, 'nothing is copied for nothing')
})

/** Says halves wherever an agent can. */
class Halving implements Agent {
  async start({ messages }: AgentInput, sink: Sink): Promise<void> {
    const call = aCall('call', 'look', { [HALF]: HALF })
    if (JSON.stringify(messages).includes('\\ud83d')) throw new Error('it was told a half')
    sink.emit({ type: 'custom', name: 'note', data: { [HALF]: HALF } })
    sink.record(request())
    sink.record(response(anAnswer(HALF, { id: 'calling', tool_calls: [call] })))
    sink.record({ type: 'tool_start', call })
    sink.record({ type: 'tool_end', call, message: aResult(call, HALF) })
    sink.record({ type: 'step', node: 'tools' })
    sink.record(request())
    sink.record(response(anAnswer(HALF, { id: 'answer' })))
    sink.record({ type: 'update', channels: { title: HALF, notes: [{ [HALF]: HALF }] } })
    sink.record({ type: 'middleware', tag: 'tag', content: { text: HALF }, metadata: { [HALF]: HALF } })
    sink.record({ type: 'step', node: 'agent' })
  }
}

/** Everything that can be read of a thread and its runs, by path. */
async function readings(person: Person, thread: string, run: string | null): Promise<Map<string, string>> {
  const path = `/api/threads/${thread}`
  const ofRun = [
    '',
    '/events',
    '/messages',
    '/feedback',
    '/join',
    '/stream?stream_mode=values,messages-tuple,custom,updates'
  ]
  const asks: readonly (readonly [method: string, path: string])[] = [
    ['GET', path],
    ['GET', `${path}/state`],
    ['POST', `${path}/history`],
    ['POST', '/api/threads/search'],
    ['GET', `${path}/messages`],
    ['GET', `${path}/messages/page`],
    ['GET', `${path}/runs`],
    ...(run === null ? [] : ofRun.map((one) => ['GET', run + one] as const))
  ]
  const read = new Map<string, string>()
  for (const [method, at] of asks) {
    const answer = await person.ask(
      method,
      at,
      method === 'POST' ? { body: {} } : { headers: { accept: 'application/json' } }
    )
    if (answer.status !== 503) read.set(at, answer.text)
  }
  return read
}

onEachBackend(t, '[Store 9] halves that come in are read as U+FFFD, wherever they stood', async (t, backend) => {
  const site = await openSite(t, { agent: new Halving(), config: { database: await databaseSection(t, backend) } })
  const person = await signIn(site)
  const thread = textIn((await person.post('/api/threads', { metadata: { [HALF]: HALF } })).body, 'thread_id')
  const path = `/api/threads/${thread}`
  await person.ask('PATCH', path, { body: { metadata: { patched: HALF } } })
  const more = { metadata: { [HALF]: HALF }, context: { [HALF]: HALF }, stream_mode: ['values', 'updates'] }
  const run = await person.run(thread, HALF, more)
  await (await person.join(run)).whole()
  await person.ask('PUT', `${run}/feedback`, { body: { rating: 1, comment: HALF } })
  await person.post(`${path}/state`, { values: { title: HALF, other: { [HALF]: HALF } } })
  for (const [read, text] of await readings(person, thread, run)) {
    t.notMatch(text, /\\ud[89a-f]/i, read)
    if (!read.endsWith('/runs')) t.match(text, WHOLE, read)
  }
  const { body } = await person.get(`${path}/state`)
  t.strictSame([at(body, 'values', 'title'), at(body, 'values', 'other', WHOLE)], [WHOLE, WHOLE])
  t.match((await person.post('/api/threads/search')).body, [
    { metadata: { [WHOLE]: WHOLE, patched: WHOLE }, values: { title: WHOLE } }
  ])
})

onEachBackend(t, 'what was stored with halves before is read well-formed', async (t, backend) => {
  let store: Store | null = null
  const behind = (opened: Store) => (store = opened)
  const site = await openSite(t, {
    agent: new Halving(),
    behind,
    config: { database: await databaseSection(t, backend) }
  })
  const person = await signIn(site)
  const user_id = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  const now = '2026-01-01T00:00:00.000+00:00'
  const made = newThread({ thread_id: 'old', user_id, assistant_id: null, metadata: { [HALF]: HALF } }, now)
  const message = { content: HALF, type: 'human', name: null, id: 'm', additional_kwargs: {}, response_metadata: {} }
  const checkpoint = {
    ...made.checkpoint,
    checkpoint_id: `${made.checkpoint.checkpoint_id}x`,
    parent_checkpoint_id: made.checkpoint.checkpoint_id,
    messages: [[0, 0] as const],
    channels: { notes: 1 },
    bodies: [message, [HALF]].map((body, no) => ({ no, json: JSON.stringify(body) }))
  }
  await store!.apply([
    { ops: [{ name: 'thread.create', ...made }] },
    { ops: [{ name: 'checkpoint.put', ...checkpoint }] }
  ])
  for (const [read, text] of await readings(person, 'old', null)) {
    t.notMatch(text, /\\ud[89a-f]/i, read)
    if (!/\/(runs|messages|messages\/page)$/.test(read)) t.match(text, WHOLE, read)
  }
  const answer = await person.post('/api/threads/old/runs/wait', asked('hello'))
  t.notMatch(answer.text, /\\ud[89a-f]|__error__/i, 'an agent is told nothing else either')
  t.match(answer.text, WHOLE)
})

t.test('half a character that a model ends with is the same in stream, state and events [design 5]', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const person = await signIn(await openSite(t, { config: { models, title: { enabled: false } } }))
  const rows = [
    [['"x\\ud83d"', '"\\ude00y"', '"\\ud83d"'], 'x😀y\ufffd'],
    [['"\\ud83d"'], '\ufffd'],
    [['"\\ude00x"'], '\ufffdx']
  ] as const
  for (const [raw, text] of rows) {
    const thread = await person.thread()
    const stream = await person.stream(thread, scripted({ raw }), { stream_mode: ['messages-tuple'] })
    t.equal(textOf(await stream.whole()), text)
    const messages = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages')
    t.equal(at(messages.at(-1), 'content'), text, 'the state')
    const events = listIn((await person.get(`${stream.runPath}/events`)).body)
    const one = (type: string) =>
      at(
        events.find((event) => at(event, 'event_type') === type),
        'content'
      )
    t.equal(at(one('ai_message'), 'content'), text, 'the reply')
    t.equal(at(one('llm_response'), 'choices', 0, 'message', 'content'), text, 'the trace')
  }
})
