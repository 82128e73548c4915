// Graphs in this process on LangGraph's own machinery: what LangGraph's development server answers, ours does. The names of the tests
// are the lines of the list of gaps.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { emptyCheckpoint, MemorySaver } from '@langchain/langgraph-checkpoint'
import t, { type Test } from 'tap'
import { createSaver, SESSION } from '../../lib/langgraph/project/saver.ts'
import { PartNumbers, type SaverSession } from '../../lib/langgraph/project/saver-session.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { at, listIn, openSite, type Options, signIn, until, textIn } from '../fixtures/gateway.ts'
import { newName, urlOf } from '../fixtures/postgres.ts'
import { PYTHON_MISSING, pythonFolder, pythonSite, WHOLE } from '../fixtures/python-graphs.ts'
import { IS_LONG } from '../fixtures/size.ts'
import {
  all,
  type Chunk,
  clientOf,
  type GraphSite,
  graphSite,
  graphsFolder,
  VERSIONS,
  type Version
} from '../fixtures/graphs.ts'

const FOO = { messages: [{ type: 'human', content: 'foo', id: 'foo' }] }
const ALL = ['foo', 'begin', 'tool_call__begin', 'end']

const contents = (state: unknown) => listIn(state, 'messages').map((one) => at(one, 'content'))

const WAYS: readonly (readonly [Version, isolation: 'none' | 'worker'])[] = [
  ...(Object.keys(VERSIONS) as Version[]).map((version) => [version, 'none'] as const),
  ['newest', 'worker']
]
/** What is different in the languages of graphs. */
interface Language {
  readonly isPython: boolean
  /** Members of a checkpoint in a stream of mode `checkpoints`. */
  readonly checkpoint: readonly string[]
  /** Pieces without a text that end a message. */
  readonly ends: readonly ''[]
  /** What is told of values that are no JSON. */
  readonly oddities: Readonly<Record<string, object>>
}

const JAVASCRIPT: Language = {
  isPython: false,
  checkpoint: ['metadata', 'next', 'values'],
  ends: [],
  oddities: {
    big: { odd: String },
    nothing: { odd: null },
    when: { odd: '1970-01-01T00:00:00.000Z' },
    custom: { __error__: { message: /circular/i } },
    circle: { __error__: { message: String } },
    throw: { __error__: { error: 'Error', message: /no error at all/ } }
  }
}
/** As LangGraph's server for Python tells it: its serializer has no integers above 64 bits. */
const PYTHON: Language = {
  isPython: true,
  checkpoint: ['config', 'metadata', 'next', 'parent_config', 'tasks', 'values'],
  ends: [''],
  oddities: {
    big: { __error__: { error: 'TypeError' } },
    nothing: { odd: null },
    when: { odd: '1970-01-01T00:00:00+00:00' },
    custom: { what: 'custom' },
    circle: { __error__: { message: String } },
    throw: { __error__: { error: 'BaseException', message: /no error at all/ } }
  }
}

t.test('what a graph asks for after its run is over is not found, kept nowhere, and rejects nothing', async (t) => {
  const kept: object[] = []
  const reads = { load: async () => null, list: async () => [], nextPart: async () => 0 }
  const numbers = new PartNumbers(reads)
  const sessions = new Map<string, SaverSession>([
    ['run', { ...reads, runId: 'run', numbers, keep: (write) => void kept.push(write) }]
  ])
  // What is asked here of LangGraph's checkpointers.
  const saver = createSaver({ BaseCheckpointSaver: MemorySaver }, sessions, reads) as MemorySaver
  const config = { configurable: { thread_id: 'thread', checkpoint_ns: '', checkpoint_id: '1', [SESSION]: 'run' } }
  const store = async () => {
    await saver.putWrites(config, [['a', 1]], 'task')
    return saver.put(config, emptyCheckpoint(), { source: 'loop', step: 1, parents: {} })
  }
  await store()
  t.equal(kept.length, 2)
  sessions.clear()
  t.match(await store(), { configurable: { thread_id: 'thread', [SESSION]: 'run' } })
  t.equal(await saver.getTuple(config), undefined)
  for await (const found of saver.list(config)) t.fail(JSON.stringify(found))
  t.equal(kept.length, 2)
})

for (const [version, isolation] of WAYS)
  t.test(`LangGraph ${version}, isolation ${isolation}`, async (t) => {
    const site = await graphSite(t, { version, config: { graphs: { isolation } } })
    await statesOf(t, site)
    await updatesOf(t, site)
    await commandsOf(t, site)
    await modesOf(t, site, JAVASCRIPT)
    await inputsOf(t, site)
    await faultsOf(t, site, JAVASCRIPT)
  })

// The same of the same graphs in Python.
if (IS_LONG)
  t.test('LangGraph for Python', { skip: PYTHON_MISSING }, async (t) => {
    const site = await pythonSite(t, pythonFolder(t, WHOLE))
    await statesOf(t, site)
    await updatesOf(t, site)
    await commandsOf(t, site)
    await modesOf(t, site, PYTHON)
    await inputsOf(t, site)
    await faultsOf(t, site, PYTHON)
  })

t.test('in every store a graph answers, asks and goes on', async (t) => {
  const url = await urlOf(newName())
  const databases: readonly Options[] = [
    { database: { backend: 'memory' } },
    { database: { backend: 'postgres', postgres_url: url } },
    { run_events: { backend: 'jsonl' } }
  ]
  for (const config of databases)
    await t.test(JSON.stringify(Object.values(config)[0]).replace(/"postgres_url.*/, ''), async (t) => {
      const site = await graphSite(t, { config })
      const { client } = site
      const thread = await asking(site)
      const values = await client.runs.wait(thread, 'agent', { command: { resume: 'yes' } })
      t.strictSame(contents(values), ALL)
      t.equal((await client.threads.getHistory(thread)).length, 5)
      await client.threads.updateState(thread, { values: { messages: [{ type: 'remove', id: 'foo' }] } })
      t.strictSame(contents((await client.threads.getState(thread)).values), ALL.slice(1))
      const copied = (await client.threads.copy(thread)) as unknown as { thread_id: string }
      await client.threads.delete(thread)
      t.equal((await client.threads.getHistory(copied.thread_id)).length, 6)
    })
})

t.test('what is written to a thread before a run is there, where there is but one graph', async (t) => {
  const { client } = await graphSite(t, { graphs: { agent: 'graph' } })
  const { thread_id } = await client.threads.create()
  const updated = await client.threads.updateState(thread_id, { values: FOO })
  t.match(updated, { checkpoint: { thread_id, checkpoint_id: String } })
  t.strictSame(contents((await client.threads.getState(thread_id)).values), ['foo'])
  t.equal((await client.threads.getHistory(thread_id)).length, 1)
  t.strictSame(contents(await client.runs.wait(thread_id, 'agent', { input: { messages: [] } })), ALL)
})

t.test('a single compiled graph is served as a module, whatever name a run gives it', async (t) => {
  const path = join(graphsFolder(t), 'agent.mjs')
  const site = await openSite(t, { config: { agent: { runtime: 'module', path } } })
  const client = clientOf(await signIn(site))
  const { thread_id } = await client.threads.create()
  t.strictSame(contents(await client.runs.wait(thread_id, 'agent', { input: FOO })), ALL)
  t.equal((await client.threads.getHistory(thread_id)).length, 5)
})

const newThread = async ({ client }: GraphSite): Promise<string> => (await client.threads.create()).thread_id

/** A thread that waits for an answer, as LangGraph's `interrupt` asks. */
async function asking(site: GraphSite): Promise<string> {
  const thread = await newThread(site)
  await site.client.runs.wait(thread, 'agent', { input: FOO, config: { configurable: { ask: 'interrupt' } } })
  return thread
}

async function statesOf(t: Test, site: GraphSite): Promise<void> {
  const { client } = site
  await t.test('a run ends with its values', async (t) => {
    const thread = await newThread(site)
    t.strictSame(contents(await client.runs.wait(thread, 'agent', { input: FOO })), ALL)
    t.strictSame(contents((await client.threads.getState(thread)).values), ALL)
    t.match(await client.threads.get(thread), { status: 'idle', metadata: { graph_id: 'agent' } })
  })

  await t.test('history: newest first, one checkpoint a superstep, each with its messages and next', async (t) => {
    const thread = await newThread(site)
    await client.runs.wait(thread, 'agent', { input: FOO, metadata: { mine: 'x' } })
    const history = await client.threads.getHistory(thread)
    t.strictSame(
      history.map(({ next }) => next),
      [[], ['agent'], ['tool'], ['agent'], ['__start__']]
    )
    t.strictSame(
      history.map(({ values }) => contents(values).length),
      [4, 3, 2, 1, 0]
    )
    t.strictSame(
      history.map(({ metadata }) => [at(metadata, 'source'), at(metadata, 'step'), at(metadata, 'mine')]),
      [3, 2, 1, 0, -1].map((step) => [step < 0 ? 'input' : 'loop', step, 'x']),
      'metadata of a run stands in its checkpoints'
    )
    const ids = history.map(({ checkpoint }) => checkpoint.checkpoint_id ?? '')
    t.strictSame([...ids].sort().reverse(), ids, 'ids sort by time')
    t.strictSame(
      history.map(({ parent_checkpoint }) => parent_checkpoint?.checkpoint_id ?? null),
      [...ids.slice(1), null]
    )
    const stepsOf = async (options: object) =>
      (await client.threads.getHistory(thread, options)).map(({ metadata }) => at(metadata, 'step'))
    t.strictSame(await stepsOf({ limit: 2 }), [3, 2])
    t.strictSame(await stepsOf({ before: { configurable: { checkpoint_id: ids[1] } } }), [1, 0, -1])
    t.strictSame(await stepsOf({ metadata: { step: 1 } }), [1], 'metadata as a filter')
    t.strictSame(await stepsOf({ checkpoint: { checkpoint_id: ids[2] } }), [1])
    t.match(await client.threads.getState(thread, ids[2]!), { next: ['tool'], checkpoint: { checkpoint_id: ids[2] } })
  })

  await t.test('a checkpoint is copied as it stands, with what comes next', async (t) => {
    const thread = await asking(site)
    const [waiting, before] = await client.threads.getHistory(thread)
    await client.threads.updateState(thread, { values: null, checkpoint: before!.checkpoint, asNode: '__copy__' })
    const [copied] = await client.threads.getHistory(thread)
    t.strictSame(copied!.values, before!.values)
    t.strictSame(copied!.next, before!.next)
    t.equal(copied!.parent_checkpoint?.checkpoint_id, before!.parent_checkpoint?.checkpoint_id)
    t.ok((copied!.checkpoint.checkpoint_id ?? '') > (waiting!.checkpoint.checkpoint_id ?? ''), 'and is the newest')
  })

  await t.test('history: of a thread without runs is empty', async (t) => {
    const thread = await newThread(site)
    t.strictSame(await client.threads.getHistory(thread), [])
    t.match(await client.threads.getState(thread), { values: {}, next: [], tasks: [], checkpoint: null })
  })

  await t.test('the second run of a thread goes on from the first', async (t) => {
    const thread = await newThread(site)
    await client.runs.wait(thread, 'agent', { input: FOO })
    const bar = { messages: [{ type: 'human', content: 'bar' }] }
    t.strictSame(contents(await client.runs.wait(thread, 'agent', { input: bar })), [...ALL, 'bar', ...ALL.slice(1)])
  })

  await t.test('branching: a run from an older checkpoint, and both branches in the history', async (t) => {
    const thread = await newThread(site)
    await client.runs.wait(thread, 'agent', { input: FOO })
    const first = (await client.threads.getHistory(thread)).at(-1)!
    const input = { messages: [{ type: 'human', content: 'edited', id: 'foo' }] }
    const checkpoint = { checkpoint_id: first.checkpoint.checkpoint_id, checkpoint_ns: '', checkpoint_map: null }
    const edited = await client.runs.wait(thread, 'agent', { input, checkpoint })
    t.strictSame(contents(edited), ['edited', ...ALL.slice(1)])
    const history = await client.threads.getHistory(thread)
    t.equal(history.length, 10)
    const children = history.filter(
      ({ parent_checkpoint }) => parent_checkpoint?.checkpoint_id === first.checkpoint.checkpoint_id
    )
    t.equal(children.length, 2)
    await t.rejects(client.runs.wait(thread, 'agent', { input, checkpointId: 'nowhere' }), /404/)
  })

  await t.test(
    'branching: an answer is said anew from the checkpoint before it, with nothing of the old one',
    async (t) => {
      const thread = await newThread(site)
      const old = listIn(await client.runs.wait(thread, 'agent', { input: FOO }), 'messages')
      const [, , , before] = await client.threads.getHistory(thread)
      const anew = listIn(await client.runs.wait(thread, 'agent', { checkpoint: before!.checkpoint }), 'messages')
      t.strictSame(contents({ messages: anew }), ALL)
      const ids = new Set(old.map((message) => at(message, 'id')))
      t.strictSame(
        anew.map((message) => ids.has(at(message, 'id'))),
        [true, false, false, false]
      )
    }
  )

  await t.test('copy: state and history', async (t) => {
    const thread = await newThread(site)
    await client.runs.wait(thread, 'agent', { input: FOO })
    const copied = (await client.threads.copy(thread)) as unknown as { thread_id: string }
    const [one, other] = await Promise.all([
      client.threads.getHistory(thread),
      client.threads.getHistory(copied.thread_id)
    ])
    t.strictSame(
      other.map(({ values, next }) => [values, next]),
      one.map(({ values, next }) => [values, next])
    )
    t.strictSame([...new Set(other.map(({ metadata }) => at(metadata, 'thread_id')))], [copied.thread_id])
    await client.runs.wait(copied.thread_id, 'agent', { input: { messages: 'more' } })
    t.equal((await client.threads.getHistory(thread)).length, 5)
  })

  await t.test('subgraphs: a run goes back to a state inside of a task', async (t) => {
    const thread = await newThread(site)
    const config = { configurable: { ask: 'interrupt' } }
    await client.runs.wait(thread, 'nested', { input: FOO, config })
    const state = await client.threads.getState(thread, undefined, { subgraphs: true })
    const { checkpoint } = state.tasks[0]!.state!
    const asked = await client.runs.wait(thread, 'nested', { input: null, config, checkpoint })
    t.match(at(asked, '__interrupt__'), [{ id: String }], 'it asks again')
    const { checkpoint_id: inner, checkpoint_ns } = checkpoint
    const configured = { configurable: { ...config.configurable, checkpoint_id: inner, checkpoint_ns } }
    const again = await client.runs.wait(thread, 'nested', { input: null, config: configured })
    t.match(at(again, '__interrupt__'), [{ id: String }], 'also where the configuration names it')
    const { checkpoint_id } = state.checkpoint
    const lost = client.runs.wait(thread, 'nested', {
      input: null,
      config,
      checkpoint: { ...checkpoint, checkpoint_id }
    })
    await t.rejects(lost, /404/, 'one of the graph itself is in no subgraph')
    const answered = await client.runs.wait(thread, 'nested', { command: { resume: 'foggy' }, config })
    t.equal(contents(answered).at(-1), 'It is foggy in San Francisco')
  })

  await t.test('subgraphs: the state inside of a task', async (t) => {
    const thread = await newThread(site)
    const config = { configurable: { ask: 'interrupt' } }
    await client.runs.wait(thread, 'nested', { input: FOO, config })
    const state = await client.threads.getState(thread, undefined, { subgraphs: true })
    t.strictSame(state.next, ['weather_graph'])
    t.match(state.tasks[0], {
      name: 'weather_graph',
      state: { values: { city: 'San Francisco' }, next: ['weather_node'] }
    })
    const { checkpoint } = state.tasks[0]!.state!
    const updated = await client.threads.updateState(thread, { values: { city: 'Berlin' }, checkpoint })
    t.match(
      updated,
      { values: { city: 'Berlin' }, checkpoint: { checkpoint_ns: checkpoint.checkpoint_ns } },
      'an update in there is answered with what is in there'
    )
    t.not(at(updated, 'checkpoint', 'checkpoint_id'), checkpoint.checkpoint_id)
    const answered = await client.runs.wait(thread, 'nested', { command: { resume: 'foggy' }, config })
    t.equal(contents(answered).at(-1), 'It is foggy in Berlin')
    const history = await client.threads.getHistory(thread)
    t.strictSame(
      history.map(({ next }) => next),
      [[], ['weather_graph'], ['router_node'], ['__start__']]
    )
  })
}

async function updatesOf(t: Test, site: GraphSite): Promise<void> {
  const { client } = site
  const ran = async () => {
    const thread = await newThread(site)
    await client.runs.wait(thread, 'agent', { input: FOO })
    return thread
  }
  const said = async (thread: string) => contents((await client.threads.getState(thread)).values)

  await t.test('state: update: a message is added, one with a known id replaced, one taken out', async (t) => {
    const thread = await ran()
    const more = { messages: [{ type: 'human', content: 'more', id: 'more' }] }
    const updated = await client.threads.updateState(thread, { values: more })
    t.match(updated, { checkpoint: { thread_id: thread, checkpoint_ns: '', checkpoint_id: String } })
    t.strictSame(await said(thread), [...ALL, 'more'])
    await client.threads.updateState(thread, {
      values: { messages: [{ type: 'human', content: 'edited', id: 'more' }] }
    })
    t.strictSame(await said(thread), [...ALL, 'edited'])
    await client.threads.updateState(thread, { values: { messages: [{ type: 'remove', id: 'more' }] } })
    t.strictSame(await said(thread), ALL)
  })

  await t.test('state: update: a run goes on from what asNode leads to', async (t) => {
    const thread = await newThread(site)
    await client.runs.wait(thread, 'agent', { input: FOO, interruptBefore: ['tool'] })
    const tool = { messages: [{ type: 'tool', content: 'by hand', tool_call_id: 'call', id: 'tool' }] }
    await client.threads.updateState(thread, { values: tool, asNode: 'tool' })
    t.strictSame((await client.threads.getState(thread)).next, ['agent'])
    t.strictSame(contents(await client.runs.wait(thread, 'agent', { input: null })), ['foo', 'begin', 'by hand', 'end'])
    const bad = client.threads.updateState(thread, { values: tool, asNode: 'nowhere' })
    await t.rejects(bad, /HTTP 400.*nowhere/, 'a node that is not there')
  })

  await t.test('state: update: values null as __end__ ends an interrupted thread (agent-inbox: ignore)', async (t) => {
    const thread = await asking(site)
    t.equal((await client.threads.get(thread)).status, 'interrupted')
    await client.threads.updateState(thread, { values: null, asNode: '__end__' })
    t.strictSame((await client.threads.getState(thread)).next, [])
    t.equal((await client.threads.get(thread)).status, 'idle')
  })

  await t.test('a thread is renamed through its state, also where the graph keeps no title', async (t) => {
    for (const thread of [await newThread(site), await ran(), await asking(site)]) {
      const before = await client.threads.get(thread)
      await client.threads.updateState(thread, { values: { title: 'My own name' } })
      const [found] = await client.threads.search({ ids: [thread] })
      const { body } = await site.person.post('/api/threads/search', { ids: [thread] })
      t.equal(at(listIn(body)[0], 'values', 'title'), 'My own name')
      t.equal(found?.status, before.status)
    }
  })

  await t.test('state: update: of a thread whose graph is not there any more says which', async (t) => {
    const { thread_id } = await client.threads.create({ graphId: 'former' })
    await t.rejects(client.threads.updateState(thread_id, { values: { messages: [] } }), {
      message: /no graph \\*"former/
    })
  })

  await t.test('state: update: of a thread whose graph nobody can tell is refused', async (t) => {
    const values = { messages: [{ type: 'human', content: 'early' }] }
    const thread = await newThread(site)
    await t.rejects(client.threads.updateState(thread, { values }), /HTTP 400.*no graph yet/)
    t.match(await client.threads.get(thread), { status: 'idle', values: {} })
    const supersteps = [{ updates: [{ values, asNode: '__start__' }] }]
    await t.rejects(client.threads.create({ supersteps }), /HTTP 400.*no graph yet/)
    const named = await client.threads.create({ graphId: 'agent' })
    await client.threads.updateState(named.thread_id, { values })
    t.strictSame(await said(named.thread_id), ['early'])
  })

  await t.test('items of a conversation that no graph has answered are there', async (t) => {
    const items = [{ type: 'message', role: 'user', content: 'early' }]
    const { id } = (await site.person.post('/v1/conversations', { items })).body as { id: string }
    const { body } = await site.person.get(`/v1/conversations/${id}/items`)
    t.match(body, { data: [{ role: 'user', content: [{ text: 'early' }] }] })
  })

  await t.test('state: update: of an older checkpoint makes a branch', async (t) => {
    const thread = await ran()
    const [, , third] = await client.threads.getHistory(thread)
    const { checkpoint } = third!
    const values = { messages: [{ type: 'human', content: 'aside' }] }
    await client.threads.updateState(thread, { values, checkpoint })
    t.strictSame(await said(thread), ['foo', 'begin', 'aside'])
    const lost = client.threads.updateState(thread, { values, checkpointId: 'nowhere' })
    await t.rejects(lost, /404/)
  })

  await t.test('threads: create: supersteps make a history', async (t) => {
    const supersteps = [
      { updates: [{ values: FOO, asNode: '__start__' }] },
      { updates: [{ values: { messages: [{ type: 'ai', content: 'begin' }] }, asNode: 'agent' }] }
    ]
    const { thread_id } = await client.threads.create({ graphId: 'agent', supersteps })
    t.strictSame(await said(thread_id), ['foo', 'begin'])
    t.ok((await client.threads.getHistory(thread_id)).length >= 2)
  })
}

async function commandsOf(t: Test, site: GraphSite): Promise<void> {
  const { client } = site
  const config = { configurable: { ask: 'interrupt' } }

  await t.test('commands: resume', async (t) => {
    const thread = await asking(site)
    const state = await client.threads.getState(thread)
    t.match(state, {
      next: ['tool'],
      tasks: [{ name: 'tool', interrupts: [{ id: String, value: 'i want to interrupt' }] }]
    })
    t.match((await client.threads.get(thread)).interrupts, { [state.tasks[0]!.id]: [{ value: 'i want to interrupt' }] })
    const values = await client.runs.wait(thread, 'agent', { command: { resume: 'yes' }, config })
    t.strictSame(contents(values), ALL)
    t.equal(at(values, 'asked'), 'yes')
    t.match(await client.threads.get(thread), { status: 'idle', interrupts: {} })
  })

  await t.test('commands: resume by the id of the question', async (t) => {
    const thread = await asking(site)
    const id = (await client.threads.getState(thread)).tasks[0]!.interrupts[0]!.id!
    t.equal(
      at(await client.runs.wait(thread, 'agent', { command: { resume: { [id]: 'by id' } }, config }), 'asked'),
      'by id'
    )
  })

  await t.test(
    'commands: a resume that is asked the next question leaves it, as who asked it first does',
    async (t) => {
      const [thread, twice] = [await newThread(site), await newThread(site)]
      const asked = (values: unknown) => listIn(values, '__interrupt__').map((one) => at(one, 'value'))
      const wait = (id: string, graph: string, payload: object) => client.runs.wait(id, graph, { ...payload, config })
      t.same(asked(await wait(twice, 'twice', { input: { steps: ['go'] } })), ['first?'])
      const second = await wait(twice, 'twice', { command: { resume: 'one' } })
      t.match(second, { steps: ['go'], __interrupt__: [{ value: 'second?' }] }, 'no checkpoint was made for it')
      const [run] = await client.runs.list(twice)
      t.match(asked(await client.runs.join(twice, run!.run_id)), ['second?'])
      const snapshot = await site.person.get(`/api/threads/${twice}/runs/${run!.run_id}/stream?mode=snapshot`)
      t.match(snapshot.text, /second\?/, 'who comes later is shown the state it has left')
      t.same(at(await wait(twice, 'twice', { command: { resume: 'two' } }), 'steps'), ['go', 'one two'])

      const both = listIn(await wait(thread, 'pair', { input: { steps: ['go'] } }), '__interrupt__')
      const answer = { [String(at(both[0], 'id'))]: 'yes' }
      const left = await wait(thread, 'pair', { command: { resume: answer } })
      t.same(asked(left), [at(both[1], 'value')], 'one that was answered is not asked any more')
      t.same(at(left, 'steps'), ['go', 'yes'], 'and what it has led to is there')
      const { status, interrupts } = await client.threads.get(thread)
      t.equal(status, 'interrupted')
      t.same(
        Object.values(interrupts)
          .flat()
          .map(({ value }) => value),
        [at(both[1], 'value')]
      )
    }
  )

  await t.test('an interrupt passes in the stream as values and updates', async (t) => {
    const thread = await newThread(site)
    const chunks = await all(
      client.runs.stream(thread, 'agent', { input: FOO, config, streamMode: ['values', 'updates'] })
    )
    const asked = { __interrupt__: [{ id: String, value: 'i want to interrupt' }] }
    t.match(chunks.filter(({ event }) => event === 'values').at(-1)?.data, asked)
    t.match(chunks.filter(({ event }) => event === 'updates').at(-1)?.data, asked)
  })

  await t.test('commands: update, goto, and both beside a resume', async (t) => {
    const thread = await asking(site)
    const update = { messages: [{ type: 'human', content: 'by the way', id: 'way' }] }
    const values = await client.runs.wait(thread, 'agent', { command: { resume: 'yes', update }, config })
    t.ok(contents(values).includes('by the way'))
    const gone = await client.runs.wait(thread, 'agent', { command: { goto: 'tool' } })
    t.strictSame(contents(gone).slice(-2), ['tool_call__end', 'end'])
    const sent = await newThread(site)
    const goto = [{ node: 'worker', input: { n: 7 } }]
    t.match(await client.runs.wait(sent, 'fan', { command: { goto } }), { steps: ['worker 7'] }, 'a Send')
  })

  await t.test('commands: goto __end__ ends an interrupted thread (agent-chat-ui: mark as resolved)', async (t) => {
    const thread = await asking(site)
    await client.runs.wait(thread, 'agent', { command: { goto: '__end__' }, config })
    t.strictSame((await client.threads.getState(thread)).next, [])
    t.equal((await client.threads.get(thread)).status, 'idle')
  })

  await t.test('commands: interruptBefore, then input null goes on', async (t) => {
    const thread = await newThread(site)
    const modes = { streamMode: ['values', 'updates'] as ('values' | 'updates')[] }
    const chunks = await all(client.runs.stream(thread, 'agent', { input: FOO, interruptBefore: ['tool'], ...modes }))
    const updates = chunks.filter(({ event }) => event === 'updates').map(({ data }) => Object.keys(data as object)[0])
    t.strictSame(updates, ['agent', '__interrupt__'], 'a node that waits at a breakpoint has written nothing')
    t.strictSame((await client.threads.getState(thread)).next, ['tool'])
    t.equal((await client.threads.get(thread)).status, 'interrupted')
    t.strictSame(contents(await client.runs.wait(thread, 'agent', { input: null })), ALL)
    t.equal((await client.threads.get(thread)).status, 'idle')
  })

  await t.test('commands: interruptAfter, also "*"', async (t) => {
    const thread = await newThread(site)
    const after = await client.runs.wait(thread, 'agent', { input: FOO, interruptAfter: ['tool'] })
    t.strictSame(contents(after), ALL.slice(0, 3))
    const other = await newThread(site)
    t.strictSame(contents(await client.runs.wait(other, 'agent', { input: FOO, interruptAfter: '*' })), ALL.slice(0, 2))
  })

  await t.test('a command of a node, Sends of an edge, a factory, and a graph that is not compiled yet', async (t) => {
    const run = async (graph: string, more: object = {}) =>
      client.runs.wait(await newThread(site), graph, { input: { steps: [] }, ...more })
    t.match(await run('going'), { steps: ['here', 'there'] })
    t.match(await run('fan'), { steps: ['worker 1', 'worker 2'] })
    t.match(await run('factory', { config: { configurable: { word: 'given' } } }), { steps: ['word given'] })
    t.match(await run('factory', { context: { word: 'told' } }), { steps: ['word told'] })
    t.strictSame(contents(await run('uncompiled', { input: FOO })), ALL)
  })
}

async function modesOf(t: Test, site: GraphSite, { checkpoint, ends }: Language): Promise<void> {
  const { client } = site
  const streamed = async (graph: string, options: object) =>
    (await all(client.runs.stream(await newThread(site), graph, { input: FOO, ...options }))).filter(
      ({ event }) => event !== 'end' && event !== 'metadata'
    )
  const dataOf = (chunks: readonly Chunk[], name: string) =>
    chunks.filter(({ event }) => event === name).map(({ data }) => data)

  await t.test('stream modes: updates: channels other than messages', async (t) => {
    const updates = dataOf(await streamed('nested', { streamMode: 'updates' }), 'updates')
    t.strictSame(updates[0], { router_node: { route: 'weather' } })
  })

  await t.test(
    "stream modes: messages-tuple: each piece once, the tool's message, and the node that speaks",
    async (t) => {
      const told = dataOf(await streamed('agent', { streamMode: 'messages-tuple' }), 'messages')
      t.strictSame(
        told.map((tuple) => at(tuple, 0, 'content')).filter((text) => text !== ''),
        ['b', 'e', 'g', 'i', 'n', 'tool_call__begin', 'e', 'n', 'd']
      )
      t.strictSame([...new Set(told.map((tuple) => at(tuple, 1, 'langgraph_node')))], ['agent', 'tool'])
    }
  )

  await t.test(
    'stream modes: messages: a partial for each piece, and complete what stands in the state, the input too',
    async (t) => {
      const chunks = await streamed('agent', { streamMode: 'messages' })
      t.strictSame(
        chunks.map(({ event, data }) => [
          event.replace('messages/', ''),
          event.endsWith('metadata') ? 1 : at(data, 0, 'content')
        ]),
        [
          ['complete', 'foo'],
          ['metadata', 1],
          ...['b', 'be', 'beg', 'begi', 'begin', ...ends.map(() => 'begin')].map((text) => ['partial', text]),
          ['complete', 'begin'],
          ['complete', 'tool_call__begin'],
          ['metadata', 1],
          ...['e', 'en', 'end', ...ends.map(() => 'end')].map((text) => ['partial', text]),
          ['complete', 'end']
        ]
      )
    }
  )

  await t.test('stream modes: tasks, checkpoints, debug, custom', async (t) => {
    const chunks = await streamed('agent', { streamMode: ['tasks', 'checkpoints', 'debug', 'custom'] })
    const tasks = dataOf(chunks, 'tasks')
    t.strictSame(
      tasks.map((task) => [at(task, 'name'), 'input' in (task as object)]),
      ['agent', 'tool', 'agent'].flatMap((name) => [
        [name, true],
        [name, false]
      ])
    )
    t.equal(dataOf(chunks, 'checkpoints').length, 5)
    t.strictSame(Object.keys(dataOf(chunks, 'checkpoints')[0] as object).sort(), checkpoint)
    const debug = dataOf(chunks, 'debug')
    t.strictSame([...new Set(debug.map((one) => at(one, 'type')))], ['checkpoint', 'task', 'task_result'])
    t.match(at(debug[0], 'payload'), {
      checkpoint: { checkpoint_id: String },
      parent_checkpoint: null,
      next: ['__start__']
    })
    t.notMatch(JSON.stringify(debug), /__colloquy|langgraph_auth/, 'nothing of ours is shown')
    t.strictSame(dataOf(chunks, 'custom'), [{ at: 'agent' }, { at: 'agent' }])
  })

  await t.test('stream modes: events', async (t) => {
    const events = dataOf(await streamed('agent', { streamMode: ['events', 'values'] }), 'events')
    const names = new Set(events.map((one) => at(one, 'event')))
    for (const name of ['on_chain_start', 'on_chat_model_stream', 'on_chain_end']) t.ok(names.has(name), name)
  })

  await t.test(
    'stream modes: tools: each begins, tells, and ends or fails; below the node that calls them',
    async (t) => {
      const told = async (content: string, streamSubgraphs: boolean) => {
        const input = { messages: [{ type: 'human', content }] }
        const chunks = await streamed('tools', { input, streamMode: 'tools', streamSubgraphs })
        // The newest tells what is told in a task as told in its graph.
        const name = streamSubgraphs ? /^tools(\|tools:[^|]+)?$/ : /^tools$/
        t.ok(chunks.every(({ event }) => name.test(event)))
        return chunks.map(({ data }) => data as JsonObject)
      }
      for (const streamSubgraphs of [false, true]) {
        const all = await told('look', streamSubgraphs)
        const ofTool = (name: string) => all.filter((one) => one.name === name)
        t.match(ofTool('look'), [
          { event: 'on_tool_start', toolCallId: 'call_1', input: '{"city":"Rome"}' },
          { event: 'on_tool_event', toolCallId: 'call_1', data: { looking: 'Rome' } },
          { event: 'on_tool_event', toolCallId: 'call_1', data: 'found' },
          { event: 'on_tool_end', toolCallId: 'call_1', output: { type: 'tool', content: 'Rome is sunny' } }
        ])
        t.match(ofTool('double'), [
          { event: 'on_tool_start', toolCallId: 'call_2', input: '{"n":2}' },
          { event: 'on_tool_end', toolCallId: 'call_2', output: { type: 'tool', content: '4' } }
        ])
        t.match(await told('fail', streamSubgraphs), [
          { event: 'on_tool_start', name: 'boom', toolCallId: 'call_1' },
          { event: 'on_tool_error', name: 'boom', toolCallId: 'call_1', error: { message: 'no such tool' } }
        ])
      }
    }
  )

  await t.test('stream modes: messages: calls that are being said have their arguments so far', async (t) => {
    const partials = dataOf(await streamed('tools', { streamMode: 'messages' }), 'messages/partial')
    t.match(
      partials.map((one) => at(one, 0, 'tool_calls')),
      [
        [],
        [{ name: 'look', args: {} }],
        [
          { name: 'look', args: { city: 'Rome' } },
          { name: 'double', args: { n: 2 } }
        ],
        [],
        []
      ]
    )
  })

  await t.test('stream modes: streamSubgraphs: names of events bear the subgraph', async (t) => {
    const options = { streamMode: ['updates', 'values'], streamSubgraphs: true }
    const events = (await streamed('nested', options)).map(({ event }) => event.replace(/:[^|]+/g, ''))
    t.ok(events.includes('updates|weather_graph'))
    t.ok(events.includes('values|weather_graph'))
    t.ok(events.includes('values'))
    const plain = (await streamed('nested', { ...options, streamSubgraphs: false })).map(({ event }) => event)
    t.strictSame([...new Set(plain)].sort(), ['updates', 'values'])
  })

  await t.test('who joins later sees all of it, frame by frame', async (t) => {
    const thread = await newThread(site)
    const run = await client.runs.create(thread, 'agent', { input: FOO, streamMode: ['values', 'updates'] })
    await client.runs.join(thread, run.run_id)
    const frames = await all(client.runs.joinStream(thread, run.run_id, { streamMode: ['values', 'messages-tuple'] }))
    t.strictSame(contents(dataOf(frames, 'values').at(-1)), ALL)
    t.equal(dataOf(frames, 'messages').length, 9 + 2 * ends.length)
    t.strictSame(
      await all(client.runs.joinStream(thread, run.run_id, { streamMode: ['values', 'messages-tuple'] })),
      frames
    )
  })

  await t.test('a snapshot has the values of a run that works, and of one that has ended', async (t) => {
    const thread = await newThread(site)
    const run = await client.runs.create(thread, 'agent', { input: FOO })
    await client.runs.join(thread, run.run_id)
    const path = `/api/threads/${thread}/runs/${run.run_id}/stream?mode=snapshot`
    const frames = await (await site.person.open('GET', path)).whole()
    const data = JSON.parse(frames.find(({ event }) => event === 'snapshot')?.data ?? '{}') as unknown
    t.strictSame(contents(at(data, 'values')), ALL)
  })

  await t.test('runs: wait: a failing graph throws its name and text', async (t) => {
    const thread = await newThread(site)
    await t.rejects(client.runs.wait(thread, 'error', { input: FOO }), { message: 'CustomError: Boo!' })
    const shown = await client.runs.wait(thread, 'error', { input: FOO, raiseError: false })
    t.match(shown, { __error__: { error: 'CustomError', message: 'Boo!' } })
    t.equal((await client.threads.get(thread)).status, 'error')
    const [task] = (await client.threads.getState(thread)).tasks
    t.match(task?.error, /Boo!/, 'a text, as clients read it')
    const chunks = await all(client.runs.stream(thread, 'error', { input: FOO }))
    t.match(chunks.find(({ event }) => event === 'error')?.data, { error: 'CustomError', message: 'Boo!' })
  })

  await t.test('runs: config.recursion_limit counts supersteps', async (t) => {
    const config = { recursion_limit: 1 }
    const run = client.runs.wait(await newThread(site), 'agent', { input: FOO, config })
    await t.rejects(run, { message: /^GraphRecursionError: / })
    const enough = await client.runs.wait(await newThread(site), 'agent', {
      input: FOO,
      config: { recursion_limit: 5 }
    })
    t.strictSame(contents(enough), ALL)
  })
}

async function inputsOf(t: Test, site: GraphSite): Promise<void> {
  const { client, person } = site
  const run = async (graph: string, messages: unknown) =>
    contents(await client.runs.wait(await newThread(site), graph, { input: { messages } }))

  await t.test(
    "runs: messages as LangChain writes its own objects, as pairs, with OpenAI's roles, and as a text",
    async (t) => {
      const serialized = {
        lc: 1,
        type: 'constructor',
        id: ['langchain_core', 'messages', 'HumanMessage'],
        kwargs: { content: 'foo' }
      }
      t.strictSame(await run('agent', [serialized]), ALL)
      t.strictSame(await run('agent', [['human', 'foo']]), ALL)
      t.strictSame(await run('agent', [{ role: 'user', content: 'foo' }]), ALL)
      t.strictSame(await run('agent', 'foo'), ALL)
    }
  )

  await t.test('runs: messages that are plain texts in the state (a list of strings)', async (t) => {
    const values = await client.runs.wait(await newThread(site), 'texts', { input: { messages: ['x'] } })
    t.match(values, { messages: ['x', 'you said x'] })
  })

  await t.test('what is said becomes events, with the ids of the state', async (t) => {
    const thread = await newThread(site)
    const values = await client.runs.wait(thread, 'agent', { input: { messages: [['human', 'foo']] } })
    const { body } = await person.get(`/api/threads/${thread}/messages`)
    t.strictSame(
      listIn(body).map((event) => [at(event, 'event_type'), at(event, 'content', 'id')]),
      listIn(values, 'messages').map((one, n) => [
        ['human_message', 'ai_message', 'tool_result', 'ai_message'][n],
        at(one, 'id')
      ])
    )
    const [ended] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    t.match(ended, { status: 'success', message_count: 2 })
    const events = await person.get(`/api/threads/${thread}/runs/${textIn(ended, 'run_id')}/events?limit=500`)
    const requests = listIn(events.body).filter((event) => at(event, 'event_type') === 'llm_request')
    t.strictSame(
      requests.map((event) => listIn(event, 'content', 'messages').map((message) => at(message, 'role'))),
      [['user'], ['user', 'assistant']],
      'a request has the messages that the model was asked with; a result without its call is none'
    )
  })

  await t.test('a message that a graph cannot read fails its run, and the server goes on', async (t) => {
    await t.rejects(run('agent', [{ role: 'nobody', content: 'x' }]), /Error/)
    t.strictSame(await run('agent', 'foo'), ALL)
  })
}

async function faultsOf(t: Test, site: GraphSite, { oddities, isPython }: Language): Promise<void> {
  const { client } = site
  const odd = async (what: string) =>
    client.runs.wait(await newThread(site), 'odd', { input: { what }, raiseError: false })

  await t.test('store: what a graph put into its store is there', async (t) => {
    const values = await client.runs.wait(await newThread(site), 'keeping', { input: { steps: ['tea'] } })
    t.match(values, { steps: ['tea', 'last: tea', 'last: tea'] })
    t.match(await client.store.getItem(['memories', 'mine'], 'last'), { value: { given: ['tea'] } })
    const other = clientOf(await signIn(site.site))
    t.equal(await other.store.getItem(['memories', 'mine'], 'last'), null, "a user's alone")
  })

  await t.test('values that are no JSON are told as far as they can be, or fail their run and no other', async (t) => {
    for (const [what, told] of Object.entries(oddities)) t.match(await odd(what), told, what)
    t.match(await odd('fine'), { what: 'fine' }, 'the server goes on')
  })

  if (!isPython)
    await t.test('a graph that goes on after its run has failed brings down no other', async (t) => {
      const beside = odd('wait')
      t.match(await odd('after'), { __error__: { message: /circular/i } })
      t.match(await beside, { odd: 'waited' })
    })

  await t.test('what a graph tells after its end is heard by nobody', async (t) => {
    const thread = await newThread(site)
    const run = await client.runs.create(thread, 'odd', { input: { what: 'late' }, streamMode: ['custom'] })
    await client.runs.join(thread, run.run_id)
    await new Promise((resolve) => setTimeout(resolve, 500))
    const events = await all(client.runs.joinStream(thread, run.run_id))
    t.notOk(events.some(({ event }) => event === 'custom'))
  })

  await t.test('a graph that blocks the loop is named in the log, with the time that it took', async (t) => {
    await odd('block')
    // A machine that is busy with others holds up a process as well.
    const found = site.site.logged.find(
      ([, fields]) => 'blocked_ms' in fields && listIn(fields, 'graphs').includes('odd')
    )
    t.equal(found?.[0], 'warn')
    t.ok(Number(at(found?.[1], 'blocked_ms')) >= 1000)
  })

  await t.test(
    'a run that is rolled back leaves no checkpoint, nor does an edit that is cancelled; another one leaves what it had stored',
    async (t) => {
      const thread = await newThread(site)
      const options = (hang: number) => ({ input: { steps: [] }, config: { configurable: { count: 5, hang } } })
      await client.runs.wait(thread, 'steps', { input: { steps: [] }, config: { configurable: { count: 2 } } })
      const before = await client.threads.getHistory(thread)
      const ways = { rollback: 'rollback', edit: 'interrupt', interrupt: 'interrupt' } as const
      for (const [way, action] of Object.entries(ways)) {
        const run = await client.runs.create(thread, 'steps', { ...options(4), metadata: { replay_kind: way } })
        await until(async () => (await client.threads.getState(thread)).next.includes('step'), 'its first checkpoints')
        await until(
          async () => listIn((await client.threads.getState(thread)).values, 'steps').length === 4,
          'two steps'
        )
        await client.runs.cancel(thread, run.run_id, true, action)
        const after = await client.threads.getHistory(thread)
        if (way !== 'interrupt') t.strictSame(after, before, way)
        else t.strictSame(listIn(after[0]!.values, 'steps').length, 4)
      }
      t.strictSame((await client.threads.getState(thread)).next, ['step'], 'its head keeps what was to come')
      t.equal((await client.threads.get(thread)).status, 'idle')
    }
  )

  await t.test('a graph that never yields is cancelled all the same, and its thread is free', async (t) => {
    const thread = await newThread(site)
    const run = await client.runs.create(thread, 'odd', { input: { what: 'hang' } })
    await until(async () => (await client.runs.get(thread, run.run_id)).status === 'running', 'the run to begin')
    await client.runs.cancel(thread, run.run_id, true)
    t.equal((await client.runs.get(thread, run.run_id)).status, 'interrupted')
    t.equal((await client.threads.get(thread)).status, 'idle')
    t.match(await client.runs.wait(thread, 'odd', { input: { what: 'fine' } }), { what: 'fine' })
  })
}

for (const isolation of ['none', 'worker'])
  t.test(`what a graph has left is there when it is not, isolation ${isolation}`, async (t) => {
    const config = (folder: string) => ({ agent: { runtime: 'graphs', config: folder }, graphs: { isolation } })
    const folder = graphsFolder(t, 'newest', { agent: 'graph', steps: 'steps' })
    const before = await openSite(t, { config: config(folder) })
    const person = await signIn(before)
    const thread = await person.thread()
    const path = `/api/threads/${thread}`
    t.equal((await person.post(`${path}/runs/wait`, { assistant_id: 'steps', input: FOO })).status, 200)
    const seen = async () => {
      const [state, history] = [await person.get(`${path}/state`), await person.post(`${path}/history`)]
      return { state: at(state.body, 'values'), ids: listIn(history.body).map((one) => at(one, 'checkpoint_id')) }
    }
    const said = await seen()
    t.match(said, { state: { messages: [{ content: 'foo' }], steps: ['step 0', 'step 1', 'step 2'] } })
    await before.stop()
    writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs: { agent: './agent.mjs:graph' } }))
    const after = await openSite(t, { home: before.home, config: config(folder) })
    person.url = after.url
    t.strictSame(await seen(), said)
    t.same(at((await person.get(path)).body, 'values'), said.state)
    t.equal((await person.post(`${path}/runs/wait`, { assistant_id: 'steps', input: FOO })).status, 404)
  })
