// Assistants, threads and runs over real graphs of LangGraph: what the built-in agent answers for itself, they answer here.
import t from 'tap'
import { systemAssistantId } from '../../lib/thread/assistants.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { at, listIn } from '../fixtures/gateway.ts'
import { probes, refusal, type Sdk } from '../fixtures/sdk.ts'

const FOO = { input: { messages: [{ role: 'user', content: 'foo', id: 'foo' }] } }
const probe = probes(t, { config: { agent: { runtime: 'graphs', config: graphsFolder(t) } } })
const textsOf = (values: unknown): unknown[] => listIn(values, 'messages').map((message) => at(message, 'content'))

async function talked(client: Sdk, assistant = 'agent'): Promise<string> {
  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, assistant, FOO)
  return thread_id
}

probe('every graph has an assistant of the system', async (t, { client }) => {
  const all = await client.assistants.search({ limit: 100 })
  t.ok(all.length >= 3)
  t.match(await client.assistants.search({ graphId: 'agent' }), [
    { assistant_id: systemAssistantId('agent'), graph_id: 'agent', metadata: { created_by: 'system' } }
  ])
  t.match(await client.assistants.get('nested'), { graph_id: 'nested' })
  t.equal(await refusal(client.assistants.create({ graphId: 'lead_agent' })), 404)
})

probe('an assistant is drawn, and its schemas are told, also those of graphs inside of it', async (t, { client }) => {
  const { assistant_id } = await client.assistants.create({ graphId: 'nested' })
  const plain = await client.assistants.getGraph(assistant_id)
  t.ok(plain.nodes.length >= 3)
  const deep = await client.assistants.getGraph(assistant_id, { xray: true })
  t.ok(deep.nodes.length > plain.nodes.length, 'with what is inside of it')
  t.match(await client.assistants.getSchemas(assistant_id), { graph_id: 'nested' })
  t.ok(Object.keys(await client.assistants.getSubgraphs(assistant_id)).length > 0)
  t.same(await client.assistants.getSubgraphs('agent'), {})
})

probe(
  "a run of an assistant is its graph's, with its configuration; one that is not there is 404",
  async (t, { client }) => {
    const made = await client.assistants.create({ graphId: 'agent', config: { configurable: { ask: 'know' } } })
    const { thread_id } = await client.threads.create()
    const run = await client.runs.create(thread_id, made.assistant_id, FOO)
    t.equal(run.assistant_id, made.assistant_id)
    await client.runs.join(thread_id, run.run_id)
    t.match(await client.threads.get(thread_id), {
      status: 'interrupted',
      metadata: { graph_id: 'agent', assistant_id: made.assistant_id }
    })
    const named = await client.threads.create()
    await client.runs.join(named.thread_id, (await client.runs.create(named.thread_id, 'agent', FOO)).run_id)
    const { metadata } = await client.threads.get(named.thread_id)
    t.match(metadata, { graph_id: 'agent', assistant_id: 'agent' }, 'as its caller named it')
    await client.threads.delete(named.thread_id)
    const [listed] = await client.threads.search({ status: 'interrupted' })
    t.match(listed, { thread_id, values: { messages: [{ content: 'foo' }, { content: 'begin' }] } })
    t.match(Object.values(listed!.interrupts), [[{ value: 'i want to know' }]])
    for (const name of ['nobody', crypto.randomUUID()])
      t.equal(await refusal(client.runs.create(thread_id, name, FOO)), 404, name)
  }
)

probe(
  'a thread without a run of a graph is with the first one; copies and histories are of the graph',
  async (t, { client }) => {
    const original = await talked(client)
    const copy = (await client.threads.copy(original)) as unknown as { thread_id: string }
    const [one, other] = [await client.threads.getState(original), await client.threads.getState(copy.thread_id)]
    t.same(textsOf(other.values), textsOf(one.values))
    t.equal(
      (await client.threads.getHistory(copy.thread_id)).length,
      (await client.threads.getHistory(original)).length
    )
    await client.runs.wait(copy.thread_id, 'agent', FOO)
    t.equal(textsOf((await client.threads.getState(original)).values).length, 4)
  }
)

probe('supersteps on create make a history of the graph', async (t, { client }) => {
  const { thread_id } = await client.threads.create({
    graphId: 'agent',
    supersteps: [
      { updates: [{ values: FOO.input, asNode: '__input__' }] },
      { updates: [{ values: FOO.input, asNode: '__start__' }] },
      { updates: [{ values: { messages: [{ role: 'assistant', content: 'begin', id: 'b' }] }, asNode: 'agent' }] }
    ]
  })
  const state = await client.threads.getState(thread_id)
  t.same(textsOf(state.values), ['foo', 'begin'])
  t.same(state.next, ['tool'])
  const refused = { graphId: 'agent', supersteps: [{ updates: [{ values: {}, asNode: 'nowhere' }] }] }
  const status = await refusal(client.threads.create(refused))
  t.ok(status && status >= 400 && status < 500, `a node that there is not: ${status}`)
})

probe('a run that is removed or rolled back is gone; a stateless thread too', async (t, { client }) => {
  const thread = await talked(client)
  const [run] = await client.runs.list(thread)
  await client.runs.delete(thread, run!.run_id)
  t.equal(await refusal(client.runs.get(thread, run!.run_id)), 404)
  t.equal(textsOf((await client.threads.getState(thread)).values).length, 4)
  const once = await client.runs.create(null, 'agent', FOO)
  t.equal(textsOf(await client.runs.join(once.thread_id, once.run_id)).length, 4)
  t.equal(await refusal(client.threads.get(once.thread_id)), 404)
})

probe('a run that fails says so by the name that the graph gives it', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  await t.rejects(client.runs.wait(thread_id, 'error', FOO), { message: /Boo!/ })
  t.match(await client.threads.get(thread_id), { status: 'error' })
})

probe('what a graph answers and keeps in no checkpoint is in the answer of its run', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const wanted = { answer: { degrees: 20 }, messages: [{ content: 'foo' }, { content: 'warm' }] }
  t.match(await client.runs.wait(thread_id, 'structured', FOO), wanted)
  const [run] = await client.runs.list(thread_id)
  t.match(await client.runs.join(thread_id, run!.run_id), wanted, 'also when it is asked for later')
  t.same(Object.keys((await client.threads.getState(thread_id)).values), ['messages'])
})
