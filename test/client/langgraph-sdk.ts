// The official LangGraph client works against ours as it is: it is given nothing but a URL and the headers of a session.
import { Client } from '@langchain/langgraph-sdk'
import t, { type Test } from 'tap'
import { demoModels, demoWord } from '../../lib/agent/demo.ts'
import { createAgent } from '../../lib/agent/lead.ts'
import type { Agent } from '../../lib/agent/runtime.ts'
import { builtInTools } from '../../lib/agent/tools.ts'
import { Paths } from '../../lib/files/paths.ts'
import { Workspace } from '../../lib/files/workspace.ts'
import { asked, at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'
import { sdkOf, VERSIONS, type Version } from '../fixtures/sdk.ts'

/** What the client yields of a stream. */
interface Chunk {
  readonly id?: string
  readonly event: string
  readonly data: unknown
}

function clientOf(person: Person, url = person.url): Client {
  return new Client({ apiUrl: `${url}/api`, apiKey: null, defaultHeaders: person.headers() })
}

async function open(t: Test, agent?: Agent): Promise<{ client: Client; person: Person }> {
  const person = await signIn(await openSite(t, agent ? { agent } : {}))
  return { client: clientOf(person), person }
}

async function all(chunks: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const list: Chunk[] = []
  for await (const chunk of chunks) list.push(chunk)
  return list
}

/** The deltas of `messages` events, put together. */
function textOf(chunks: readonly Chunk[]): string {
  const deltas = chunks.filter(({ event }) => event === 'messages')
  return deltas.map(({ data }) => textIn(data, 0, 'content')).join('')
}

/** `end` carries no id of its own; the client repeats the one before. */
function idsOf(chunks: readonly Chunk[]): (string | undefined)[] {
  return chunks.filter(({ event }) => event !== 'end').map(({ id }) => id)
}

function demoText(deltas: number): string {
  return Array.from({ length: deltas }, (_, n) => demoWord(n)).join('')
}

const eventsOf = (chunks: readonly Chunk[]) => [...new Set(chunks.map(({ event }) => event))]

t.test('a run streams values, deltas and custom data', async (t) => {
  const demo = createAgent({ tools: [], models: demoModels() })
  const agent: Agent = {
    models: () => demo.models(),
    async start(input, sink, signal) {
      sink.emit({ type: 'custom', name: 'progress', data: { percent: 50 } })
      await demo.start(input, sink, signal)
    }
  }
  const { client } = await open(t, agent)
  const { thread_id } = await client.threads.create({ metadata: { topic: 'test' } })
  const created: string[] = []
  const chunks = await all(
    client.runs.stream(thread_id, 'lead_agent', {
      ...asked('/demo deltas=40 rate=0'),
      streamMode: ['values', 'messages-tuple', 'custom'],
      onRunCreated: ({ run_id }) => created.push(run_id)
    })
  )
  t.same(eventsOf(chunks), ['metadata', 'values', 'custom', 'messages', 'end'])
  t.equal(textOf(chunks), demoText(40))
  t.equal(new Set(idsOf(chunks)).size, idsOf(chunks).length)
  t.match(chunks[0]?.data, { run_id: created[0], thread_id })
  t.match(chunks.find(({ event }) => event === 'custom')?.data, { percent: 50 })
  const last = chunks.findLast(({ event }) => event === 'values')
  t.match(listIn(last?.data, 'messages'), [{ type: 'human' }, { type: 'ai', content: demoText(40) }])
  const streamed = chunks.findLast(({ event }) => event === 'messages')
  t.equal(
    textIn(last?.data, 'messages', 1, 'id'),
    textIn(streamed?.data, 0, 'id'),
    'the message in the state is the one that was streamed'
  )
})

t.test('mode messages: partial messages grow, and complete ones are whole', async (t) => {
  const { client } = await open(t)
  const { thread_id } = await client.threads.create()
  const chunks = await all(
    client.runs.stream(thread_id, 'lead_agent', { ...asked('/demo deltas=60 rate=100'), streamMode: 'messages' })
  )
  const partials = chunks
    .filter(({ event }) => event === 'messages/partial')
    .map(({ data }) => textIn(data, 0, 'content'))
  t.ok(partials.length > 1)
  t.ok(partials.every((text, n) => text.startsWith(partials[n - 1] ?? '')))
  const complete = chunks.filter(({ event }) => event === 'messages/complete').map(({ data }) => data)
  t.ok(complete.some((data) => textIn(data, 0, 'content') === demoText(60)))
  t.ok(eventsOf(chunks).includes('messages/metadata'))
})

t.test('mode messages: a complete message is the one in the state, with its calls', async (t) => {
  const demo = createAgent({
    tools: builtInTools({ files: new Workspace(new Paths(t.testdir())) }),
    models: demoModels()
  })
  const { client } = await open(t, demo)
  const { thread_id } = await client.threads.create()
  const payload = { ...asked('/demo tool=current_time rate=0 reasoning'), streamMode: 'messages' as const }
  const chunks = await all(client.runs.stream(thread_id, 'lead_agent', payload))
  const complete = chunks.filter(({ event }) => event === 'messages/complete').map(({ data }) => at(data, 0))
  const { values } = await client.threads.getState(thread_id)
  // The state's final answer says besides how long the turn took, which nobody knows when its last piece is told.
  t.match(listIn(values, 'messages').slice(1), complete, 'the call, its result and the answer')
  t.equal(complete.length, 3)
  t.match(complete[0], { type: 'ai', tool_calls: [{ name: 'current_time' }] })
})

t.test('joinStream goes on after the id it names, and from the beginning for -1', async (t) => {
  const { client } = await open(t)
  const { thread_id } = await client.threads.create()
  const payload = { ...asked('/demo deltas=50 rate=200'), streamMode: ['messages-tuple' as const] }
  const { run_id } = await client.runs.create(thread_id, 'lead_agent', payload)
  const whole = await all(client.runs.joinStream(thread_id, run_id, { lastEventId: '-1' }))
  t.equal(textOf(whole), demoText(50))
  const middle = idsOf(whole)[20]
  const rest = await all(client.runs.joinStream(thread_id, run_id, { ...(middle && { lastEventId: middle }) }))
  t.same(idsOf(rest), idsOf(whole).slice(21))
  const modes = await all(
    client.runs.joinStream(thread_id, run_id, { lastEventId: '-1', streamMode: ['values', 'custom'] })
  )
  t.same(eventsOf(modes), ['metadata', 'values', 'end'])
  t.match(await client.runs.join(thread_id, run_id), { messages: [{ type: 'human' }, { type: 'ai' }] })
})

t.test('wait, state, history and update', async (t) => {
  const { client } = await open(t)
  const { thread_id } = await client.threads.create()
  t.match(await client.threads.getState(thread_id), { values: {}, next: [], tasks: [] })
  const values = await client.runs.wait(thread_id, 'lead_agent', asked('/demo deltas=3 rate=0'))
  t.match(values, { messages: [{ type: 'human' }, { type: 'ai', content: demoText(3) }] })
  const state = await client.threads.getState(thread_id)
  t.same(listIn(state.values, 'messages'), listIn(values, 'messages'))
  const history = await client.threads.getHistory(thread_id, { limit: 10 })
  t.equal(history[0]?.checkpoint.checkpoint_id, state.checkpoint.checkpoint_id)
  const ids = history.map(({ checkpoint }) => checkpoint.checkpoint_id ?? '')
  t.same(ids, ids.toSorted().reverse(), 'checkpoint ids sort by time')
  t.same(
    history.slice(0, -1).map(({ parent_checkpoint }) => parent_checkpoint?.checkpoint_id),
    ids.slice(1)
  )

  const updated = await client.threads.updateState(thread_id, { values: { title: 'Renamed' } })
  const after = await client.threads.getState(thread_id)
  t.match(after.values, { title: 'Renamed' })
  t.match(updated, { checkpoint: { thread_id, checkpoint_id: after.checkpoint.checkpoint_id } })
  t.match(await client.threads.getState(thread_id, state.checkpoint), {
    checkpoint: { checkpoint_id: state.checkpoint.checkpoint_id }
  })
})

t.test('a failed run: the stream says error, wait throws what went wrong', async (t) => {
  const { client } = await open(t)
  const { thread_id } = await client.threads.create()
  const payload = asked('/demo deltas=2 rate=0 error')
  const chunks = await all(client.runs.stream(thread_id, 'lead_agent', payload))
  t.same(
    chunks.slice(-2).map(({ event }) => event),
    ['error', 'end']
  )
  t.match(chunks.at(-2)?.data, { error: 'DemoFailure', message: String })
  await t.rejects(client.runs.wait(thread_id, 'lead_agent', payload), /asked to fail/)
})

t.test('runs can be listed, looked at and cancelled', async (t) => {
  const { client } = await open(t)
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'lead_agent', asked('/demo deltas=9999 rate=20'))
  await until(async () => (await client.runs.get(thread_id, run_id)).status === 'running', 'the run starts')
  await client.runs.cancel(thread_id, run_id, true)
  t.match(await client.runs.get(thread_id, run_id), { run_id, thread_id, status: 'interrupted' })
  t.equal((await client.threads.get(thread_id)).status, 'idle')
  const second = await client.runs.create(thread_id, 'lead_agent', asked('/demo deltas=1 rate=0'))
  await client.runs.join(thread_id, second.run_id)
  const runs = await client.runs.list(thread_id)
  t.same(runs.map((run) => run.run_id).sort(), [run_id, second.run_id].sort())
  await t.rejects(client.runs.get(thread_id, 'no-such-run'), /HTTP 404/)
})

t.test('a stream whose connection is reset three times arrives whole, and nothing of it twice', async (t) => {
  const { person } = await open(t)
  const proxy = await openProxy(t, person.url)
  const client = clientOf(person, proxy.url)
  const { thread_id } = await client.threads.create()
  // The first in mid-run; the client waits a second and more before it comes back, so the others are in what is stored.
  proxy.cutAfter(5_000, 12_000, 9_000)
  const chunks = await all(
    client.runs.stream(thread_id, 'lead_agent', {
      ...asked('/demo deltas=400 rate=200'),
      streamMode: ['messages-tuple', 'values']
    })
  )
  t.equal(proxy.cutsLeft, 0, 'all three have happened')
  t.equal(textOf(chunks), demoText(400))
  t.equal(new Set(idsOf(chunks)).size, idsOf(chunks).length)
  t.equal(chunks.at(-1)?.event, 'end')
})

t.test('a join whose connection is reset goes on with its own filter, with every version of the client', async (t) => {
  const site = await openSite(t)
  const join = async (version: Version) => {
    const person = await signIn(site)
    const proxy = await openProxy(t, person.url)
    person.url = proxy.url
    const client = await sdkOf(person, version, '/api')
    const { thread_id } = await client.threads.create()
    const payload = { ...asked('/demo deltas=400 rate=200'), streamMode: ['values' as const] }
    const { run_id } = await client.runs.create(thread_id, 'lead_agent', payload)
    proxy.cutAfter(5_000, 12_000)
    const streamMode = ['messages-tuple' as const]
    const chunks = await all(client.runs.joinStream(thread_id, run_id, { lastEventId: '-1', streamMode }))
    t.equal(proxy.cutsLeft, 0, `${version}: both have happened`)
    t.equal(textOf(chunks), demoText(400), version)
    t.equal(new Set(idsOf(chunks)).size, idsOf(chunks).length, `${version}: nothing of it twice`)
    // With an API key there is no `end`, as LangGraph's server has none.
    t.same(eventsOf(chunks), ['metadata', 'messages'], version)
  }
  await Promise.all(VERSIONS.map(join))
})
