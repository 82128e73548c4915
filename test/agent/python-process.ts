// The process of a project's Python graphs: which interpreter it is, what it needs, and that it comes, is replaced and goes as it should.
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { interpreterOf } from '../../lib/langgraph/project/python-interpreter.ts'
import { PythonProcess } from '../../lib/langgraph/project/python-process.ts'
import { isAlive } from '../fixtures/alive.ts'
import { startChild } from '../fixtures/child.ts'
import { at, homeOf, listIn, openSite, type Site, signIn, until } from '../fixtures/gateway.ts'
import { PYTHON, PYTHON_MISSING, pythonFolder, pythonSite, SMALL } from '../fixtures/python-graphs.ts'

const options = { skip: PYTHON_MISSING, timeout: 240_000 }
const LOADED = 'the Python graphs are loaded'
/** What a new process takes beside its import, where nobody else works; ten times that is a failure. */
const MEANT_MS = 200
const saying = (content: string, configurable: object = {}) => ({
  assistant_id: 'agent',
  input: { messages: [{ role: 'user', content }] },
  config: { configurable }
})

/** What is said of each process that was started, in order. */
const loadedIn = ({ logged }: Pick<Site, 'logged'>) =>
  logged.filter(([, , text]) => text === LOADED).map(([, fields]) => fields)

/** What is said of versions; a busy machine makes others warn, too. */
const untested = ({ logged }: Pick<Site, 'logged'>) => logged.filter(([, fields]) => 'tested' in fields)

/** Sets variables of this process until the test is over. */
function withEnvironment(t: Test, variables: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name]
    const set = (text: string | undefined) => {
      if (text === undefined) delete process.env[name]
      else process.env[name] = text
    }
    t.teardown(() => set(before))
    set(value)
  }
}

function script(path: string, text: string): string {
  writeFileSync(path, `#!/bin/sh\n${text}\n`)
  chmodSync(path, 0o755)
  return path
}

t.test("the interpreter: the one named, else the environment's, the project's, uv's, the system's", async (t) => {
  const [folder, environment, tools] = [homeOf(t), homeOf(t), homeOf(t)]
  t.equal(await interpreterOf(folder, './mine/python'), join(folder, 'mine', 'python'))
  t.equal(await interpreterOf(folder, '/opt/python'), '/opt/python')
  t.equal(await interpreterOf(folder, 'python3.12'), 'python3.12')

  const own = (place: string) => {
    mkdirSync(join(place, 'bin'), { recursive: true })
    return script(join(place, 'bin', 'python'), '')
  }
  withEnvironment(t, { VIRTUAL_ENV: environment, PATH: `${tools}${delimiter}/usr/bin${delimiter}/bin` })
  t.equal(await interpreterOf(folder, null), 'python3', 'an environment without an interpreter is none')
  writeFileSync(join(folder, 'uv.lock'), '')
  t.equal(await interpreterOf(folder, null), 'python3', 'there is no uv')
  script(join(tools, 'uv'), 'exit 1')
  t.equal(await interpreterOf(folder, null), 'python3', 'uv has none')
  script(join(tools, 'uv'), `echo "$PWD $*" > ${tools}/asked; echo /uv/python`)
  t.equal(await interpreterOf(folder, null), '/uv/python')
  t.match(readFileSync(join(tools, 'asked'), 'utf8'), `${folder} run --no-sync python -c`, 'nothing is installed')
  const [beside, active] = [own(join(folder, '.venv')), own(environment)]
  t.equal(await interpreterOf(folder, null), active)
  withEnvironment(t, { VIRTUAL_ENV: undefined })
  t.equal(await interpreterOf(folder, null), beside)
})

/** The interpreter of the tests, after these lines. */
function pythonAfter(t: Test, lines: string): string {
  const folder = homeOf(t)
  writeFileSync(join(folder, 'sitecustomize.py'), lines)
  return script(join(folder, 'python'), `PYTHONPATH=${folder} exec ${PYTHON} "$@"`)
}

t.test('what is too old is one sentence with what to run, and what is not tested is a line', options, async (t) => {
  const folder = pythonFolder(t, SMALL)
  const starting = (python: string) => openSite(t, { config: { agent: { runtime: 'graphs', config: folder, python } } })
  const tested = await starting(PYTHON)
  const { stdout } = await promisify(execFile)(PYTHON, ['-c', 'import sys; print(*sys.version_info[:3], sep=".")'])
  t.match(loadedIn(tested), [{ python: stdout.trim() }])
  t.strictSame(untested(tested), [], 'of what is tested there is none')
  const versions = (langgraph: string) =>
    `import importlib.metadata as m\nreal = m.version\nm.version = lambda name: ${langgraph} if name == 'langgraph' else real(name)`
  await t.rejects(starting(pythonAfter(t, versions("'1.1.9'"))), {
    message: /has langgraph 1\.1\.9, and 1\.2 or later is needed: run `.*-m pip install 'langgraph>=1\.2,<2'`/
  })
  await t.rejects(starting(pythonAfter(t, versions('m.distribution("no-langgraph").version'))), {
    message: /has no langgraph: run `.*-m pip install 'langgraph>=1\.2,<2'`, or set agent\.python/
  })
  const says = (version: string) => `import sys\nsys.version_info = (${version}, 'final', 0)`
  await t.rejects(starting(pythonAfter(t, says('3, 10, 4'))), {
    message: /is Python 3\.10\.4, and graphs need 3\.11 or later: set agent\.python/
  })
  const next = await starting(pythonAfter(t, versions("'2.0.0'")))
  t.match(untested(next), [['warn', { langgraph: '2.0.0', tested: '1.x' }]])
  // What reads of it more than our process does would not find its way about in a version that there is not.
  const told = [
    'import sys\nreal = sys.version_info\nclass Told(tuple):',
    '    def __getitem__(self, at): return (3, 99, 1) if at == slice(None, 3) else tuple.__getitem__(self, at)',
    '    def __getattr__(self, name): return getattr(real, name)\nsys.version_info = Told(real)'
  ]
  const newer = await starting(pythonAfter(t, told.join('\n')))
  t.match(untested(newer), [['warn', { python: '3.99.1', tested: ['3.11', '3.12', '3.13'] }]])
})

t.test('output that nobody takes stops a graph after its superstep, and it goes on when it is', options, async (t) => {
  const count = 5000
  const folder = pythonFolder(t, {})
  const graphs = [{ id: 'steps', description: null, place: './agent.py', name: 'steps' }]
  let [chunks, taken] = [0, 0]
  const handlers = {
    ...{ load: async () => null, put: async () => {}, write: async () => {}, log: () => {} },
    chunk: () => void chunks++
  }
  const log = { info() {}, warn() {}, error() {} }
  const settings = { python: PYTHON, blockedMs: 0, memoryMb: 0 }
  const spec = { folder, name: 'project', dependencies: [], graphs }
  const { process } = await PythonProcess.start(spec, handlers, settings, log)
  t.teardown(() => process.close())
  const run = '6a7f4f4e-62c8-4b52-9d3c-1f2d3c4b5a69'
  const sent = {
    ...{ streamMode: ['values', 'custom'], subgraphs: false, runId: run, metadata: {}, recursionLimit: count + 2 },
    configurable: { thread_id: 'thread', count }
  }
  let isOver = false
  const over = process.call('stream', 1, 'steps', 'session', 'key', { values: { steps: [] } }, sent).finally(() => {
    isOver = true
  })
  let before = -1
  const stands = async () => {
    const same = chunks === before
    before = chunks
    await new Promise((resolve) => setTimeout(resolve, 300))
    return same && chunks > 0
  }
  await until(stands, 'the graph to stop', 60_000)
  t.ok(chunks < count, `after ${chunks} of ${2 * count} pieces`)
  t.notOk(isOver)
  while (!isOver) {
    process.send('heard', 1, chunks - taken)
    taken = chunks
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await over
  t.ok(chunks > 2 * count, 'all of them')
})

t.test('a process that is nearly full takes no new run, and says why', options, async (t) => {
  const folder = pythonFolder(t, SMALL)
  const first = await pythonSite(t, folder)
  const status = readFileSync(`/proc/${at(loadedIn(first.site)[0], 'pid')}/status`, 'utf8')
  const usedMb = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024
  const { person } = await pythonSite(t, folder, { agent: { python_memory_mb: Math.round(usedMb / 0.95) } })
  let body: unknown
  const isRefused = async () => {
    body = (await person.post('/api/runs/wait', saying('hi'))).body
    return at(body, '__error__', 'error') === 'GraphProcessFull'
  }
  await until(isRefused, 'the first look at its memory', 20_000)
  t.match(at(body, '__error__', 'message'), /it uses \d+ MB of \d+ \(agent\.python_memory_mb\)/)
})

t.test('after a process that has ended the next is there as soon as it is loaded', options, async (t) => {
  const { site, person } = await pythonSite(t, pythonFolder(t, SMALL))
  const times: number[] = []
  // A machine that is busy with others may hold up one of them.
  for (let n = 1; n <= 3 && !times.some((ms) => ms < MEANT_MS); n++) {
    const lost = await person.post('/api/runs/wait', saying('exit'))
    t.equal(at(lost.body, '__error__', 'error'), 'GraphProcessLost')
    const began = performance.now()
    t.match((await person.post('/api/runs/wait', saying('hi'))).body, { messages: [{}, { content: 'one two three' }] })
    times.push(Math.round(performance.now() - began - Number(at(loadedIn(site)[n], 'load_ms'))))
  }
  t.comment(`${times.join(', ')} ms beside the import`)
  t.ok(Math.min(...times) < 10 * MEANT_MS, `${times.join(', ')} ms`)
})

t.test('what a graph prints is among the events of its run', options, async (t) => {
  const { person } = await pythonSite(t, pythonFolder(t, SMALL))
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, saying('hi'))
  const [run] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
  const { body } = await person.get(`/api/threads/${thread}/runs/${at(run, 'run_id')}/events`)
  const lines = listIn(body).filter((one) => at(one, 'event_type') === 'middleware:log')
  t.match(
    lines.map((one) => at(one, 'content')),
    [
      { level: 'info', text: 'asked for hi' },
      { level: 'warn', text: 'working' }
    ]
  )
})

t.test(
  'agent.watch: an imported file is loaded anew, a broken one leaves the last good one, a run ends with its own',
  options,
  async (t) => {
    const folder = pythonFolder(t, { mine: './mine.py:mine', steps: './agent.py:steps' })
    const word = (text: string) => writeFileSync(join(folder, 'word.py'), text)
    word("word = 'one'")
    const lines = [
      'import agent, word',
      "mine = agent.made(agent.Steps, {'say': lambda state: {'steps': [word.word]}}, (agent.START, 'say'))"
    ]
    writeFileSync(join(folder, 'mine.py'), lines.join('\n'))
    const { site, person } = await pythonSite(t, folder, { agent: { watch: true } })
    const ask = async (assistant_id: string, more: object = {}) =>
      listIn((await person.post('/api/runs/wait', { assistant_id, input: { steps: [] }, ...more })).body, 'steps')
    t.strictSame(await ask('mine'), ['one'])
    const under = ask('steps', { config: { configurable: { count: 20, delay: 100 } } })
    word("word = 'two'")
    await until(async () => (await ask('mine'))[0] === 'two', 'the new graph', 60_000)
    t.equal((await under).length, 20)
    word('word = (')
    const isSaid = () => site.logged.some(([, , text]) => /the previous ones stay in use/.test(String(text)))
    await until(isSaid, 'the log to say so', 60_000)
    t.match(
      site.logged.find(([level]) => level === 'error'),
      ['error', { reason: /word\.py:1 cannot be loaded: SyntaxError/ }]
    )
    t.strictSame(await ask('mine'), ['two'])
    const [first] = loadedIn(site)
    await until(() => !isAlive(Number(at(first, 'pid'))), 'the old process to end')
  }
)

t.test('a gateway that is killed leaves no process behind, though a graph never yields', options, async (t) => {
  const folder = pythonFolder(t, { rough: './agent.py:rough' })
  const config = { agent: { runtime: 'graphs', config: folder, python: PYTHON } }
  const child = await startChild(t, { config })
  const person = await signIn(child)
  const body = {
    assistant_id: 'rough',
    input: { steps: [] },
    config: { configurable: { what: 'spin', folder } }
  }
  await person.post(`/api/threads/${await person.thread()}/runs`, body)
  await until(() => readFileSync(join(folder, 'begun'), { encoding: 'utf8', flag: 'a+' }) === 'spin', 'it spins')
  const line = child.log.split('\n').find((one) => one.includes(LOADED)) ?? ''
  // The first of the line is the gateway's own.
  const pid = Number(/"pid":\d+,.*"pid":(\d+)/.exec(line)?.[1])
  t.ok(isAlive(pid))
  await child.kill()
  await until(() => !isAlive(pid), 'the process of its graphs to end', 20_000)
})

t.test(
  'where the process does not start again, states are 503 with the reason, and lists go on',
  options,
  async (t) => {
    const folder = pythonFolder(t, SMALL)
    const { person } = await pythonSite(t, folder)
    const thread = await person.thread()
    await person.post(`/api/threads/${thread}/runs/wait`, saying('hi'))
    const source = readFileSync(join(folder, 'small.py'), 'utf8')
    writeFileSync(join(folder, 'small.py'), 'import not_there\n')
    await person.post('/api/runs/wait', saying('exit'))
    const path = `/api/threads/${thread}`
    for (const { status, body } of [await person.get(`${path}/state`), await person.post(`${path}/history`, {})]) {
      t.equal(status, 503)
      t.match(at(body, 'detail'), /small\.py:1 cannot be loaded: ModuleNotFoundError.*pip install not_there/)
    }
    const listed = await person.post('/api/threads/search', {})
    t.ok(listIn(listed.body).some((one) => at(one, 'thread_id') === thread))
    t.equal((await person.get(`/api/threads/${thread}/messages`)).status, 200)
    writeFileSync(join(folder, 'small.py'), source)
    const { body } = await person.get(`/api/threads/${thread}/state`)
    t.equal(listIn(body, 'values', 'messages').length, 2, 'and when it does, they are there')
  }
)
