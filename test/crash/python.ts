// Runs of Python graphs that are cut: by a process that is stopped or killed, and by their own process. They go on after the superstep that
// was stored last.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { at, listIn, Person, signIn, until } from '../fixtures/gateway.ts'
import { IS_LONG } from '../fixtures/size.ts'
import { PYTHON, PYTHON_MISSING, pythonFolder, pythonSite } from '../fixtures/python-graphs.ts'

const options = { skip: PYTHON_MISSING, timeout: 240_000 }
const COUNT = 10
const GRAPHS = { steps: './agent.py:steps' }
const WHOLE_STEPS = Array.from({ length: COUNT }, (_, n) => `step ${n}`)

/** A run of ten supersteps that leave their numbers in a file when they begin. */
function longRun(file: string, more: object = {}) {
  const configurable = { count: COUNT, delay: 150, file, ...more }
  return { assistant_id: 'steps', input: { steps: [] }, config: { configurable }, stream_mode: ['values'] }
}

function stepsIn(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ') : []
}

const hasBegun = (file: string, count: number) => until(() => stepsIn(file).length >= count, `step ${count} to begin`)

t.test(
  'on_restart resume: a run goes on after a stop, which it does not hold up, and after a kill',
  options,
  async (t) => {
    const folder = pythonFolder(t, GRAPHS)
    const config = {
      agent: { runtime: 'graphs', config: folder, python: PYTHON },
      runs: { on_restart: 'resume' },
      server: { shutdown_grace_ms: 60_000 }
    }
    const first = await startChild(t, { config })
    const person = await signIn(first)
    const thread = await person.thread()
    const file = join(folder, 'begun')
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream`, { body: longRun(file) })
    await hasBegun(file, 3)
    t.strictSame(await first.stop(), { code: 0, signal: null })
    t.equal(await stream.ended, 'reset', 'its reader comes back')
    const count = stepsIn(file).length
    t.ok(count < COUNT, `it was stopped after ${count} supersteps`)

    const second = await startChild(t, { config, home: first.home })
    person.url = second.url
    await hasBegun(file, count + 3)
    t.strictSame(
      stepsIn(file),
      Array.from({ length: stepsIn(file).length }, (_, n) => String(n)),
      'a stopped run has done each superstep once'
    )
    await second.kill()
    const third = await startChild(t, { config, home: first.home })
    person.url = third.url
    const rest = await (await person.join(stream.runPath, stream.lastId)).whole()
    t.strictSame(at(JSON.parse(rest.findLast(({ event }) => event === 'values')!.data), 'steps'), WHOLE_STEPS)
    t.match((await person.get(stream.runPath)).body, { status: 'success' })
    const ids = [...stream.frames, ...rest].flatMap(({ id }) => id ?? [])
    t.equal(new Set(ids).size, ids.length, 'no frame comes twice')
  }
)

t.test(
  'without it a run that would outlast the grace ends between two supersteps, and the next goes on',
  { ...options, skip: PYTHON_MISSING || !IS_LONG },
  async (t) => {
    const folder = pythonFolder(t, GRAPHS)
    const config = {
      agent: { runtime: 'graphs', config: folder, python: PYTHON },
      server: { shutdown_grace_ms: 1000 }
    }
    const first = await startChild(t, { config })
    const person = await signIn(first)
    const thread = await person.thread()
    const file = join(folder, 'begun')
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream`, {
      body: longRun(file, { delay: 200 })
    })
    await hasBegun(file, 1)
    t.strictSame(await first.stop(), { code: 0, signal: null })
    const next = await startChild(t, { config, home: first.home })
    const again = new Person(next.url, person.cookies)
    t.match((await again.get(stream.runPath)).body, { status: 'interrupted', stop_reason: 'shutdown' })
    const { body } = await again.post(`/api/threads/${thread}/runs/wait`, { ...longRun(file), input: null })
    t.strictSame(listIn(body, 'steps'), WHOLE_STEPS)
    t.equal(stepsIn(file).length, COUNT, 'no superstep was cut')
  }
)

t.test(
  'on_restart resume: runs go on in a new process of their graphs, unless they end each one',
  options,
  async (t) => {
    const { site, folder, person } = await pythonSite(t, pythonFolder(t, GRAPHS), { runs: { on_restart: 'resume' } })
    const thread = await person.thread()
    const file = join(folder, 'begun')
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream`, { body: longRun(file) })
    const behind = person.post(`/api/threads/${thread}/runs/wait`, {
      ...longRun(join(folder, 'behind'), { count: COUNT + 1 }),
      multitask_strategy: 'enqueue'
    })
    await hasBegun(file, 4)
    const pid = at(site.logged.find(([, , text]) => text === 'the Python graphs are loaded')?.[1], 'pid')
    process.kill(Number(pid), 'SIGKILL')
    t.equal(await stream.ended, 'reset')
    const rest = await (await person.join(stream.runPath, stream.lastId)).whole()
    t.match((await person.get(stream.runPath)).body, { status: 'success' })
    t.strictSame(at(JSON.parse(rest.findLast(({ event }) => event === 'values')!.data), 'steps'), WHOLE_STEPS)
    t.strictSame(listIn((await behind).body, 'steps'), [...WHOLE_STEPS, 'step 10'], 'the run behind it has waited')

    if (!IS_LONG) return
    const dies = await person.post('/api/runs/wait', longRun(join(folder, 'dies'), { die: 1 }))
    t.equal(at(dies.body, '__error__', 'error'), 'GraphProcessLost')
    t.equal(stepsIn(join(folder, 'dies')).filter((step) => step === '1').length, 3, 'three attempts')
  }
)
