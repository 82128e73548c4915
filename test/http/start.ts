// A start: what the process before has left behind is touched by one that serves, and by nothing that fails before.
import { createServer } from 'node:net'
import t from 'tap'
import { loadConfig } from '../../lib/config/config.ts'
import { startGateway } from '../../lib/gateway.ts'
import { Readiness } from '../../lib/run/lifecycle/readiness.ts'
import { openStore } from '../../lib/store/open.ts'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { startChild } from '../fixtures/child.ts'
import { ScriptedAgent } from '../fixtures/agent.ts'
import { aRoute, health, openDoor } from '../fixtures/door.ts'
import { freePort } from '../fixtures/free-port.ts'
import { configFile, homeOf, listIn, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { loopTurns } from '../fixtures/until.ts'

/** One whose store is well. */
const readinessOf = (patienceMs: number) => new Readiness({ stuck: () => null, trouble: async () => null }, patienceMs)
const silent = { info() {}, warn() {}, error() {} }

onEachBackend(t, 'a start that fails leaves queued runs to the one that does not', async (t, backend) => {
  if (backend === 'memory') return void t.pass('nothing is left behind')
  const home = homeOf(t)
  const config = { database: await databaseSection(t, backend), server: { shutdown_grace_ms: 0 } }
  const child = await startChild(t, { home, config })
  const person = await signIn(child)
  const thread = await person.thread()
  const running = await person.stream(thread, '/demo deltas=9999 rate=50', { stream_mode: ['messages-tuple'] })
  await running.untilFrames(5)
  const waiting = await person.run(thread, '/demo deltas=3 rate=0', { multitask_strategy: 'enqueue' })
  await child.kill()

  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const address = taken.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const source = { file: configFile(home, config), home, port, env: {}, cwd: home }
  const agent = new ScriptedAgent()
  await t.rejects(startGateway({ config: loadConfig(source), log: silent, agent }), /EADDRINUSE/)
  taken.close()
  t.same(agent.started, [], 'nothing was begun')

  person.url = (await startChild(t, { home, config })).url
  await until(async () => textIn((await person.get(waiting)).body, 'status') === 'success', 'the queued run')
  t.match((await person.get(running.runPath)).body, { status: 'error', stop_reason: 'server_restart' })
})

t.test('who asks before runs of the process before are taken care of is answered when they are', async (t) => {
  const home = homeOf(t)
  const port = await freePort()
  const config = loadConfig({ file: configFile(home), home, port, env: {}, cwd: home })
  const store = await openStore(config, () => {})
  t.teardown(() => store.close())
  let isOpen = false
  const unfinished = async () => {
    await until(() => isOpen, 'the store answers')
    return store.runs.unfinished(null)
  }
  const starting = startGateway({ config, log: silent, store: { ...store, runs: { ...store.runs, unfinished } } })
  const person = new Person(`http://127.0.0.1:${port}`)
  const answers = (path: string) => person.get(path).catch(() => null)
  await until(async () => (await answers('/health'))?.status === 200, 'it listens')
  let answered = 0
  const early = [
    person.post('/api/v1/auth/initialize', { email: 'ann@example.com', password: 'correct-horse-42' }),
    new Person(person.url).get('/api/threads/search')
  ]
  for (const one of early) void one.finally(() => answered++)
  t.match((await person.get('/readyz')).body, { reason: 'the server is starting' })
  await loopTurns()
  t.equal(answered, 0, 'they wait')
  isOpen = true
  const gateway = await starting
  t.same(
    (await Promise.all(early)).map(({ status }) => status),
    [201, 401]
  )
  t.equal((await person.get('/readyz')).status, 200)
  t.same(listIn((await person.post('/api/threads/search')).body), [])
  await gateway.stop()
})

t.test('a start that takes too long refuses with 503 who waits for it, and asks to come back', async (t) => {
  const readiness = readinessOf(0)
  const door = await openDoor(t, [health, aRoute({})], { notYet: readiness.notYet })
  t.equal((await door.knock('GET', '/health')).status, 200)
  const refused = await door.knock('GET', '/api/x', { as: 'ann' })
  t.equal(refused.status, 503)
  t.match(refused.headers['retry-after'], /^\d+$/)
  readiness.serve()
  t.equal((await door.knock('GET', '/api/x', { as: 'ann' })).status, 200)
})

t.test('a stop lets go who waits for the start', async (t) => {
  const readiness = readinessOf(600_000)
  const asked = readiness.notYet()
  readiness.stop()
  t.equal(await asked, null)
})
