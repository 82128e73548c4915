// Assistants as LangGraph's clients use them: every method and option, with every version of the client.
import t from 'tap'
import { systemAssistantId } from '../../lib/thread/assistants.ts'
import { listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { probes, refusal, sdkOf } from '../fixtures/sdk.ts'

const SYSTEM = systemAssistantId('lead_agent')
const probe = probes(t)

t.test('the id of a graph is the one that LangGraph gives it', async (t) => {
  // As uuid.v5('agent', NAMESPACE_GRAPH) of its server.
  t.equal(systemAssistantId('agent'), 'fe096781-5601-53d2-b2f6-0d3403f7e9ca')
})

probe('search lists the graphs, each with an assistant of the system', async (t, { client }) => {
  const found = await client.assistants.search({ graphId: 'lead_agent' })
  t.match(found, [{ assistant_id: SYSTEM, graph_id: 'lead_agent', metadata: { created_by: 'system' }, version: 1 }])
  t.same(await client.assistants.search({ graphId: 'other' }), [])
})

probe('get by id, and by the name of a graph', async (t, { client }) => {
  t.match(await client.assistants.get('lead_agent'), { assistant_id: SYSTEM, graph_id: 'lead_agent' })
  t.match(await client.assistants.get(SYSTEM), { name: 'lead_agent', config: {} })
  t.equal(await refusal(client.assistants.get('nobody')), 404)
})

t.test(
  "what is not found is said at the root as LangGraph's server says it, and as ours everywhere else",
  async (t) => {
    const person = await signIn(await openSite(t))
    const told = async (path: string, headers: Record<string, string> = {}) =>
      (await person.get(path, { headers })).text
    t.equal(await told('/assistants/nobody'), 'Assistant not found')
    const ours = '{"detail":"Assistant not found"}'
    t.equal(await told('/api/assistants/nobody'), ours)
    t.equal(await told('/api/langgraph/assistants/nobody'), ours)
    t.equal(await told('/assistants/nobody', { accept: 'application/json' }), ours)
    const python = { 'user-agent': 'langgraph-sdk-py/0.4' }
    t.equal(await told('/assistants/nobody', python), ours)
    const thread = crypto.randomUUID()
    for (const path of [`/threads/${thread}`, `/threads/${thread}/state`])
      t.equal(await told(path), `Thread with ID ${thread} not found`)
    t.equal(await told(`/api/threads/${thread}`), `{"detail":"Thread ${thread} not found"}`)
    const item = '/store/items?namespace=a&key=none'
    t.equal(await told(item), 'null', 'which this client takes for a missing item')
    t.equal((await person.get(item, { headers: python })).status, 404)
  }
)

probe('create, get, update, delete', async (t, { client }) => {
  const made = await client.assistants.create({
    graphId: 'lead_agent',
    name: 'Poet',
    description: 'writes verse',
    config: { configurable: { model_name: 'demo' } },
    context: { mood: 'calm' },
    metadata: { team: 'red' }
  })
  t.match(made, { name: 'Poet', description: 'writes verse', version: 1, metadata: { team: 'red' } })
  t.match(made, { config: { configurable: { model_name: 'demo' } }, context: { mood: 'calm' } })
  const id = made.assistant_id
  t.same(await client.assistants.get(id), made)
  const updated = await client.assistants.update(id, { graphId: 'lead_agent', name: 'Critic', metadata: { age: 4 } })
  t.match(updated, { name: 'Critic', version: 2, metadata: { team: 'red', age: 4 }, context: { mood: 'calm' } })
  await client.assistants.delete(id)
  t.equal(await refusal(client.assistants.get(id)), 404)
  t.equal(await refusal(client.assistants.delete(id)), 404)
})

probe('an id that is taken is 409, or answered with ifExists', async (t, { client }) => {
  const assistantId = crypto.randomUUID()
  const first = await client.assistants.create({ graphId: 'lead_agent', assistantId, name: 'First' })
  t.equal(first.assistant_id, assistantId)
  t.equal(await refusal(client.assistants.create({ graphId: 'lead_agent', assistantId })), 409)
  t.equal(await refusal(client.assistants.create({ graphId: 'lead_agent', assistantId, ifExists: 'raise' })), 409)
  t.same(await client.assistants.create({ graphId: 'lead_agent', assistantId, ifExists: 'do_nothing' }), first)
  t.equal(await refusal(client.assistants.create({ graphId: 'lead_agent', assistantId: SYSTEM })), 409)
  t.equal(await refusal(client.assistants.create({ graphId: 'none' })), 404)
})

probe('search by metadata, also nested, by name, sorted, in pages, with chosen fields', async (t, { client }) => {
  for (const name of ['anna', 'Bert', 'carl'])
    await client.assistants.create({ graphId: 'lead_agent', name, metadata: { team: { color: 'red', of: [name] } } })
  const names = async (query: object) => (await client.assistants.search(query)).map(({ name }) => name)
  const metadata = { team: { color: 'red' } }
  t.same(await names({ metadata }), ['carl', 'Bert', 'anna'])
  t.same(await names({ metadata, sortBy: 'name', sortOrder: 'asc' }), ['Bert', 'anna', 'carl'])
  t.same(await names({ metadata: { team: { of: ['Bert'] } } }), ['Bert'])
  t.same(await names({ metadata, limit: 1, offset: 1 }), ['Bert'])
  t.same(await names({ metadata: { team: { color: 'blue' } } }), [])
  t.match(await client.assistants.search({ metadata, select: ['name'], limit: 1 }), [{ name: 'carl' }])
})

probe('count, search by name and pages', async (t, { client }) => {
  t.equal(await client.assistants.count({ graphId: 'lead_agent' }), 1)
  await client.assistants.create({ graphId: 'lead_agent', name: 'Poet laureate' })
  t.equal(await client.assistants.count({ name: 'LAUREATE' }), 1)
  t.equal(await client.assistants.count(), 2)
  const page = await client.assistants.search({ limit: 1, includePagination: true })
  t.match(page, { assistants: [{ name: 'Poet laureate' }], next: '1' })
  t.match(await client.assistants.search({ limit: 1, offset: 1, includePagination: true }), { next: null })
})

probe('getVersions, setLatest', async (t, { client }) => {
  const { assistant_id } = await client.assistants.create({ graphId: 'lead_agent', name: 'One', metadata: { n: 1 } })
  await client.assistants.update(assistant_id, { name: 'Two', metadata: { n: 2 } })
  const versions = await client.assistants.getVersions(assistant_id)
  t.same(
    versions.map(({ version, name }) => [version, name]),
    [
      [2, 'Two'],
      [1, 'One']
    ]
  )
  t.match(await client.assistants.getVersions(assistant_id, { metadata: { n: 1 } }), [{ version: 1 }])
  t.match(await client.assistants.getVersions(assistant_id, { limit: 1, offset: 1 }), [{ version: 1 }])
  t.match(await client.assistants.setLatest(assistant_id, 1), { version: 1, name: 'One' })
  t.match(await client.assistants.get(assistant_id), { version: 1, name: 'One', metadata: { n: 1 } })
  t.equal(await refusal(client.assistants.setLatest(assistant_id, 9)), 404)
})

probe('getGraph, getSchemas, getSubgraphs', async (t, { client }) => {
  const graph = await client.assistants.getGraph('lead_agent')
  t.match(graph.nodes, [{ id: '__start__' }, { id: 'agent' }, { id: 'tools' }, { id: '__end__' }])
  t.match((await client.assistants.getGraph(SYSTEM, { xray: true })).edges[0], { source: '__start__', target: 'agent' })
  t.match(await client.assistants.getSchemas('lead_agent'), {
    graph_id: 'lead_agent',
    state_schema: { type: 'object' }
  })
  t.same(await client.assistants.getSubgraphs('lead_agent'), {})
  t.same(await client.assistants.getSubgraphs('lead_agent', { namespace: 'worker', recurse: true }), {})
})

probe("a run of an assistant has its configuration, and its caller's over it", async (t, { client }) => {
  const { assistant_id } = await client.assistants.create({
    graphId: 'lead_agent',
    config: { tags: ['a'], configurable: { mood: 'calm', size: 1 } },
    context: { tone: 'low', size: 2 },
    metadata: { team: 'red' }
  })
  const { thread_id } = await client.threads.create()
  const input = { messages: [{ role: 'user', content: '/demo deltas=1 rate=0' }] }
  const run = await client.runs.create(thread_id, assistant_id, { input, config: { configurable: { size: 3 } } })
  t.match(run, { assistant_id, metadata: { team: 'red' } })
  t.match(run, { kwargs: { config: { tags: ['a'], configurable: { mood: 'calm', size: 3 } } } })
  await client.runs.join(thread_id, run.run_id)
  const thread = await client.threads.get(thread_id)
  t.match(thread.metadata, { graph_id: 'lead_agent', assistant_id })
  t.match(await client.threads.search({ metadata: { assistant_id } }), [{ thread_id }])
})

probe('an assistant that is not there: 404', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  t.equal(await refusal(client.runs.create(thread_id, crypto.randomUUID(), { input: {} })), 404)
})

probe('delete with deleteThreads takes the threads along, and no others', async (t, { client }) => {
  const { assistant_id } = await client.assistants.create({ graphId: 'lead_agent' })
  const input = { messages: [{ role: 'user', content: '/demo deltas=1 rate=0' }] }
  const threads = [await client.threads.create(), await client.threads.create()]
  await client.runs.wait(threads[0]!.thread_id, assistant_id, { input })
  await client.runs.wait(threads[1]!.thread_id, 'lead_agent', { input })
  await client.assistants.delete(assistant_id, { deleteThreads: true })
  t.equal(await refusal(client.threads.get(threads[0]!.thread_id)), 404)
  t.match(await client.threads.get(threads[1]!.thread_id), { metadata: { graph_id: 'lead_agent' } })
})

probe("the system's assistants are everybody's and nobody changes them", async (t, { client }) => {
  t.equal(await refusal(client.assistants.update(SYSTEM, { name: 'mine' })), 409)
  t.equal(await refusal(client.assistants.delete(SYSTEM)), 409)
  t.match(await client.assistants.getVersions(SYSTEM), [{ version: 1 }])
  t.match(await client.assistants.setLatest(SYSTEM, 1), { version: 1 })
})

probe('an assistant is its user’s: to others it does not exist, and no run of theirs is with it', async (t, given) => {
  const { client, person, version } = given
  const made = await client.assistants.create({ graphId: 'lead_agent', context: { secret: 'mine' } })
  const stranger = await signIn(person)
  const other = await sdkOf(stranger, version)
  const id = made.assistant_id
  for (const asked of [
    () => other.assistants.get(id),
    () => other.assistants.update(id, { name: 'theirs' }),
    () => other.assistants.delete(id),
    () => other.assistants.getVersions(id),
    () => other.assistants.setLatest(id, 1),
    () => other.assistants.getGraph(id),
    async () => other.runs.create((await other.threads.create()).thread_id, id, { input: {} })
  ])
    t.equal(await refusal(asked()), 404, String(asked))
  t.equal(
    await refusal(other.assistants.create({ graphId: 'lead_agent', assistantId: id, ifExists: 'do_nothing' })),
    409
  )
  t.same(await client.assistants.get(id), made)
  const search = await stranger.post('/api/assistants/search', {})
  t.notMatch(search.text, 'mine')
  t.equal(textIn(search.body, 0, 'assistant_id'), SYSTEM)
})

t.test('an assistant of the lead agent has instructions, tools and a model of its own, in versions', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const named = (name: string) => ({ name, model: name, base_url: model.baseUrl, api_key: 'none' })
  const off = { enabled: false }
  const site = await openSite(t, { config: { models: ['main', 'other'].map(named), memory: off, title: off } })
  const person = await signIn(site)
  for (const version of ['1.5.3', '1.12.4', '1.15.0', '2.0.0'] as const)
    await t.test(version, async (t) => {
      const client = await sdkOf(person, version)
      /** What the model is asked for a run of the assistant. */
      const askedBy = async (assistant: string) => {
        const { thread_id } = await client.threads.create()
        const input = { messages: [{ role: 'user', content: scripted({ text: 'yes' }) }] }
        await client.runs.wait(thread_id, assistant, { input })
        const { body, messages } = model.requests.at(-1)!
        return { model: body.model, tools: body.tools, system: String(messages[0]?.content) }
      }
      const context = { instructions: 'Answer in verse.', tools: ['ask_user'], model_name: 'other' }
      const { assistant_id } = await client.assistants.create({ graphId: 'lead_agent', name: 'Poet', context })
      const first = await askedBy(assistant_id)
      t.match(first, { model: 'other', tools: [{ function: { name: 'ask_user' } }], system: /Answer in verse\.$/ })
      t.equal(listIn(first.tools).length, 1)
      const edited = { context: { instructions: 'Answer in prose.', tools: [], model_name: 'main' } }
      t.match(await client.assistants.update(assistant_id, edited), { version: 2 })
      t.match(await askedBy(assistant_id), { model: 'main', tools: undefined, system: /Answer in prose\.$/ })
      await client.assistants.setLatest(assistant_id, 1)
      t.match(await askedBy(assistant_id), { model: 'other', system: /Answer in verse\.$/ })
      t.notMatch((await askedBy('lead_agent')).system, /Answer in/)
    })
})
