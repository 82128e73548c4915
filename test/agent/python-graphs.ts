// Python graphs: their process, and what the gateway has of it. What they are beyond that, the rules of agent/graphs say of both languages.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { at, homeOf, listIn, openSite, textIn, until } from '../fixtures/gateway.ts'
import { isAlive } from '../fixtures/alive.ts'
import { all, type GraphSite, graphsFolder, refusesLongStates, SHORT_STATES } from '../fixtures/graphs.ts'
import { within } from '../fixtures/until.ts'
import { openProtocol } from '../fixtures/protocol.ts'
import { IS_LONG } from '../fixtures/size.ts'
import { PYTHON, PYTHON_MISSING, pythonFolder, pythonSite, SMALL } from '../fixtures/python-graphs.ts'

const options = { skip: PYTHON_MISSING, timeout: 240_000 }
const saying = (content: string, more: Record<string, unknown> = {}) => ({
  input: { messages: [{ role: 'user', content }] },
  config: { configurable: more }
})
const contents = (state: unknown) => listIn(state, 'messages').map((one) => at(one, 'content'))

t.test('graphs of both languages in one file stream, ask, go on, and are read', options, async (t) => {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' })
  pythonFolder(t, { ...SMALL, js: './agent.mjs:graph' }, {}, folder)
  const { client, person, site } = await pythonSite(t, folder)
  t.strictSame(
    (await client.assistants.search()).map(({ graph_id }) => graph_id).sort(),
    ['agent', 'js', 'sleeper'],
    'all are listed'
  )
  const { thread_id: thread } = await client.threads.create()
  const streamMode = ['messages-tuple', 'values', 'updates'] as ['messages-tuple', 'values', 'updates']
  const chunks = await all(client.runs.stream(thread, 'agent', { ...saying('hi'), streamMode }))
  const pieces = chunks.filter(({ event }) => event === 'messages').map(({ data }) => at(data, 0, 'content'))
  t.equal(pieces.join(''), 'one two three', 'piece by piece')
  t.equal(at(chunks.find(({ event }) => event === 'messages')?.data, 1, 'langgraph_node'), 'node')
  t.strictSame(
    chunks.map(({ event }) => event).filter((event) => event !== 'messages'),
    ['metadata', 'values', 'updates', 'values', 'end']
  )
  const state = await client.threads.getState(thread)
  t.strictSame([contents(state.values), state.next], [['hi', 'one two three'], []])
  t.strictSame(
    (await client.threads.getHistory(thread)).map(({ values, next }) => [contents(values).length, next]),
    [
      [2, []],
      [1, ['node']],
      [0, ['__start__']]
    ]
  )
  const events = await person.get(`/api/threads/${thread}/messages`)
  t.strictSame(
    listIn(events.body).map((event) => at(event, 'event_type')),
    ['human_message', 'ai_message']
  )
  t.match(await client.runs.wait(thread, 'agent', saying('ask')), { __interrupt__: [{ value: { question: 'Tea?' } }] })
  t.match((await client.threads.get(thread)).status, 'interrupted')
  t.match(await client.runs.wait(thread, 'agent', { command: { resume: 'yes' } }), { answer: 'yes' })
  await client.threads.updateState(thread, { values: { answer: 'no' } })
  t.match((await client.threads.getState(thread)).values, { answer: 'no' })
  t.strictSame(contents(await client.runs.wait(null, 'js', saying('foo'))).length, 4, 'JavaScript beside it')
  const line = site.logged.find(([, , text]) => text === 'asked for hi')
  t.match(line, ['info', { run_id: String, stream: 'stdout' }], 'what it prints is in the log, with its run')
  t.match(
    site.logged.find(([, , text]) => text === 'working'),
    ['warn', { run_id: String, logger: 'project' }]
  )
  const processes = site.logged.filter(([, fields]) => 'load_ms' in fields).map(([, , text]) => text)
  t.strictSame(processes, ['the Python graphs are loaded'], 'without rules and an app there is no process for them')
})

t.test('a state that is too long begins no run, in either language', options, async (t) => {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' })
  pythonFolder(t, { ...SMALL, js: './agent.mjs:graph' }, {}, folder)
  const site = await pythonSite(t, folder, SHORT_STATES)
  for (const graph of ['agent', 'js']) await refusesLongStates(t, site, graph)
})

t.test('a state is given to its own project alone', options, async (t) => {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' })
  pythonFolder(t, { ...SMALL, js: './agent.mjs:graph' }, {}, folder)
  const { client, person } = await pythonSite(t, folder)
  const { thread_id: thread } = await client.threads.create()
  await client.runs.wait(thread, 'agent', saying('hi'))
  const theirs = await person.post(`/api/threads/${thread}/runs/wait`, { assistant_id: 'js', ...saying('hi') })
  t.equal(at(theirs.body, '__error__', 'error'), 'StateOfAnotherProject')
  t.equal((await person.get(`/api/threads/${thread}/state`)).status, 409)
  t.equal((await person.post('/api/threads/search', {})).status, 200, 'lists are as before')
})

t.test('what a Python graph has left is there when it is not, also beside other languages', options, async (t) => {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' })
  pythonFolder(t, { js: './agent.mjs:graph', ...SMALL }, {}, folder)
  const { person, site } = await pythonSite(t, folder)
  const thread = await person.thread()
  const path = `/api/threads/${thread}`
  await person.post(`${path}/runs/wait`, { assistant_id: 'agent', ...saying('hi') })
  const seen = async () => {
    const [state, history] = [await person.get(`${path}/state`), await person.post(`${path}/history`, {})]
    return { state: at(state.body, 'values'), ids: listIn(history.body).map((one) => at(one, 'checkpoint_id')) }
  }
  const before = await seen()
  t.strictSame([contents(before.state), before.ids.length], [['hi', 'one two three'], 3])
  await site.stop()
  for (const graphs of [{ js: './agent.mjs:graph', sleeper: SMALL.sleeper }, { sleeper: SMALL.sleeper }]) {
    pythonFolder(t, graphs, {}, folder)
    const agent = { runtime: 'graphs', config: folder, python: PYTHON }
    const after = await openSite(t, { home: site.home, config: { agent } })
    person.url = after.url
    t.strictSame(await seen(), before)
    t.same(at((await person.get(path)).body, 'values'), before.state)
    await after.stop()
  }
})

t.test('nor to another project in Python: 409 by name, and one that is moved has its own', options, async (t) => {
  const folder = pythonFolder(t, SMALL)
  const project = (name: string) => writeFileSync(join(folder, 'pyproject.toml'), `[project]\nname = "${name}"\n`)
  project('mine')
  const first = await pythonSite(t, folder)
  const thread = await first.person.thread()
  const path = `/api/threads/${thread}`
  await first.person.post(`${path}/runs/wait`, { assistant_id: 'agent', ...saying('hi') })
  const { home } = first.site
  const next = async (config: string) => {
    await site.stop()
    site = await openSite(t, { home, config: { agent: { runtime: 'graphs', config, python: PYTHON } } })
    first.person.url = site.url
  }
  let { site } = first
  project('theirs')
  await next(folder)
  for (const { status, body } of [
    await first.person.get(`${path}/state`),
    await first.person.post(`${path}/history`, {}),
    await first.person.post(`${path}/state`, { values: { answer: 'x' } })
  ]) {
    t.equal(status, 409)
    t.match(at(body, 'detail'), /was written by the project mine, and is not given to the project theirs/)
  }
  const { body } = await first.person.post(`${path}/runs/wait`, { assistant_id: 'agent', ...saying('hi') })
  t.equal(at(body, '__error__', 'error'), 'StateOfAnotherProject')
  const moved = pythonFolder(t, SMALL)
  writeFileSync(join(moved, 'pyproject.toml'), '[project]\nname = "mine"\n')
  await next(moved)
  t.strictSame(contents(at((await first.person.get(`${path}/state`)).body, 'values')), ['hi', 'one two three'])
})

t.test('a message is one body of the state: a turn stores what is new', options, async (t) => {
  const { client, site } = await pythonSite(t, pythonFolder(t, SMALL), { database: { backend: 'sqlite' } })
  const { thread_id: thread } = await client.threads.create()
  await client.runs.wait(thread, 'agent', saying('x'.repeat(200_000)))
  const db = connect(join(site.home, 'data', 'colloquy.db'))
  t.teardown(() => db.close())
  const stored = () => db.prepare<[], number>('SELECT sum(length(data)) FROM graph_values').pluck().get() ?? 0
  const before = stored()
  t.ok(before > 200_000, `${before} characters`)
  await client.runs.wait(thread, 'agent', saying('hi'))
  t.ok(stored() - before < 20_000, `${stored() - before} more`)
  t.equal(contents((await client.threads.getState(thread)).values).length, 4)
  const [run] = await client.runs.list(thread)
  const frames = await all(client.runs.joinStream(thread, run!.run_id, { streamMode: ['values'] }))
  const shown = frames.filter(({ event }) => event === 'values').map(({ data }) => contents(data).length)
  t.strictSame(shown, [3, 4], 'and what was shown is shown again')
})

t.test('a process that ends fails its runs by name, and the next run has a new one', options, async (t) => {
  const { client, person } = await pythonSite(t, pythonFolder(t, SMALL))
  const { thread_id: thread } = await client.threads.create()
  await client.runs.wait(thread, 'agent', saying('hi'))
  const failed = await person.post(`/api/threads/${thread}/runs/wait`, { assistant_id: 'agent', ...saying('exit') })
  t.equal(at(failed.body, '__error__', 'error'), 'GraphProcessLost')
  t.match(at(failed.body, '__error__', 'message'), /it has exited with 7/)
  t.strictSame(contents(await client.runs.wait(thread, 'agent', saying('hi'))).at(-1), 'one two three')
  const left = await person.post('/api/runs/wait', { assistant_id: 'agent', ...saying('leave') })
  t.equal(at(left.body, '__error__', 'error'), 'SystemExit', 'what Python raises fails its run')
  const raised = await person.post('/api/runs/wait', { assistant_id: 'agent', ...saying('base') })
  t.match(raised.body, { __error__: { error: 'Own', message: 'mine' } })
  const mute = await person.post('/api/runs/wait', { assistant_id: 'agent', ...saying('mute') })
  t.match(mute.body, { __error__: { error: 'Mute', message: 'Mute' } }, 'also what fails at saying what it is')
  const long = await person.post('/api/runs/wait', { assistant_id: 'agent', ...saying('long') })
  t.equal(textIn(long.body, '__error__', 'message').length, 8000, 'and no more of it than somebody reads')
  t.equal(contents(await client.runs.wait(thread, 'agent', saying('hi'))).at(-1), 'one two three', 'and nothing else')
})

t.test('what a graph has started ends with its process, however that ends', options, async (t) => {
  const ways = {
    'it ends itself': ({ client }: GraphSite) => client.runs.wait(null, 'agent', saying('exit')).catch(() => null),
    'the gateway stops': ({ site }: GraphSite) => site.stop()
  }
  for (const [way, end] of Object.entries(ways)) {
    const place = await pythonSite(t, pythonFolder(t, SMALL))
    const forked = await place.person.post('/api/runs/wait', { assistant_id: 'agent', ...saying('fork') })
    const pid = Number(textIn(forked.body, 'answer'))
    t.ok(pid > 0 && isAlive(pid), way)
    await end(place)
    await until(() => !isAlive(pid), `${way}: the child has ended`)
  }
})

t.test('whatever ends, blocks or fills the process is said, and the next run has a new one', options, async (t) => {
  const folder = pythonFolder(t, SMALL)
  const blocking = await pythonSite(t, folder, { agent: { python_blocked_ms: 1000 } })
  const filling = await pythonSite(t, folder, { agent: { python_memory_mb: 600 } })
  // A million events that nobody has read yet take hundreds of megabytes, and on a busy machine a while.
  const plain = await pythonSite(t, folder, { agent: { python_blocked_ms: 0, python_memory_mb: 0 } })
  const cases: readonly (readonly [what: string, error: string, said: RegExp])[] = [
    ['crash', 'GraphProcessLost', /SIGSEGV/],
    ['block', 'GraphProcessLost', /blocked its event loop for 1000 ms/],
    ['hoard', 'GraphProcessLost', /uses more than 600 MB/],
    ['object', 'TypeError', /not msgpack serializable/],
    ['memory', 'MemoryError', /MemoryError/],
    ['million', 'RunOutgrown', /that nobody has taken yet/]
  ]
  for (const [what, error, said] of IS_LONG ? cases : cases.slice(0, 1)) {
    // A busy machine makes whatever works for a while block its loop.
    const { client, person } = what === 'block' ? blocking : what === 'hoard' ? filling : plain
    const { body } = await person.post('/api/runs/wait', { assistant_id: 'agent', ...saying(what) })
    t.equal(at(body, '__error__', 'error'), error, what)
    t.match(at(body, '__error__', 'message'), said)
    t.equal(contents(await client.runs.wait(null, 'agent', saying('hi'))).at(-1), 'one two three', 'the next')
  }
  const stack = blocking.site.logged.some(
    ([, fields, text]) => at(fields, 'stream') === 'stderr' && /small\.py/.test(String(text))
  )
  if (IS_LONG) t.ok(stack, 'of a blocked one the stack is logged')
})

t.test(
  'a run that floods its output is answered, and the log has an end',
  { ...options, skip: !IS_LONG || PYTHON_MISSING },
  async (t) => {
    const { client, site } = await pythonSite(t, pythonFolder(t, SMALL))
    t.equal(contents(await client.runs.wait(null, 'agent', saying('flood'))).at(-1), 'one two three')
    const lines = site.logged.filter(([, , text]) => String(text).startsWith('line '))
    t.ok(lines.length > 0 && lines.length <= 10_000, `${lines.length} lines`)
  }
)

t.test("what a graph's stream transformers make is for readers of protocol v2", options, async (t) => {
  const { person } = await pythonSite(t, pythonFolder(t, { counted: './small.py:counted' }))
  const client = await openProtocol(person, randomUUID())
  await client.subscribe()
  await client.start(saying('hi').input, { assistant_id: 'counted' })
  await client.untilEnds(1)
  client.close()
  const made = client.events.filter(({ method }) => method === 'custom').map(({ params }) => params.data)
  t.match(made, [
    ...[1, 2, 3, 4, 5].map((count) => ({ name: 'words', payload: { count } })),
    { name: 'total', payload: 5 }
  ])
  t.ok(client.events.some(({ method }) => method === 'messages'))
})

t.test(
  'a factory has the context of a run, also when its state is read; metadata is kept whole',
  options,
  async (t) => {
    const { client } = await pythonSite(t, pythonFolder(t, { made: './small.py:made' }))
    const { thread_id: thread } = await client.threads.create()
    const metadata = { list: [1], none: null, nested: { deep: true } }
    const asked = { input: { messages: [] }, context: { node: 'loud' }, metadata }
    t.match(await client.runs.wait(thread, 'made', asked), { answer: 'loud' })
    const [last, before] = await client.threads.getHistory(thread)
    t.strictSame(before?.next, ['loud'])
    t.match(last?.metadata, { ...metadata, node: 'loud' })
  }
)

t.test(
  'a graph may be a function’s, a coroutine’s or a context’s, which ends with its call, an entrypoint, or a module’s',
  options,
  async (t) => {
    const names = ['made_later', 'held', 'held_plainly', 'entry']
    const graphs = Object.fromEntries(names.map((name) => [name, `./small.py:${name}`]))
    const { client, site } = await pythonSite(t, pythonFolder(t, { ...graphs, module: 'small:graph' }))
    const ask = (graph: string, answer = '') => client.runs.wait(null, graph, { input: { messages: [], answer } })
    for (const name of ['made_later', 'held', 'held_plainly']) t.match(await ask(name), { answer: 'quiet' }, name)
    t.match(await ask('entry', 'this'), { answer: 'entered with this' })
    t.equal(contents(await client.runs.wait(null, 'module', saying('hi'))).at(-1), 'one two three')
    const isSaid = (text: string) => site.logged.some(([, , line]) => line === text)
    await until(() => isSaid('closed for threads.create_run'), 'the context to be closed')
    t.ok(isSaid('opened for threads.create_run'))
  }
)

t.test('what a node’s cache has is told as such, and the node does not run', options, async (t) => {
  const { client } = await pythonSite(t, pythonFolder(t, { cached: './small.py:cached' }))
  const told = async () => {
    const streamMode = ['updates'] as ['updates']
    const chunks = await all(client.runs.stream(null, 'cached', { input: { messages: [] }, streamMode }))
    return chunks.find(({ event }) => event === 'updates')?.data
  }
  t.strictSame(await told(), { remember: { answer: 'call 1' } })
  t.strictSame(await told(), { remember: { answer: 'call 1' }, __metadata__: { cached: true } })
})

t.test('the first call of a factory may take as long as a start, and no other', options, async (t) => {
  const agent = { python_blocked_ms: 1000 }
  const { person } = await pythonSite(t, pythonFolder(t, { slow: './small.py:slow' }), { agent })
  const run = async (sleep: number) => {
    const asked = { assistant_id: 'slow', input: { messages: [] }, context: { sleep } }
    return (await person.post('/api/runs/wait', asked)).body
  }
  t.match(await run(0), { answer: 'quiet' })
  t.match(await run(20), { __error__: { error: 'GraphProcessLost', message: /for 1000 ms/ } })
})

t.test('channels of its own, and words of graphs it calls for itself, are not told', options, async (t) => {
  const graphs = { private: './small.py:private', delegating: './small.py:delegating' }
  const folder = pythonFolder(t, graphs)
  const { client } = await pythonSite(t, folder)
  const streamMode = ['values', 'updates', 'messages-tuple'] as ['values', 'updates', 'messages-tuple']
  const told = async (graph: string) => all(client.runs.stream(null, graph, { input: { messages: [] }, streamMode }))
  const ofPrivate = (await told('private')).filter(({ event }) => event === 'values' || event === 'updates')
  t.match(ofPrivate, [{}, { data: { keep: { answer: 'told' } } }, { data: { answer: 'told' } }])
  t.notMatch(JSON.stringify(ofPrivate), 'secret')
  // LangGraph 1.2.0 tells those words, the newest does not: so do we.
  const ask = 'import asyncio, small; print(len(asyncio.run(small.words_of(small.delegating))))'
  const { stdout } = await promisify(execFile)(PYTHON, ['-c', ask], { cwd: folder })
  const words = (await told('delegating')).filter(({ event }) => event === 'messages')
  t.equal(words.length, Number(stdout.trim().split('\n').at(-1)))
})

t.test('a cancel ends a run at once, and what a synchronous node gives later is refused', options, async (t) => {
  const { client, person, folder, site } = await pythonSite(t, pythonFolder(t, SMALL))
  for (const [graph, content] of [
    ['agent', 'hang'],
    ['sleeper', 'hi']
  ] as const) {
    const { thread_id: thread } = await client.threads.create()
    const { headers } = await person.post(`/api/threads/${thread}/runs`, {
      assistant_id: graph,
      ...saying(content, { folder })
    })
    const run = textIn({ path: headers.get('content-location') }, 'path')
    const hasBegun = async () => at((await client.threads.getState(thread)).values, 'messages', 0) !== undefined
    await until(hasBegun, 'the node to begin')
    const cancelled = await within(t, 100, `the cancel of ${graph}`, () => person.post(`${run}/cancel?wait=1`))
    t.equal(cancelled.status, 204)
    t.equal(at((await person.get(run)).body, 'status'), 'interrupted')
    if (graph !== 'sleeper') continue
    await until(() => existsSync(join(folder, 'slept')), 'the node to end')
    t.notOk(at((await client.threads.getState(thread)).values, 'answer'), 'it has written nothing')
  }
  t.notOk(site.logged.some(([level]) => level === 'error'))
})

t.test('what cannot be loaded is one sentence with file, line, and what to run', options, async (t) => {
  const folder = homeOf(t)
  const starting = async (python: string, graphs: object) => {
    writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs }))
    return openSite(t, { config: { agent: { runtime: 'graphs', config: folder, python } } })
  }
  writeFileSync(join(folder, 'needs.py'), 'import os\nimport not_there\n')
  await t.rejects(starting(PYTHON, { a: './needs.py:graph' }), {
    message: /needs\.py:2 cannot be loaded: ModuleNotFoundError: .*python -m pip install not_there`/
  })
  const remedies: readonly (readonly [file: string, run: RegExp])[] = [
    ['pyproject.toml', /run `.*-m pip install -e /],
    ['requirements.txt', /run `.*-m pip install -r .*requirements\.txt`/],
    ['uv.lock', /run `uv sync` in /]
  ]
  for (const [file, message] of remedies) {
    writeFileSync(join(folder, file), '')
    await t.rejects(starting(PYTHON, { a: './needs.py:graph' }), { message })
  }
  writeFileSync(join(folder, 'broken.py'), 'x = 1\ndef (:\n')
  await t.rejects(starting(PYTHON, { a: './broken.py:graph' }), {
    message: /broken\.py:2 cannot be loaded: SyntaxError/
  })
  await t.rejects(starting(PYTHON, { a: './missing.py:graph' }), { message: /There is no file .*missing\.py/ })
  await t.rejects(starting(PYTHON, { a: './broken.py' }), { message: /write ".\/broken\.py:name"/ })
  writeFileSync(join(folder, 'empty.py'), 'graph = 1\n')
  await t.rejects(starting(PYTHON, { a: './empty.py:graph' }), { message: /graph of .\/empty\.py is no graph/ })
  await t.rejects(starting(join(folder, 'no-python'), { a: './empty.py:graph' }), { message: /cannot be started/ })
})
