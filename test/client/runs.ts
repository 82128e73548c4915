// Runs as LangGraph's clients use them: what they expect differently, with every version of the client.
import t from 'tap'
import { type Agent, AgentError } from '../../lib/agent/runtime.ts'
import { demoModels, demoWord } from '../../lib/agent/demo.ts'
import { createAgent } from '../../lib/agent/lead.ts'
import { asked, at, homeOf, listIn, openSite, signIn, textIn, until } from '../fixtures/gateway.ts'
import { probes, refusal, sdkOf } from '../fixtures/sdk.ts'
import { textOf } from '../fixtures/stream.ts'

const says = (words: string) => ({ input: { messages: [{ role: 'user', content: words }] } })
const QUICK = says('/demo deltas=1 rate=0')
/** It runs until somebody stops it. */
const LONG = says('/demo deltas=100000 rate=20')

const demo = createAgent({ tools: [], models: demoModels() })
const agent: Agent = {
  models: () => demo.models(),
  async start(input, sink, signal) {
    if (JSON.stringify(input.messages.at(-1)).includes('boo')) throw new AgentError('CustomError', 'Boo!')
    await demo.start(input, sink, signal)
  }
}
const probe = probes(t, { agent })

probe('delete: a run that has ended, and one that works; another time 404', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'lead_agent', QUICK)
  await client.runs.join(thread_id, run_id)
  await client.runs.delete(thread_id, run_id)
  t.equal(await refusal(client.runs.get(thread_id, run_id)), 404)
  t.equal(await refusal(client.runs.delete(thread_id, run_id)), 404)
  t.match(await client.threads.getState(thread_id), { values: { messages: [{ type: 'human' }, { type: 'ai' }] } })
  const working = await client.runs.create(thread_id, 'lead_agent', LONG)
  await client.runs.delete(thread_id, working.run_id)
  t.same(await client.runs.list(thread_id), [])
  t.match(await client.runs.wait(thread_id, 'lead_agent', QUICK), { messages: [] })
})

probe('cancel: a run that has ended is content with it, one that was rolled back is gone', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'lead_agent', QUICK)
  await client.runs.join(thread_id, run_id)
  await client.runs.cancel(thread_id, run_id)
  await client.runs.cancel(thread_id, run_id, true, 'rollback')
  t.match(await client.runs.get(thread_id, run_id), { status: 'success' })
  const working = await client.runs.create(thread_id, 'lead_agent', LONG)
  await client.runs.cancel(thread_id, working.run_id, true, 'rollback')
  t.equal(await refusal(client.runs.get(thread_id, working.run_id)), 404)
  t.equal(await refusal(client.runs.cancel(thread_id, crypto.randomUUID())), 404)
})

probe('multitask: rollback removes the first run', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const first = await client.runs.create(thread_id, 'lead_agent', LONG)
  const second = await client.runs.create(thread_id, 'lead_agent', { ...QUICK, multitaskStrategy: 'rollback' })
  await client.runs.join(thread_id, second.run_id)
  await until(async () => (await refusal(client.runs.get(thread_id, first.run_id))) === 404, 'the first run is gone')
  t.match(await client.runs.list(thread_id), [{ run_id: second.run_id, status: 'success' }])
})

probe('ifNotExists: create makes the thread, else it must be there', async (t, { client }) => {
  const threadId = crypto.randomUUID()
  t.equal(await refusal(client.runs.wait(threadId, 'lead_agent', QUICK)), 404)
  t.equal(await refusal(client.runs.wait(threadId, 'lead_agent', { ...QUICK, ifNotExists: 'reject' })), 404)
  const values = await client.runs.wait(threadId, 'lead_agent', { ...QUICK, ifNotExists: 'create' })
  t.equal(listIn(values, 'messages').length, 2)
  t.match(await client.threads.get(threadId), { metadata: { graph_id: 'lead_agent' } })
  await client.runs.wait(threadId, 'lead_agent', { ...QUICK, ifNotExists: 'create' })
  t.equal((await client.runs.list(threadId)).length, 2)
})

probe('stateless: the thread is gone with the end of the run, unless it is to be kept', async (t, { client }) => {
  const seen: { thread_id?: string } = {}
  const watched = { ...QUICK, onRunCreated: (run: object) => void Object.assign(seen, run) }
  const values = await client.runs.wait(null, 'lead_agent', watched)
  t.equal(listIn(values, 'messages').length, 2)
  const gone = async () => (seen.thread_id ? refusal(client.threads.get(seen.thread_id)) : 404)
  t.equal(await gone(), 404, 'waited for')
  const events: string[] = []
  for await (const { event } of client.runs.stream(null, 'lead_agent', watched)) events.push(event)
  t.same([events[0], events.includes('values')], ['metadata', true])
  t.equal(await gone(), 404, 'streamed')
  const run = await client.runs.create(null, 'lead_agent', QUICK)
  await client.runs.join(run.thread_id, run.run_id)
  t.equal(await refusal(client.threads.get(run.thread_id)), 404, 'joined')
  await client.runs.wait(null, 'lead_agent', Object.assign({ onCompletion: 'keep' }, watched))
  t.equal(await gone(), null, 'kept')
})

probe('createBatch: several runs, each on a thread of its own', async (t, { client }) => {
  const payloads = ['a', 'b'].map((words) => ({ ...says(`${words} /demo deltas=1 rate=0`), assistantId: 'lead_agent' }))
  // As it is on the wire: the client passes on what it does not know.
  const started = await client.runs.createBatch(payloads.map((one) => ({ ...one, on_completion: 'keep' })))
  t.equal(started.length, 2)
  t.not(started[0]!.thread_id, started[1]!.thread_id)
  for (const { thread_id, run_id } of started) await client.runs.join(thread_id, run_id)
  const state = await client.threads.getState(started[1]!.thread_id)
  t.match(state.values, { messages: [{ content: /^b / }, { type: 'ai' }] })
})

probe('cancelMany: by ids, by thread, by status', async (t, { client, person }) => {
  const start = async () => {
    const { thread_id } = await client.threads.create()
    return client.runs.create(thread_id, 'lead_agent', LONG)
  }
  const statusOf = async ({ thread_id, run_id }: { thread_id: string; run_id: string }) =>
    (await client.runs.get(thread_id, run_id)).status
  const cancel = (body: object) => person.post('/api/runs/cancel', body)
  const [one, two, three] = [await start(), await start(), await start()]
  t.equal((await cancel({ thread_id: one.thread_id, run_ids: [one.run_id] })).status, 204)
  t.equal((await cancel({ thread_id: one.thread_id, run_ids: [two.run_id] })).status, 404)
  t.equal((await cancel({ run_ids: [crypto.randomUUID()] })).status, 404)
  t.equal((await cancel({ thread_id: two.thread_id, status: 'all' })).status, 204)
  await until(async () => (await statusOf(one)) === 'interrupted', 'the one is interrupted')
  await until(async () => (await statusOf(two)) === 'interrupted', 'the other is interrupted')
  t.match(await statusOf(three), /pending|running/)
  t.equal((await cancel({ status: 'all' })).status, 204)
  await until(async () => (await statusOf(three)) === 'interrupted', 'the last is interrupted')
})

probe('wait: a failing run throws its name and text; raiseError false gives __error__', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  await t.rejects(client.runs.wait(thread_id, 'lead_agent', says('boo')), { message: 'CustomError: Boo!' })
  const answer = await client.runs.wait(thread_id, 'lead_agent', { ...says('boo'), raiseError: false })
  t.match(answer, { __error__: { error: 'CustomError', message: 'Boo!' } })
})

probe('messages as LangChain writes its own objects, as pairs and as texts', async (t, { client }) => {
  const human = {
    lc: 1,
    type: 'constructor',
    id: ['langchain_core', 'messages', 'HumanMessage'],
    kwargs: { content: 'one', id: 'h1', additional_kwargs: {}, response_metadata: {} }
  }
  const ai = {
    ...human,
    id: ['langchain_core', 'messages', 'AIMessageChunk'],
    kwargs: { content: 'two', tool_calls: [] }
  }
  const stored = { type: 'human', data: { content: 'three', id: 'h3' } }
  const messages = [human, ai, stored, ['user', 'four'], ['assistant', [{ type: 'text', text: 'five' }]], 'six']
  const { thread_id } = await client.threads.create()
  const values = await client.runs.wait(thread_id, 'lead_agent', { input: { messages } })
  t.match(listIn(values, 'messages').slice(0, 6), [
    { type: 'human', content: 'one', id: 'h1' },
    { type: 'ai', content: 'two' },
    { type: 'human', content: 'three', id: 'h3' },
    { type: 'human', content: 'four' },
    { type: 'ai', content: [{ text: 'five' }] },
    { type: 'human', content: 'six' }
  ])
})

probe('list: select and status; join gives the final values', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'lead_agent', QUICK)
  t.equal(listIn(await client.runs.join(thread_id, run_id), 'messages').length, 2)
  t.match(await client.runs.list(thread_id, { status: 'success' }), [{ run_id }])
  t.same(await client.runs.list(thread_id, { status: 'error' }), [])
  t.same(await client.runs.list(thread_id, { select: ['run_id', 'status'] }), [{ run_id, status: 'success' }])
})

t.test("what is LangGraph's by default is none of the service's own clients", async (t) => {
  const person = await signIn(await openSite(t))
  const threadId = await person.thread()
  const path = await person.run(threadId, '/demo deltas=1 rate=0')
  await person.get(`${path}/join`)
  t.equal((await person.post(`${path}/cancel`)).status, 409)
  const stateless = await person.post('/api/runs/wait', asked('/demo deltas=1 rate=0'))
  t.equal(listIn(stateless.body, 'messages').length, 2)
  const left = textIn(/threads\/([^/]+)/.exec(stateless.headers.get('content-location') ?? ''), 1)
  t.equal((await person.get(`/api/threads/${left}`)).status, 200, 'the thread of a stateless run stays')
  const once = await person.post('/api/runs/wait', { ...asked('/demo deltas=1 rate=0'), on_completion: 'delete' })
  const gone = textIn(/threads\/([^/]+)/.exec(once.headers.get('content-location') ?? ''), 1)
  t.equal((await person.get(`/api/threads/${gone}`)).status, 404, 'unless it is said')
  const working = await person.run(threadId, '/demo deltas=100000 rate=20')
  await person.post(`${working}/cancel?action=rollback&wait=true`)
  t.equal(at((await person.get(working)).body, 'status'), 'error', 'and a run that was rolled back is there')
  const client = await sdkOf(person, '1.12.4')
  const runId = working.split('/').at(-1)!
  t.equal(await refusal(client.runs.get(threadId, runId)), 404, "for LangGraph's it is gone, before it is removed too")
})

t.test('a stateless stream that is cut can be gone on with: its thread waits for who comes back', async (t) => {
  const person = await signIn(await openSite(t))
  const body = { ...asked('/demo deltas=60 rate=60'), on_completion: 'delete', stream_mode: ['messages-tuple'] }
  const stream = await person.open('POST', '/api/runs/stream', { body })
  await stream.untilFrames(5)
  stream.leave()
  const path = stream.headers.get('content-location')!
  const rest = await (await person.join(path, stream.lastId)).whole()
  t.equal(rest.at(-1)?.event, 'end')
  t.equal(new Set([...stream.frames, ...rest].map(({ id }) => id)).size, stream.frames.length + rest.length)
  const thread = path.replace(/\/runs.*/, '')
  t.equal((await person.get(thread)).status, 404, 'and is gone then')
})

t.test(
  'a stateless run is there for who was cut off at its end, in no list, and goes a while after its last reader',
  async (t) => {
    const config = { runs: { temporary_grace_ms: 3000 } }
    const person = await signIn(await openSite(t, { config }))
    const body = { ...asked('/demo deltas=3 rate=0'), on_completion: 'delete' }
    const stream = await person.open('POST', '/api/runs/stream', { body })
    const frames = await stream.whole()
    const path = stream.headers.get('content-location')!
    // Long enough for a removal that does not wait.
    await new Promise((resolve) => setTimeout(resolve, 300))
    const rest = await (await person.join(path, frames[1]!.id)).whole()
    t.same(
      rest.map(({ id }) => id),
      frames.slice(2).map(({ id }) => id),
      'the whole rest'
    )
    t.equal((await person.get(`${path}/join`)).status, 200, 'and its values')
    t.same((await person.post('/api/threads/search')).body, [])
    t.equal((await person.post('/api/threads/count')).body, 0)
    const waited = await person.post('/api/runs/wait', body)
    t.equal((await person.get(waited.headers.get('content-location')!)).status, 200)
    await until(async () => (await person.get(path)).status === 404, 'it is gone')
  }
)

t.test('a reader of a stateless run who is slower than its grace is told all of it', async (t) => {
  const person = await signIn(await openSite(t, { config: { runs: { temporary_grace_ms: 200 } } }))
  const body = { ...asked('/demo deltas=5000 size=4000 rate=0'), stream_mode: ['messages-tuple'] }
  const stream = await person.open('POST', '/api/runs/stream', { body: { ...body, on_completion: 'delete' } })
  await stream.untilFrames(5)
  stream.stall()
  await until(async () => at((await person.get(stream.runPath)).body, 'status') === 'success', 'it is over')
  // Nobody reads this one: when it is gone, so much time has passed.
  const other = await person.post('/api/runs/wait', { ...asked('/demo deltas=1 rate=0'), on_completion: 'delete' })
  const path = other.headers.get('content-location')!
  await until(async () => (await person.get(path)).status === 404, 'another one is gone')
  stream.resume()
  const frames = await stream.whole()
  // Not compared by the test: twenty megabytes make a long report.
  t.ok(textOf(frames) === Array.from({ length: 5000 }, (_, n) => demoWord(n, 4000)).join(''), 'each word')
  t.equal(frames.filter(({ event }) => event === 'gap').length, 0)
  await until(async () => (await person.get(stream.runPath)).status === 404, 'and it goes')
})

t.test('a stateless run that is refused leaves no thread, and a restart no temporary one', async (t) => {
  const home = homeOf(t)
  const config = { runs: { temporary_grace_ms: 100 } }
  const first = await openSite(t, { home, config })
  const person = await signIn(first)
  const refused = await person.post('/api/runs/wait', { ...asked('hello'), checkpoint_id: 'nowhere' })
  t.equal(refused.status, 404)
  t.equal((await person.post('/api/threads/count')).body, 0)
  const made = await person.post('/api/runs', { ...asked('/demo deltas=100000 rate=20'), on_completion: 'delete' })
  const path = made.headers.get('content-location')!
  await first.stop()
  const second = await openSite(t, { home, config })
  person.url = second.url
  await until(async () => (await person.get(path)).status === 404, 'the next process removes it')
})
