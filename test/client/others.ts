// Clients of others over graphs, a probe a line of the list on which they fell short once: RemoteGraph as it is, with every version of the
// client, and of applications that are no packages the requests that they make, in their words.
import { Command } from '@langchain/langgraph'
import { RemoteGraph } from '@langchain/langgraph/remote'
import t from 'tap'
import { at, listIn } from '../fixtures/gateway.ts'
import { all, graphsFolder } from '../fixtures/graphs.ts'
import { probes, type Sdk } from '../fixtures/sdk.ts'

const FOO = { messages: [{ type: 'human', content: 'foo', id: 'foo' }] }
const ALL = ['foo', 'begin', 'tool_call__begin', 'end']
const ASKING = { configurable: { ask: 'interrupt' } }
const contents = (values: unknown) => listIn(values, 'messages').map((one) => at(one, 'content'))
const probe = probes(t, { config: { agent: { runtime: 'graphs', config: graphsFolder(t) } } }, true)

/** The graph as a program elsewhere sees it. Versions of the client differ in types that it does not look at. */
function remote(client: Sdk, graphId = 'agent'): RemoteGraph {
  return new RemoteGraph({ graphId, client: client as never })
}

async function placed(client: Sdk, more: object = {}) {
  const { thread_id } = await client.threads.create()
  return { configurable: { thread_id, ...more } }
}

async function ran(client: Sdk, more: object = {}): Promise<string> {
  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, 'agent', { input: FOO, ...more })
  return thread_id
}

probe('RemoteGraph: getState, getStateHistory', async (t, { client }) => {
  const [graph, place] = [remote(client), await placed(client)]
  t.same(contents(await graph.invoke(FOO, place)), ALL)
  t.same(contents((await graph.getState(place)).values), ALL)
  const history: number[] = []
  for await (const { values } of graph.getStateHistory(place)) history.push(contents(values).length)
  t.same(history, [4, 3, 2, 1, 0])
})

probe('RemoteGraph: a thread that is not there is made by its run', async (t, { client }) => {
  const place = { configurable: { thread_id: crypto.randomUUID() } }
  t.same(contents(await remote(client).invoke(FOO, place)), ALL)
})

probe('RemoteGraph: updateState, then the state has both', async (t, { client }) => {
  const [graph, place] = [remote(client), await placed(client)]
  await graph.invoke(FOO, place)
  await graph.updateState(place, { messages: [{ type: 'human', content: 'more' }] })
  t.same(contents((await graph.getState(place)).values), [...ALL, 'more'])
})

probe('RemoteGraph: interruptBefore, then null goes on', async (t, { client }) => {
  const [graph, place] = [remote(client), await placed(client)]
  await graph.invoke(FOO, { ...place, interruptBefore: ['tool'] }).catch(() => {})
  t.same((await graph.getState(place)).next, ['tool'])
  t.same(contents(await graph.invoke(null, place)), ALL)
})

probe('RemoteGraph: a Command resumes', async (t, { client }) => {
  const [graph, place] = [remote(client), await placed(client, { ask: 'interrupt' })]
  await graph.invoke(FOO, place).catch(() => {})
  const values = await graph.invoke(new Command({ resume: 'yes' }), place)
  t.same(contents(values), ALL)
  t.equal(at(values, 'asked'), 'yes')
})

probe('RemoteGraph: getGraphAsync (drawing)', async (t, { client }) => {
  const drawn = await remote(client, 'nested').getGraphAsync({ xray: true })
  t.match(drawn.drawMermaid(), /router_node/)
})

probe(
  'CopilotKit: finds its assistant by the graph, has its drawing and schemas, a second turn goes on',
  async (t, given) => {
    const { client } = given
    const [found] = await client.assistants.search({ graphId: 'agent', limit: 1 })
    const assistant = found!.assistant_id
    t.ok((await client.assistants.getGraph(assistant)).nodes.length > 0)
    t.ok((await client.assistants.getSchemas(assistant)).input_schema)
    // It names its thread itself.
    const threadId = crypto.randomUUID()
    await client.threads.create({ threadId })
    const streamMode = ['events', 'values', 'updates', 'messages-tuple'] as ('events' | 'values')[]
    const turn = (content: string) => ({ input: { messages: [{ role: 'user', content }] }, streamMode })
    const chunks = await all(client.runs.stream(threadId, assistant, turn('foo')))
    for (const name of ['values', 'updates', 'messages'])
      t.ok(
        chunks.some(({ event }) => event === name),
        name
      )
    // Its texts are made of these, a piece each.
    const events = chunks.filter(({ event }) => event === 'events').map(({ data }) => data)
    const pieces = events.filter((one) => at(one, 'event') === 'on_chat_model_stream')
    t.equal(
      pieces
        .map((one) => at(one, 'data', 'chunk', 'kwargs', 'content') ?? at(one, 'data', 'chunk', 'content'))
        .join(''),
      'beginend'
    )
    t.match(events.at(-1), { event: 'on_chain_end' })
    await all(client.runs.stream(threadId, assistant, turn('bar')))
    t.equal(contents((await client.threads.getState(threadId)).values).length, 8)
  }
)

probe(
  'CopilotKit, assistant-ui: an interrupt is in the stream and the state; resume by command',
  async (t, { client }) => {
    const { thread_id } = await client.threads.create()
    const streamMode = ['messages-tuple', 'updates', 'values'] as ('updates' | 'values')[]
    const chunks = await all(client.runs.stream(thread_id, 'agent', { input: FOO, config: ASKING, streamMode }))
    const updates = chunks.filter(({ event }) => event === 'updates').map(({ data }) => data)
    t.match(at(updates.at(-1), '__interrupt__'), [{ value: 'i want to interrupt' }], 'nothing comes behind it')
    const { tasks } = await client.threads.getState(thread_id)
    t.match(tasks, [{ interrupts: [{ value: 'i want to interrupt' }] }])
    const command = { resume: 'yes' }
    await all(client.runs.stream(thread_id, 'agent', { input: null, command, config: ASKING, streamMode }))
    t.same(contents((await client.threads.getState(thread_id)).values), ALL)
  }
)

probe(
  'assistant-ui: editing a message finds its checkpoint in the history and branches there',
  async (t, { client }) => {
    const thread = await ran(client)
    const bar = { messages: [{ type: 'human', content: 'bar', id: 'bar' }] }
    await client.runs.wait(thread, 'agent', { input: bar })
    const history = await client.threads.getHistory(thread, { limit: 100 })
    // The state before the edited message: that has all of those before it, and no more.
    const before = history.find(({ values }) => contents(values).join() === ALL.join())
    const changed = { messages: [{ type: 'human', content: 'changed', id: 'changed' }] }
    const values = await client.runs.wait(thread, 'agent', { input: changed, checkpoint: before!.checkpoint })
    t.same(contents(values), [...ALL, 'changed', ...ALL.slice(1)])
  }
)

probe('agent-chat-ui: asks /info, lists chats by metadata.graph_id, titles from values.messages', async (t, given) => {
  const { client, person } = given
  t.equal((await person.get('/info')).status, 200)
  const thread = await ran(client)
  const chats = await client.threads.search({ metadata: { graph_id: 'agent' }, limit: 100 })
  const chat = chats.find(({ thread_id }) => thread_id === thread)
  t.equal(at(chat?.values, 'messages', 0, 'content'), 'foo')
})

probe(
  "deep-agents-ui: finds its assistant by the graph's name (created_by system), lists chats",
  async (t, { client }) => {
    const system = await client.assistants.search({ graphId: 'agent', metadata: { created_by: 'system' } })
    t.match(system, [{ graph_id: 'agent' }])
    const thread = await ran(client)
    const query = { limit: 20, sortBy: 'updated_at', sortOrder: 'desc', metadata: { graph_id: 'agent' } } as const
    const [newest] = await client.threads.search(query)
    t.match(newest, { thread_id: thread, values: { messages: [{ content: 'foo' }] } })
  }
)

probe('deep-agents-ui: step by step: interruptBefore, then on with input undefined', async (t, { client }) => {
  const thread = await ran(client, { interruptBefore: ['tool'] })
  await client.runs.wait(thread, 'agent', { interruptAfter: ['tool'] })
  t.same((await client.threads.getState(thread)).next, ['agent'])
  t.same(contents(await client.runs.wait(thread, 'agent', {})), ALL)
})

probe(
  'agent-inbox: lists interrupted threads with their interrupts; answers with resume and streams events',
  async (t, given) => {
    const { client } = given
    const thread = await ran(client, { config: ASKING })
    const inbox = await client.threads.search({ status: 'interrupted', limit: 100 })
    const found = inbox.find(({ thread_id }) => thread_id === thread)
    t.match(Object.values(found!.interrupts), [[{ value: 'i want to interrupt' }]])
    const answer = {
      command: { resume: [{ type: 'accept', args: null }] },
      config: ASKING,
      streamMode: 'events' as const
    }
    const events = (await all(client.runs.stream(thread, 'agent', answer))).map(({ event }) => event)
    t.ok(events.includes('events'))
    t.equal((await client.threads.get(thread)).status, 'idle')
  }
)

probe('Studio and langgraph-cli: every address that they ask is there', async (t, { client, person }) => {
  const [assistant] = await client.assistants.search({ graphId: 'nested' })
  const one = `/assistants/${assistant!.assistant_id}`
  const gets = ['/info', '/ok', `${one}/schemas`, `${one}/graph?xray=true`, `${one}/subgraphs`, '/openapi.json']
  for (const path of gets) t.equal((await person.get(path)).status, 200, path)
  const posts = [
    '/assistants/search',
    '/threads/search',
    '/store/namespaces',
    '/store/items/search',
    '/runs/crons/search'
  ]
  for (const path of posts) t.equal((await person.post(path)).status, 200, path)
})

probe('Studio and langgraph-cli: a run streamed as Studio does: debug, messages, subgraphs', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const streamMode = ['debug', 'messages'] as ('debug' | 'messages')[]
  const options = { input: FOO, streamMode, streamSubgraphs: true }
  const debug = (await all(client.runs.stream(thread_id, 'agent', options))).filter(({ event }) => event === 'debug')
  const kinds = debug.map(({ data }) => at(data, 'type'))
  t.equal(kinds.filter((kind) => kind === 'checkpoint').length, 5)
  t.equal(kinds.filter((kind) => kind === 'task').length, 3)
})
