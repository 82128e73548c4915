// Module agents that misbehave: each costs its own run, and neither the process nor the next run of the thread.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { asked, at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'

/** What a run of the file does is in the words of its user. */
const AGENT = `
import { setTimeout as sleep } from 'node:timers/promises'
const delta = { type: 'delta', messageId: 'm', model: 'x', text: 'half ' }
const message = {
  type: 'ai', id: 'm', content: 'fine', name: null, additional_kwargs: {}, response_metadata: {}, tool_calls: [],
  invalid_tool_calls: [], usage_metadata: null
}
const response = {
  type: 'llm_response', caller: 'lead_agent', model: 'x', responseId: 'r', message, finishReason: 'stop', usage: null, latencyMs: 1
}
let listed = [{ name: 'own' }]
const ways = {
  fine: (sink) => void sink.record(response),
  'throws at once': () => { throw new Error('not today') },
  'rejects with nothing': () => Promise.reject(),
  'rejects with a trap': () => Promise.reject({ get message() { throw new Error('trap') } }),
  'answers a number': () => 5,
  'answers a thenable that throws': () => ({ then() { throw new Error('no then') } }),
  'has a getter that throws': (sink) => void sink.emit({ type: 'custom', get data() { throw new Error('got you') } }),
  'has a getter that throws later': (sink) => {
    let reads = 0
    sink.emit({ type: 'custom', get data() { if (reads++ > 0) throw new Error('got you'); return 'x' } })
  },
  'tells no JSON': (sink) => void sink.record({ type: 'update', channels: { at: new Map() } }),
  'tells a circle': (sink) => {
    const circle = {}
    circle.self = circle
    sink.emit({ type: 'custom', data: circle })
  },
  'forgets an id': (sink) => void sink.emit({ ...delta, messageId: undefined }),
  'answers with null': (sink) => void sink.record({ ...response, message: { ...message, content: null } }),
  'is wrong in a timer': (sink) => new Promise(() => setTimeout(() => sink.emit({ type: 'delta' }), 5)),
  'goes on after its end': async (sink, input) => {
    sink.record(response)
    setTimeout(() => {
      sink.emit({ ...delta, text: 'too late' })
      sink.record({ ...response, message: { ...message, id: 'late' } })
      sink.emit({ type: 'nonsense' })
      globalThis.toldLate = input.runId
    }, 50)
  },
  'never ends': (sink) => { sink.emit(delta); return new Promise(() => {}) },
  'lists nonsense': () => { listed = 5 }
}
export const models = () => listed
export async function start(input, sink, signal) {
  return ways[input.messages.at(-1).content](sink, input, signal)
}
`
const folder = mkdtempSync(join(tmpdir(), 'colloquy-misbehaving-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const path = join(folder, 'agent.mjs')
writeFileSync(path, AGENT)

const open = async (t: Parameters<typeof openSite>[0]) =>
  signIn(await openSite(t, { config: { agent: { runtime: 'module', path } } }))

async function runOf(person: Person, thread: string, words: string): Promise<unknown> {
  await person.post(`/api/threads/${thread}/runs/wait`, asked(words))
  return at(listIn((await person.get(`/api/threads/${thread}/runs`)).body), 0)
}

const FAILURES: Readonly<Record<string, RegExp>> = {
  'throws at once': /./,
  'rejects with nothing': /./,
  'rejects with a trap': /./,
  'answers a thenable that throws': /./,
  'has a getter that throws': /./,
  'has a getter that throws later': /./,
  'tells no JSON': /recorded a "update" that is not right: `channels` must be JSON, and it.at is a Map/,
  'tells a circle': /`data` must be JSON, and it.*in a circle/,
  'forgets an id': /emitted a "delta" that is not right: `messageId` is missing/,
  'answers with null': /`message.content` must be a text or a list of blocks, and is null/,
  'is wrong in a timer': /emitted a "delta" that is not right: `messageId` is missing/
}

t.test('whatever an agent does wrong is the failure of its run, and the next run of the thread is fine', async (t) => {
  const person = await open(t)
  for (const [words, sentence] of Object.entries(FAILURES)) {
    const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
    t.match(await runOf(person, thread, words), { status: 'error', error: sentence }, words)
    t.match(await runOf(person, thread, 'fine'), { status: 'success' }, `${words}, and then it is fine`)
  }
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  t.match(await runOf(person, thread, 'answers a number'), { status: 'success' })
})

t.test('what is told after the end is heard by nobody', async (t) => {
  const person = await open(t)
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  const run = await runOf(person, thread, 'goes on after its end')
  const heard = globalThis as unknown as { toldLate?: string }
  await until(() => heard.toldLate === textIn(run, 'run_id'), 'it has told')
  t.match(await runOf(person, thread, 'fine'), { status: 'success' })
  const { body } = await person.get(`/api/threads/${thread}/state`)
  t.notMatch(JSON.stringify(body), /too late|"late"/)
  t.equal(listIn(body, 'values', 'messages').filter((one) => at(one, 'type') === 'human').length, 2)
})

t.test('an agent that never ends, and does not listen, is cancelled all the same', async (t) => {
  const person = await open(t)
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  const { body: run } = await person.post(`/api/threads/${thread}/runs`, asked('never ends'))
  const runPath = `/api/threads/${thread}/runs/${textIn(run, 'run_id')}`
  await until(async () => at((await person.get(runPath)).body, 'status') === 'running', 'it works')
  await person.post(`${runPath}/cancel?wait=1`)
  await until(async () => at((await person.get(runPath)).body, 'status') === 'interrupted', 'it is cancelled')
  t.match(await runOf(person, thread, 'fine'), { status: 'success' })
})

t.test('models that are none cost the requests that ask for them', async (t) => {
  const person = await open(t)
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  t.match((await person.get('/api/models')).body, { models: [{ name: 'own' }] })
  await runOf(person, thread, 'lists nonsense')
  t.equal((await person.get('/api/models')).status, 500)
  t.equal((await person.get('/health')).status, 200)
})
