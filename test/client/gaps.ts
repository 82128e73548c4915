// What LangGraph's clients ask of graphs, a probe a line of the list on which they fell short once, with every version of the client. The
// lines that need no graph are proved beside their subjects.
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { at, listIn, openSite, textIn, until } from '../fixtures/gateway.ts'
import { all, type Chunk, graphsFolder } from '../fixtures/graphs.ts'
import { probes, refusal, type Sdk } from '../fixtures/sdk.ts'

const FOO = { messages: [{ type: 'human', content: 'foo', id: 'foo' }] }
const ALL = ['foo', 'begin', 'tool_call__begin', 'end']
const ASKING = { configurable: { ask: 'interrupt' } }
/** A run that hangs in its third step, until it is told to stop. */
const HANGING = { input: { steps: [] }, config: { configurable: { count: 5, hang: 2 } } }

const contents = (values: unknown) => listIn(values, 'messages').map((one) => at(one, 'content'))
const probe = probes(
  t,
  {
    config: {
      runs: { disconnect_grace_ms: 50 },
      agent: { runtime: 'graphs', config: graphsFolder(t) },
      webhooks: { allowed_networks: ['127.0.0.0/8'], retry_ms: 20 }
    }
  },
  true
)

const newThread = async (client: Sdk): Promise<string> => (await client.threads.create()).thread_id

/** A thread with a turn of the graph in it. */
async function ran(client: Sdk, more: object = {}, graph = 'agent'): Promise<string> {
  const thread = await newThread(client)
  await client.runs.wait(thread, graph, { input: FOO, ...more })
  return thread
}

const said = async (client: Sdk, thread: string) => contents((await client.threads.getState(thread)).values)

async function streamed(client: Sdk, graph: string, options: object): Promise<Chunk[]> {
  const thread = await newThread(client)
  return all(client.runs.stream(thread, graph, { input: FOO, ...options }))
}

const dataOf = (chunks: readonly Chunk[], name: string) =>
  chunks.filter(({ event }) => event === name).map(({ data }) => data)

// --------------------------------------------------------------------------------------------- states and histories

probe('state: subgraphs: the state inside of a task', async (t, { client }) => {
  const thread = await ran(client, { config: ASKING }, 'nested')
  const state = await client.threads.getState(thread, undefined, { subgraphs: true })
  t.match(state.tasks, [
    { name: 'weather_graph', state: { values: { city: 'San Francisco' }, next: ['weather_node'] } }
  ])
})

probe('state: update: a message is added to those that are there', async (t, { client }) => {
  const thread = await ran(client)
  await client.threads.updateState(thread, { values: { messages: [{ type: 'human', content: 'more' }] } })
  t.same(await said(client, thread), [...ALL, 'more'])
})

probe('state: update: a message with a known id takes the place of it', async (t, { client }) => {
  const thread = await ran(client)
  await client.threads.updateState(thread, { values: { messages: [{ type: 'human', content: 'edited', id: 'foo' }] } })
  t.same(await said(client, thread), ['edited', ...ALL.slice(1)])
})

probe('state: update: {type: remove} takes a message out', async (t, { client }) => {
  const thread = await ran(client)
  await client.threads.updateState(thread, { values: { messages: [{ type: 'remove', id: 'foo' }] } })
  t.same(await said(client, thread), ALL.slice(1))
})

probe('state: update: a run goes on from what asNode leads to', async (t, { client }) => {
  const thread = await ran(client, { interruptBefore: ['tool'] })
  const messages = [{ type: 'tool', content: 'by hand', tool_call_id: 'call', id: 'tool' }]
  await client.threads.updateState(thread, { values: { messages }, asNode: 'tool' })
  t.same((await client.threads.getState(thread)).next, ['agent'])
  t.same(contents(await client.runs.wait(thread, 'agent', { input: null })), ['foo', 'begin', 'by hand', 'end'])
})

probe('state: update: values null as __end__ ends an interrupted thread (agent-inbox: ignore)', async (t, given) => {
  const { client } = given
  const thread = await ran(client, { config: ASKING })
  t.equal((await client.threads.get(thread)).status, 'interrupted')
  await client.threads.updateState(thread, { values: null, asNode: '__end__' })
  t.same((await client.threads.getState(thread)).next, [])
  t.equal((await client.threads.get(thread)).status, 'idle')
})

probe('state: tasks have an id, a path, interrupts, a checkpoint, a state and a result', async (t, { client }) => {
  const nothing = { error: null, interrupts: [], checkpoint: null, state: null, result: null }
  const waiting = await client.threads.getState(await ran(client, { interruptBefore: ['tool'] }))
  t.equal(waiting.tasks.length, 1)
  const { id, ...shape } = waiting.tasks[0]!
  t.match(id, /^[\da-f-]{36}$/)
  t.strictSame(shape, { ...nothing, name: 'tool', path: ['__pregel_pull', 'tool'] })
  const [, before] = await client.threads.getHistory(await ran(client))
  t.match(
    before!.tasks,
    [{ ...nothing, name: 'agent', result: { messages: [{ content: 'end' }] } }],
    'what a step gave'
  )
})

probe('history: newest first, one checkpoint a superstep (5 for agent, tool, agent)', async (t, { client }) => {
  const history = await client.threads.getHistory(await ran(client))
  t.same(
    history.map(({ next }) => next),
    [[], ['agent'], ['tool'], ['agent'], ['__start__']]
  )
})

probe('history: next names the nodes of the graph', async (t, { client }) => {
  const history = await client.threads.getHistory(await ran(client, { config: ASKING }, 'nested'))
  t.same(
    history.map(({ next }) => next),
    [['weather_graph'], ['router_node'], ['__start__']]
  )
})

probe('history: of a thread without runs is empty', async (t, { client }) => {
  t.same(await client.threads.getHistory(await newThread(client)), [])
})

probe('history: every entry has its messages', async (t, { client }) => {
  const history = await client.threads.getHistory(await ran(client))
  t.same(
    history.map(({ values }) => contents(values).length),
    [4, 3, 2, 1, 0]
  )
})

probe('history: metadata as a filter; metadata of a run stands in its checkpoints', async (t, { client }) => {
  const thread = await ran(client, { metadata: { mine: 'x' } })
  await client.runs.wait(thread, 'agent', { input: FOO, metadata: { mine: 'y' } })
  const found = await client.threads.getHistory(thread, { metadata: { mine: 'x' } })
  t.equal(found.length, 5)
  t.same([...new Set(found.map(({ metadata }) => at(metadata, 'mine')))], ['x'])
})

probe('state and history: select says which parts', async (t, { client, person, version }) => {
  const thread = await ran(client)
  const select = ['values.sharedState', 'next']
  const state = { values: { sharedState: 3 }, next: [] }
  const path = `/api/threads/${thread}`
  t.same((await person.get(`${path}/state?select=values.sharedState&select=next`)).body, state)
  const { checkpoint } = await client.threads.getState(thread)
  t.same((await person.post(`${path}/state/checkpoint`, { checkpoint, select })).body, state)
  t.same(listIn((await person.post(`${path}/history`, { select, limit: 1 })).body), [state])
  t.same((await person.post(`${path}/history`, { select: ['values'] })).status, 200)
  t.equal((await person.post(`${path}/history`, { select: [1] })).status, 422)
  if (version !== '1.15.0') return
  t.same(await client.threads.getState(thread, undefined, { select } as object), state)
  t.same(await client.threads.getState(thread, textIn(checkpoint, 'checkpoint_id'), { select } as object), state)
  t.same(await client.threads.getHistory(thread, { select, limit: 1 } as object), [state])
})

// ------------------------------------------------------------------------------------------------------ stream modes

probe('stream modes: events', async (t, { client }) => {
  const events = dataOf(await streamed(client, 'agent', { streamMode: ['events', 'values'] }), 'events')
  const names = new Set(events.map((one) => at(one, 'event')))
  for (const name of ['on_chain_start', 'on_chat_model_stream', 'on_chain_end']) t.ok(names.has(name), name)
})

const TOLD_MESSAGES = [
  ['complete', 'foo'],
  ...['b', 'be', 'beg', 'begi', 'begin'].map((text) => ['partial', text]),
  ['complete', 'begin'],
  ['complete', 'tool_call__begin'],
  ...['e', 'en', 'end'].map((text) => ['partial', text]),
  ['complete', 'end']
]

probe(
  'stream modes: messages: the input is complete too, a partial a piece, in order, none empty',
  async (t, given) => {
    const chunks = await streamed(given.client, 'agent', { streamMode: 'messages' })
    const told = chunks.filter(({ event }) => /^messages\/(partial|complete)$/.test(event))
    const kindOf = (event: string) => event.replace('messages/', '')
    t.strictSame(
      told.map(({ event, data }) => [kindOf(event), at(data, 0, 'content')]),
      TOLD_MESSAGES
    )
    t.equal(chunks.filter(({ event }) => event === 'messages/metadata').length, 2)
  }
)

probe('stream modes: tasks, checkpoints, debug, custom', async (t, { client }) => {
  const chunks = await streamed(client, 'agent', { streamMode: ['tasks', 'checkpoints', 'debug', 'custom'] })
  const tasks = dataOf(chunks, 'tasks')
  t.same(
    tasks.map((task) => [at(task, 'name'), 'input' in (task as object)]),
    ['agent', 'tool', 'agent'].flatMap((name) => [
      [name, true],
      [name, false]
    ])
  )
  const steps = dataOf(chunks, 'checkpoints').map((one) => at(one, 'metadata', 'step'))
  t.same(steps, [-1, 0, 1, 2, 3])
  const kinds = dataOf(chunks, 'debug').map((one) => at(one, 'type'))
  const counts = ['checkpoint', 'task', 'task_result'].map((kind) => kinds.filter((one) => one === kind).length)
  t.same(counts, [5, 3, 3])
  t.same(dataOf(chunks, 'custom'), [{ at: 'agent' }, { at: 'agent' }])
})

probe('stream modes: a graph without messages is given none; the last chunk has its values', async (t, { client }) => {
  const chunks = await streamed(client, 'typed', { input: { question: 'x' }, streamMode: ['updates', 'values'] })
  const last = chunks.at(-1)
  t.same([last?.event, last?.data], ['values', { question: 'x', sum: 3 }], 'no frame of ours comes behind it')
  t.notMatch(JSON.stringify(chunks), /"messages"/)
})

probe('stream modes: tools', async (t, { client }) => {
  const told = dataOf(await streamed(client, 'typed', { input: { question: 'x' }, streamMode: 'tools' }), 'tools')
  t.match(
    told.map((one) => [at(one, 'event'), at(one, 'name')]),
    [
      ['on_tool_start', 'add'],
      ['on_tool_end', 'add']
    ]
  )
})

probe('stream modes: updates: channels other than messages', async (t, { client }) => {
  const updates = dataOf(await streamed(client, 'nested', { streamMode: 'updates' }), 'updates')
  t.same(updates[0], { router_node: { route: 'weather' } })
})

probe('stream modes: updates: a node that waits at a breakpoint has written nothing', async (t, { client }) => {
  const options = { streamMode: 'updates', interruptBefore: ['weather_graph'] }
  const updates = dataOf(await streamed(client, 'nested', options), 'updates')
  t.same(
    updates.map((one) => Object.keys(one as object)),
    [['router_node'], ['__interrupt__']]
  )
})

probe(
  "stream modes: messages-tuple: each piece once, and the tool's message; langgraph_node is the node that speaks",
  async (t, { client }) => {
    const told = dataOf(await streamed(client, 'agent', { streamMode: 'messages-tuple' }), 'messages')
    t.same(
      told.map((tuple) => at(tuple, 0, 'content')).filter((text) => text !== ''),
      ['b', 'e', 'g', 'i', 'n', 'tool_call__begin', 'e', 'n', 'd']
    )
    t.same([...new Set(told.map((tuple) => at(tuple, 1, 'langgraph_node')))], ['agent', 'tool'])
  }
)

probe('stream modes: streamSubgraphs: names of events bear the subgraph', async (t, { client }) => {
  const options = { streamMode: ['updates', 'values'], streamSubgraphs: true }
  const events = (await streamed(client, 'nested', options)).map(({ event }) => event.replace(/:[^|]+/g, ''))
  for (const name of ['updates|weather_graph', 'values|weather_graph', 'values']) t.ok(events.includes(name), name)
})

probe('stream modes: feedbackKeys', async (t, { client, person }) => {
  const chunks = await streamed(client, 'agent', { streamMode: 'values', feedbackKeys: ['score', 'a/b c'] })
  const urls = chunks.at(-1)
  t.equal(urls?.event, 'feedback')
  t.same(Object.keys(urls?.data as object), ['score', 'a/b c'])
  const put = (key: string, body: object) => person.ask('PUT', textIn(urls?.data, key), { body })
  t.match((await put('score', { rating: 1 })).body, { rating: 1 })
  const { run_id } = chunks[0]?.data as { run_id: string }
  t.match((await person.get(`/api/runs/${run_id}/feedback`)).body, [{ rating: 1 }])
  const refused = await refusal(all(client.runs.stream(null, 'agent', { feedbackKeys: ['x'.repeat(300)] })))
  t.equal(refused, 422)
})

probe('stream: joinStream with cancelOnDisconnect ends the run when the reader goes', async (t, { client }) => {
  const thread = await newThread(client)
  const { run_id } = await client.runs.create(thread, 'steps', { ...HANGING, streamMode: 'values' })
  const away = new AbortController()
  const reading = (async () => {
    const options = { cancelOnDisconnect: true, signal: away.signal }
    for await (const { event } of client.runs.joinStream(thread, run_id, options)) if (event === 'values') away.abort()
  })().catch(() => {})
  await reading
  await until(async () => (await client.runs.get(thread, run_id)).status === 'interrupted', 'the run is over')
  t.match(await client.threads.get(thread), { values: { steps: ['step 0', 'step 1'] } }, 'what it had done stays')
})

probe('stream: threads.joinStream: all runs of a thread', async (t, { client }) => {
  const thread = await newThread(client)
  const away = new AbortController()
  const events: string[] = []
  const reading = (async () => {
    const options = { lastEventId: '-1', signal: away.signal }
    for await (const { event, data } of client.threads.joinStream(thread, options)) {
      if (event === 'metadata' && at(data, 'status') === 'run_done') events.push('done')
      if (event === 'values') events.push(String(contents(data).at(-1)))
    }
  })().catch(() => {})
  await client.runs.wait(thread, 'agent', { input: FOO })
  await until(() => events.filter((one) => one === 'done').length === 1, 'the first run is told')
  await client.runs.wait(thread, 'agent', { input: { messages: [{ type: 'human', content: 'bar' }] } })
  await until(() => events.filter((one) => one === 'done').length === 2, 'the second run is told')
  away.abort()
  await reading
  t.same(events, [...ALL, 'done', 'bar', 'begin', 'tool_call__begin', 'end', 'done'])
})

// -------------------------------------------------------------------------------------------------------------- runs

probe('runs: wait: a failing graph throws its name and text; raiseError false gives __error__', async (t, given) => {
  const { client } = given
  const thread = await newThread(client)
  await t.rejects(client.runs.wait(thread, 'error', { input: FOO }), { message: 'CustomError: Boo!' })
  const shown = await client.runs.wait(thread, 'error', { input: FOO, raiseError: false })
  t.match(shown, { __error__: { error: 'CustomError', message: 'Boo!' } })
  t.equal((await client.threads.get(thread)).status, 'error')
})

probe('runs: cancel: rollback removes the run, and what it has written', async (t, { client }) => {
  const thread = await newThread(client)
  await client.runs.wait(thread, 'steps', { input: { steps: [] }, config: { configurable: { count: 1 } } })
  const before = await client.threads.getHistory(thread)
  const { run_id } = await client.runs.create(thread, 'steps', HANGING)
  const stepsOf = async () => listIn((await client.threads.getState(thread)).values, 'steps').length
  await until(async () => (await stepsOf()) === 2, 'a step of it')
  await client.runs.cancel(thread, run_id, true, 'rollback')
  t.equal(await refusal(client.runs.get(thread, run_id)), 404)
  t.same(await client.threads.getHistory(thread), before)
})

probe('runs: cancelMany', async (t, { client, person }) => {
  const thread = await newThread(client)
  const { run_id } = await client.runs.create(thread, 'steps', HANGING)
  if ('cancelMany' in client.runs) await client.runs.cancelMany({ threadId: thread, runIds: [run_id] })
  else t.equal((await person.post('/api/runs/cancel', { thread_id: thread, run_ids: [run_id] })).status, 204)
  await until(async () => (await client.runs.get(thread, run_id)).status === 'interrupted', 'it is cancelled')
})

probe('multitask: rollback removes the first run', async (t, { client }) => {
  const thread = await newThread(client)
  const first = await client.runs.create(thread, 'steps', HANGING)
  const second = { input: { steps: [] }, multitaskStrategy: 'rollback' as const }
  t.match(await client.runs.wait(thread, 'steps', second), { steps: ['step 0', 'step 1', 'step 2'] })
  await until(async () => (await refusal(client.runs.get(thread, first.run_id))) === 404, 'it is gone')
})

probe('runs: webhook is called when the run is over', async (t, { client }) => {
  const told: unknown[] = []
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    told.push(JSON.parse(Buffer.concat(chunks).toString()))
    res.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  await client.runs.wait(await newThread(client), 'agent', { input: FOO, webhook })
  await until(() => told.length === 1, 'it is called')
  t.match(told, [{ status: 'success', values: { messages: ALL.map((content) => ({ content })) } }])
})

probe('runs: afterSeconds: pending until then', async (t, { client }) => {
  const thread = await newThread(client)
  const { run_id, status } = await client.runs.create(thread, 'agent', { input: FOO, afterSeconds: 0.5 })
  t.equal(status, 'pending')
  t.same(contents(await client.runs.join(thread, run_id)), ALL)
})

probe('runs: config.recursion_limit counts supersteps', async (t, { client }) => {
  const run = (recursion_limit: number) => ran(client, { config: { recursion_limit } })
  await t.rejects(run(1), { message: /^GraphRecursionError: / })
  t.same(await said(client, await run(5)), ALL)
})

probe(
  'runs: messages as LangChain writes its own objects (new HumanMessage), as pairs, as a text',
  async (t, given) => {
    const { client } = given
    const id = ['langchain_core', 'messages', 'HumanMessage']
    const written = { lc: 1, type: 'constructor', id, kwargs: { content: 'foo' } }
    for (const messages of [
      [written],
      [['human', 'foo']],
      [['user', 'foo']],
      [{ role: 'user', content: 'foo' }],
      'foo'
    ])
      t.same(await said(client, await ran(client, { input: { messages } })), ALL, JSON.stringify(messages).slice(0, 30))
  }
)

probe('runs: messages that are plain texts in the state (a list of strings)', async (t, { client }) => {
  const thread = await ran(client, { input: { messages: ['x'] } }, 'texts')
  t.same((await client.threads.getState(thread)).values, { messages: ['x', 'you said x'] })
})

probe('runs: context and the user reach the graph', async (t, { client }) => {
  const thread = await newThread(client)
  const values = await client.runs.wait(thread, 'runtime', { input: { steps: [] }, context: { model: 'big' } })
  t.match(values, { steps: ['big for a user'] })
})

// ---------------------------------------------------------------------------------------------------------- commands

probe('commands: resume', async (t, { client }) => {
  const thread = await ran(client, { config: ASKING })
  const values = await client.runs.wait(thread, 'agent', { command: { resume: 'yes' }, config: ASKING })
  t.same(contents(values), ALL)
  t.equal(at(values, 'asked'), 'yes')
})

probe('commands: update', async (t, { client }) => {
  const thread = await ran(client, { config: ASKING })
  const update = { messages: [{ type: 'human', content: 'by the way', id: 'way' }] }
  const command = { resume: 'yes', update }
  t.ok(contents(await client.runs.wait(thread, 'agent', { command, config: ASKING })).includes('by the way'))
})

probe('commands: goto', async (t, { client }) => {
  const thread = await ran(client)
  const values = await client.runs.wait(thread, 'agent', { command: { goto: 'tool' } })
  t.same(contents(values), [...ALL, 'tool_call__end', 'end'])
})

probe('commands: goto __end__ ends an interrupted thread (agent-chat-ui: mark as resolved)', async (t, { client }) => {
  const thread = await ran(client, { config: ASKING })
  await client.runs.wait(thread, 'agent', { command: { goto: '__end__' }, config: ASKING })
  t.same((await client.threads.getState(thread)).next, [])
  t.equal((await client.threads.get(thread)).status, 'idle')
})

probe('commands: interruptBefore, then input null goes on', async (t, { client }) => {
  const thread = await ran(client, { interruptBefore: ['tool'] })
  t.same((await client.threads.getState(thread)).next, ['tool'])
  t.equal((await client.threads.get(thread)).status, 'interrupted')
  t.same(contents(await client.runs.wait(thread, 'agent', { input: null })), ALL)
})

probe('commands: interruptAfter, also "*"', async (t, { client }) => {
  t.same(await said(client, await ran(client, { interruptAfter: ['tool'] })), ALL.slice(0, 3))
  t.same(await said(client, await ran(client, { interruptAfter: '*' })), ALL.slice(0, 2))
})

// ---------------------------------------------------------------------------------- assistants, the store, threads

probe('assistants: a run of one has its config', async (t, { client }) => {
  const context = { model: 'of the assistant' }
  const made = await client.assistants.create({ graphId: 'runtime', context })
  const run = async (assistant: string, more: object = {}) =>
    client.runs.wait(await newThread(client), assistant, { input: { steps: [] }, ...more })
  t.match(await run(made.assistant_id), { steps: ['of the assistant for a user'] })
  t.match(await run(made.assistant_id, { context: { model: 'mine' } }), { steps: ['mine for a user'] })
  const word = await client.assistants.create({ graphId: 'factory', config: { configurable: { word: 'given' } } })
  t.match(await run(word.assistant_id), { steps: ['word given'] }, 'a factory is given it as well')
})

probe("assistants: getSchemas: the types of a graph's state, input, output and context", async (t, { client }) => {
  const schemas = await client.assistants.getSchemas('typed')
  t.match(schemas.state_schema, { properties: { question: { type: 'string' }, sum: { type: 'number' } } })
  t.match(schemas.output_schema, { properties: { question: { type: 'string' }, sum: { type: 'number' } } })
  t.match(schemas.input_schema, { type: 'object', properties: { question: { type: 'string' } } })
  t.match(at(schemas, 'context_schema'), { properties: { tone: { enum: ['calm', 'loud'] } } })
  t.match(schemas.config_schema, { properties: { tone: { enum: ['calm', 'loud'] } } })
  const named = await client.assistants.getSchemas('nested')
  t.match(named.state_schema, { properties: { messages: { type: 'array' }, route: {}, city: {} } })
  t.match(await client.assistants.getSubgraphs('nested'), {
    weather_graph: { state_schema: { properties: { city: {} } } }
  })
})

probe('store: what a graph put into its store is there', async (t, { client }) => {
  const values = await client.runs.wait(await newThread(client), 'keeping', { input: { steps: ['tea'] } })
  t.match(values, { steps: ['tea', 'last: tea', 'last: tea'] })
  t.match(await client.store.getItem(['memories', 'mine'], 'last'), { value: { given: ['tea'] } })
})

probe('threads: prune: keep_latest leaves the newest state and none before it', async (t, { client, person }) => {
  const thread = await ran(client)
  const before = await client.threads.getState(thread)
  const [ids, strategy] = [[thread, crypto.randomUUID()], 'keep_latest'] as const
  const asked = async () => (await person.post('/api/threads/prune', { thread_ids: ids, strategy })).body
  const prunes = 'prune' in client.threads
  t.same(prunes ? await client.threads.prune([...ids], { strategy }) : await asked(), { pruned_count: 1 })
  const after = await client.threads.getState(thread)
  t.same(after.values, before.values)
  t.equal((await client.threads.getHistory(thread)).length, 1)
  await client.runs.wait(thread, 'agent', { input: FOO })
  t.same(await said(client, thread), [...ALL, ...ALL.slice(1)], 'and goes on')
})

t.test('graphs that call getLogger of the SDK can be loaded, and what they say stands in the log', async (t) => {
  const folder = graphsFolder(t)
  const source = `import { getLogger } from '@langchain/langgraph-sdk/logging'
    getLogger().info('it is loaded', { by: 'a graph' }).error({ level: 9 })
    export { graph } from './agent.mjs'`
  writeFileSync(join(folder, 'logging.mjs'), source)
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs: { logging: './logging.mjs:graph' } }))
  const { logged } = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  const told = logged.filter(([, fields]) => 'by' in fields || 'level' in fields)
  t.strictSame(told, [
    ['info', { by: 'a graph' }, 'it is loaded'],
    ['error', { level: 9 }, 'a graph']
  ])
})
