// What a LangGraph project says of its graphs beside their code, and graphs that are made anew for each call.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { TypeSchemaReader } from '../../lib/langgraph/project/graph-schemas.ts'
import { systemAssistantId } from '../../lib/thread/assistants.ts'
import { at, listIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { probes, type Sdk } from '../fixtures/sdk.ts'

/** Graphs whose states are only types. */
const DECLARED = `
  import type { BaseMessage, BaseMessageLike } from '@langchain/core/messages'
  import { Annotation, END, messagesStateReducer, START, StateGraph } from '@langchain/langgraph'

  const Messages = Annotation<BaseMessage[], BaseMessageLike[]>({ reducer: messagesStateReducer, default: () => [] })
  const Input = Annotation.Root({ messages: Messages })
  const Output = Annotation.Root({ ...Input.spec, mood: Annotation<'calm' | 'loud' | undefined>() })
  const State = Annotation.Root({
    ...Output.spec,
    isOpen: Annotation<boolean>(),
    city: Annotation<string | null>(),
    notes: Annotation<{ id: number; tags?: string[]; at: [number, Date] }[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
    sums: Annotation<Record<string, number>>()
  })
  const Config = Annotation.Root({ model: Annotation<string>() })
  const deepest = new StateGraph(Annotation.Root({ depth: Annotation<number>() })).addNode('a', () => ({})).addEdge(START, 'a').compile()
  const inner = new StateGraph(Annotation.Root({ words: Annotation<string[]>() })).addNode('deepest', deepest).addEdge(START, 'deepest').compile()
  const builder = new StateGraph({ stateSchema: State, input: Input, output: Output }, Config)
    .addNode('asking', async (state: typeof State.State) => ({ city: state.city }))
    .addNode('inner', inner)
    .addEdge(START, 'asking')
    .addEdge('asking', 'inner')
    .addEdge('inner', END)
  export const graph = builder.compile()
  export const make = async () => builder
`

/** A project whose environment configures two graphs of three. */
function project(): string {
  const folder = graphsFolder(t, 'newest', {
    teamed: 'named',
    noded: 'named',
    bare: 'named',
    nested: 'nested',
    told: 'told',
    agent: 'graph',
    fan: 'fan',
    declared: 'declared.ts:graph',
    made: 'declared.ts:make'
  })
  writeFileSync(join(folder, 'declared.ts'), DECLARED)
  const file = join(folder, 'langgraph.json')
  const configured = { teamed: { context: { team: 'blue' } }, noded: { configurable: { node: 'configured' } } }
  const given = JSON.parse(readFileSync(file, 'utf8'))
  writeFileSync(file, JSON.stringify({ ...given, env: { LANGGRAPH_CONFIG: JSON.stringify(configured) } }))
  return folder
}

t.teardown(() => void delete process.env.LANGGRAPH_CONFIG)
const probe = probes(t, { config: { agent: { runtime: 'graphs', config: project() } } })
const INPUT = { input: { steps: [] } }
const stepsOf = async (client: Sdk, assistant: string, more: object = {}) =>
  at(await client.runs.wait(null, assistant, { ...INPUT, ...more }), 'steps')

probe(
  'a graph is configured by the environment: its assistant says so, and its runs have it',
  async (t, { client }) => {
    t.match(await client.assistants.get(systemAssistantId('teamed')), { config: {}, context: { team: 'blue' } })
    t.match(await client.assistants.get('noded'), { config: { configurable: { node: 'configured' } } })
    t.match(await client.assistants.get('bare'), { config: {}, context: {} })
    t.same(await stepsOf(client, 'teamed'), ['plain for blue'])
    t.same(await stepsOf(client, 'noded'), ['configured for nobody'])
    t.same(await stepsOf(client, 'bare'), ['plain for nobody'])
  }
)

probe("what a run says, or its assistant, counts against the environment's", async (t, { client }) => {
  t.same(await stepsOf(client, 'teamed', { context: { team: 'red' } }), ['plain for red'])
  t.same(await stepsOf(client, 'noded', { config: { configurable: { node: 'said' } } }), ['said for nobody'])
})

probe(
  "the state of a thread is read and changed by the graph that its run's configuration made",
  async (t, { client }) => {
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, 'bare', { ...INPUT, config: { configurable: { node: 'mine' } } })
    await client.threads.updateState(thread_id, { values: { steps: ['more'] }, asNode: 'mine' })
    t.match(await client.threads.getState(thread_id), { values: { steps: ['mine for nobody', 'more'] }, next: [] })
    const [newest] = await client.threads.getHistory(thread_id)
    t.match(newest, { values: { steps: ['mine for nobody', 'more'] } })
  }
)

probe(
  'an assistant is drawn, and its schemas are told, as its configuration makes its graph',
  async (t, { client }) => {
    const config = { configurable: { node: 'drawn' } }
    const { assistant_id } = await client.assistants.create({ graphId: 'bare', config })
    const { nodes } = await client.assistants.getGraph(assistant_id)
    t.same(nodes.map(({ id }) => id).sort(), ['__end__', '__start__', 'drawn'])
    t.match(await client.assistants.getSchemas(assistant_id), { graph_id: 'bare' })
    t.same(await client.assistants.getSubgraphs(assistant_id), {})
  }
)

probe('schemas of a graph whose state is only a type are read from its source', async (t, { client }) => {
  const messages = { type: 'array', items: { $ref: '#/definitions/BaseMessage' } }
  const notes = { id: { type: 'number' }, tags: { type: 'array', items: { type: 'string' } } }
  const state = {
    messages,
    mood: { type: 'string', enum: ['calm', 'loud'] },
    isOpen: { type: 'boolean' },
    city: { anyOf: [{ type: 'null' }, { type: 'string' }] },
    notes: { type: 'array', items: { type: 'object', properties: notes } },
    sums: { type: 'object', additionalProperties: { type: 'number' } }
  }
  for (const name of ['declared', 'made']) {
    const ask = () => client.assistants.getSchemas(name)
    // A machine that is busy with others takes longer to read them than who asks first waits.
    await until(async () => at(await ask(), 'state_schema', 'properties', 'city', 'anyOf') !== undefined, 'its types')
    const schemas = await ask()
    t.match(at(schemas, 'state_schema', 'properties'), state)
    t.ok(at(schemas, 'state_schema', 'definitions', 'BaseMessage'), 'what is named is defined')
    t.same(at(schemas, 'input_schema', 'properties'), { messages })
    t.same(Object.keys(at(schemas, 'output_schema', 'properties') as object).sort(), ['messages', 'mood'])
    t.same(at(schemas, 'config_schema', 'properties'), { model: { type: 'string' } })
    t.same(at(schemas, 'context_schema'), at(schemas, 'config_schema'))
  }
})

/** A compiler that takes as long as it is let. */
const HELD = `
  const { existsSync } = require('node:fs')
  while (!existsSync(__dirname + '/go')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  module.exports = require(REAL)
`
const COMPILER = fileURLToPath(new URL('../../../node_modules/typescript/lib/typescript.js', import.meta.url))

t.test('types that take longer to read than who asks first waits are there for who asks next', async (t) => {
  const folder = graphsFolder(t, 'newest', { declared: 'declared.ts:graph' })
  const file = join(folder, 'declared.ts')
  writeFileSync(file, DECLARED)
  const compiler = join(folder, 'node_modules', 'typescript')
  mkdirSync(compiler)
  writeFileSync(join(compiler, 'index.js'), HELD.replace('REAL', JSON.stringify(COMPILER)))
  const reader = new TypeSchemaReader(100)
  t.strictSame(await reader.of(file, 'graph'), {}, 'nothing yet')
  writeFileSync(join(compiler, 'go'), '')
  await until(
    async () => at(await reader.of(file, 'graph'), '', 'state', 'properties', 'city') !== undefined,
    'its types'
  )
})

probe('each subgraph has the schemas of its own state, however deep it lies', async (t, { client }) => {
  const subgraphs = await client.assistants.getSubgraphs('declared', { recurse: true })
  const words = { properties: { words: { type: 'array', items: { type: 'string' } } } }
  t.match(subgraphs, {
    inner: { state: words, state_schema: words },
    'inner|deepest': { state: { properties: { depth: { type: 'number' } } } }
  })
})

probe('checkpoints of a stream are those of the history, member by member', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const streamed: unknown[] = []
  for await (const { event, data } of client.runs.stream(thread_id, 'bare', { ...INPUT, streamMode: 'debug' }))
    if (event === 'debug' && at(data, 'type') === 'checkpoint') streamed.push(at(data, 'payload'))
  const placesOf = (list: unknown[]) =>
    list.map((entry) => [at(entry, 'metadata', 'step'), at(entry, 'checkpoint'), at(entry, 'parent_checkpoint')])
  t.equal(streamed.length, 3)
  t.same(placesOf(streamed), placesOf((await client.threads.getHistory(thread_id)).reverse()))
  t.same(at(await client.threads.getState(thread_id), 'checkpoint'), at(streamed.at(-1), 'checkpoint'))
})

probe('a task that is a graph says where its states are, and no more: the newest is meant', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, 'nested', { input: { messages: [] }, interruptBefore: ['weather_graph'] })
  const { tasks } = await client.threads.getState(thread_id)
  t.equal(tasks.length, 1)
  const { checkpoint } = tasks[0]!
  t.same(Object.keys(checkpoint ?? {}).sort(), ['checkpoint_ns', 'thread_id'])
  t.match(await client.threads.getState(thread_id, checkpoint!), { values: {} })
})

probe(
  'a task that is a graph names its place in a stream, with what is not said of it as nothing',
  async (t, { client }) => {
    const { thread_id } = await client.threads.create()
    const stream = client.runs.stream(thread_id, 'nested', { input: { messages: [] }, streamMode: 'debug' })
    const places: unknown[] = []
    for await (const { data } of stream) places.push(at(data, 'payload', 'tasks', 0, 'checkpoint'))
    t.match(
      places.find((place) => place !== undefined),
      { thread_id, checkpoint_ns: /^weather_graph:/, checkpoint_id: null, checkpoint_map: null }
    )
  }
)

probe('a channel of messages has the schema of messages, also where nothing else is typed', async (t, { client }) => {
  const { state_schema, input_schema } = await client.assistants.getSchemas('agent')
  const names =
    'BaseMessageChunk ToolMessage AIMessage ChatMessage FunctionMessage HumanMessage SystemMessage RemoveMessage'
  const wanted = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: { messages: { type: 'array', items: { $ref: '#/definitions/BaseMessage' } } },
    definitions: { BaseMessage: { oneOf: names.split(' ').map((name) => ({ $ref: `#/definitions/${name}` })) } }
  }
  t.match(state_schema, wanted)
  t.match(input_schema, wanted)
  t.same(Object.keys(at(state_schema, 'properties') as object).sort(), ['asked', 'messages', 'sharedState'])
  for (const name of names.split(' ')) t.ok(at(state_schema, 'definitions', name), name)
  t.notMatch(await client.assistants.getSchemas('fan'), { state_schema: { properties: { steps: { items: {} } } } })
})

probe("graphs find the request's headers in their configuration, and no credential", async (t, { person, version }) => {
  const path = ['/runs/wait', '/api/runs/wait'][Number(version === '2.0.0')]!
  const headers = {
    ...person.headers(),
    'x-mine': 'yes',
    'x-api-key': 'secret',
    'x-forwarded-for': '1.2.3.4',
    'user-agent': 'me/1'
  }
  const body = JSON.stringify({
    assistant_id: 'told',
    input: { steps: [] },
    config: { configurable: { word: 'said' } }
  })
  const type = { 'content-type': 'application/json' }
  const answer = await fetch(person.url + path, { method: 'POST', headers: { ...headers, ...type }, body })
  t.strictSame(listIn(await answer.json(), 'steps'), ['user-agent: me/1', 'word: said', 'x-mine: yes'])
})
