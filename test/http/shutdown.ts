// A deploy: SIGTERM to the process that people talk to. Nobody is told that an answer is complete which is not, and whoever comes
// back to the next process finds all there was.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { demoWord } from '../../lib/agent/demo.ts'
import { Child, startChild } from '../fixtures/child.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, homeOf, listIn, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type Stream, textOf } from '../fixtures/stream.ts'

const LONG = '/demo deltas=9999 rate=50'
const MODES = { stream_mode: ['messages-tuple', 'values'] }

async function open(t: Test, graceMs: number): Promise<{ child: Child; person: Person }> {
  const child = await startChild(t, { config: { server: { shutdown_grace_ms: graceMs } } })
  return { child, person: await signIn(child) }
}

// Most of it is waiting for answers at their pace, and for processes.
t.jobs = 3

async function restart(t: Test, child: Child, person: Person): Promise<Child> {
  const next = await startChild(t, { home: child.home })
  person.url = next.url
  return next
}

async function isStopping(person: Person): Promise<boolean> {
  return person.get('/readyz').then(
    ({ status }) => status !== 200,
    () => true
  )
}

t.test('while a process leaves it is not ready, and serves whoever comes all the same', async (t) => {
  const child = await startChild(t, { config: { server: { drain_ms: 1500, shutdown_grace_ms: 200 } } })
  const person = await signIn(child)
  const stopped = child.stop()
  await until(async () => (await person.get('/readyz')).status === 503, 'it is not ready')
  const answer = await person.post('/api/runs/wait', asked('/demo deltas=2 rate=0'))
  t.match(answer, { status: 200, body: { messages: [{}, {}] } }, 'a run from its start to its end')
  t.same(await stopped, { code: 0, signal: null })
})

t.test(
  'what does not end within the grace is kept as it is, its readers are reset and get the rest later',
  async (t) => {
    const { child, person } = await open(t, 200)
    const talks: { threadId: string; stream: Stream }[] = []
    for (let i = 0; i < 4; i++) {
      const threadId = await person.thread()
      talks.push({ threadId, stream: await person.stream(threadId, LONG, MODES) })
    }
    await Promise.all(talks.map(({ stream }) => stream.untilFrames(20)))
    t.same(await child.stop(), { code: 0, signal: null })
    for (const { stream } of talks) {
      t.equal(await stream.ended, 'reset', 'not an end, which a client or a proxy would believe')
      t.notOk(stream.frames.some(({ event }) => event === 'end'))
    }

    await restart(t, child, person)
    const all = Array.from({ length: 9999 }, (_, n) => demoWord(n)).join('')
    for (const { threadId, stream } of talks) {
      t.match((await person.get(stream.runPath)).body, { status: 'interrupted', stop_reason: 'shutdown' })
      t.match((await person.get(`/api/threads/${threadId}`)).body, { status: 'idle' })
      const rest = await (await person.join(stream.runPath, stream.lastId)).whole()
      const whole = await (await person.join(stream.runPath)).whole()
      t.same([...stream.frames, ...rest], whole, 'the rest is what was missing')
      t.equal(rest.at(-1)?.event, 'end')
      const text = textOf(whole)
      t.ok(text.length > 0 && all.startsWith(text))
      const messages = listIn((await person.get(`/api/threads/${threadId}/state`)).body, 'values', 'messages')
      t.match(messages, [{ type: 'human' }, { type: 'ai', content: text }], 'the part of the answer is kept')
      const next = await (await person.stream(threadId, '/demo deltas=2 rate=0')).whole()
      t.match(next.at(-1), { event: 'end' }, 'and the conversation goes on')
    }
  }
)

t.test('a run that ends within the grace ends as ever', async (t) => {
  const { child, person } = await open(t, 20_000)
  const threadId = await person.thread()
  const stream = await person.stream(threadId, '/demo deltas=60 rate=60', MODES)
  await stream.untilFrames(10)
  const exit = child.stop()
  const frames = await stream.whole()
  t.equal(textOf(frames), Array.from({ length: 60 }, (_, n) => demoWord(n)).join(''))
  t.equal(frames.at(-1)?.event, 'end')
  t.same(await exit, { code: 0, signal: null })
  await restart(t, child, person)
  t.match((await person.get(stream.runPath)).body, { status: 'success' })
  t.same(await (await person.join(stream.runPath)).whole(), frames)
})

t.test('within the grace: not ready, new runs are refused, old ones can still be joined', async (t) => {
  const { child, person } = await open(t, 20_000)
  const threadId = await person.thread()
  const stream = await person.stream(threadId, '/demo deltas=240 rate=60', MODES)
  await stream.untilFrames(10)
  const exit = child.stop()
  await until(() => isStopping(person), 'the stop')
  const ready = await person.get('/readyz')
  t.equal(ready.status, 503)
  t.match(ready.body, { reason: 'the server is shutting down' })
  const refused = await person.post(`/api/threads/${threadId}/runs`, asked('more', { multitask_strategy: 'enqueue' }))
  t.equal(refused.status, 503)
  t.match(refused.headers.get('retry-after'), /^\d+$/)
  t.equal((await person.get('/health')).status, 200)
  const joined = await (await person.join(stream.runPath)).whole()
  t.same(joined, await stream.whole())
  t.same(await exit, { code: 0, signal: null })
})

t.test('a run that waits for its turn starts with the next process', async (t) => {
  const { child, person } = await open(t, 0)
  const threadId = await person.thread()
  const running = await person.stream(threadId, LONG, MODES)
  await running.untilFrames(10)
  const waiting = await person.run(threadId, '/demo deltas=5 rate=0', { multitask_strategy: 'enqueue' })
  const pending = await person.join(waiting)
  t.same(await child.stop(), { code: 0, signal: null })
  t.equal(await pending.ended, 'reset')

  await restart(t, child, person)
  const frames = await (await person.join(waiting, pending.lastId, ['messages-tuple'])).whole()
  t.equal(textOf(frames), Array.from({ length: 5 }, (_, n) => demoWord(n)).join(''))
  t.equal(textIn((await person.get(waiting)).body, 'status'), 'success')
  t.equal(textIn((await person.get(running.runPath)).body, 'status'), 'interrupted')
})

t.test(
  'who was waiting when a stop came is reset; who asks later for a run that a stop has ended is answered',
  async (t) => {
    const { child, person } = await open(t, 0)
    const threadId = await person.thread()
    const key = { 'idempotency-key': 'one' }
    const asking = { body: asked(LONG), headers: key }
    const waiting = person.ask('POST', `/api/threads/${threadId}/runs/wait`, asking)
    const isReset = waiting.then(
      () => false,
      () => true
    )
    const runs = async () => listIn((await person.get(`/api/threads/${threadId}/runs`)).body)
    await until(async () => textIn((await runs())[0] ?? { status: '' }, 'status') === 'running', 'the run')
    const path = `/api/threads/${threadId}/runs/${textIn((await runs())[0], 'run_id')}`
    t.same(await child.stop(), { code: 0, signal: null })
    t.equal(await isReset, true)

    await restart(t, child, person)
    const joined = await person.get(`${path}/join`, { headers: { accept: 'application/json' } })
    t.match(joined.body, { messages: [{ type: 'human' }] })
    const again = await person.ask('POST', `/api/threads/${threadId}/runs/wait`, asking)
    t.same(again.body, joined.body)
    t.match(again.headers.get('content-location'), path)
  }
)

t.test(
  'to clients that know no end, a run that a stop has cut short ends with an error: once, and behind its last frame',
  async (t) => {
    const { child, person } = await open(t, 0)
    const threadId = await person.thread()
    const stream = await person.stream(threadId, LONG, MODES)
    await stream.untilFrames(20)
    t.same(await child.stop(), { code: 0, signal: null })
    await restart(t, child, person)
    const { runPath } = stream
    const atRoot = runPath.replace(/^\/api/, '')
    const whole = await (await person.join(runPath)).whole()
    const rest = await (await person.join(atRoot, stream.lastId)).whole()
    const error = rest.at(-1)!
    t.equal(error.event, 'error')
    t.match(JSON.parse(error.data), { error: 'ServerShutdown', message: /stopped/ })
    t.same([...stream.frames, ...rest.slice(0, -1)], whole.slice(0, -1), 'all there is comes before it')
    const last = whole.at(-2)!.id!.split('-').map(Number)
    t.equal(error.id, `${last[0]}-${last[1]! + 1}`)
    t.same(await (await person.join(atRoot, error.id)).whole(), [], 'who has seen it has everything')
    t.match(await (await person.join(runPath, error.id)).whole(), [{ event: 'end' }])
    const joined = await person.get(`${atRoot}/join`, { headers: { accept: 'application/json' } })
    t.match(joined.body, { __error__: { error: 'ServerShutdown' } })
    const thread = await person.open('GET', `/threads/${threadId}/stream`, { headers: { 'last-event-id': '1:0-0' } })
    await until(() => thread.frames.some(({ data }) => data.includes('run_done')), 'the end of the run')
    t.match(thread.frames.slice(-2), [{ event: 'error' }, { event: 'metadata', data: /run_done/ }])
    thread.leave()
    const events = await person.open('POST', `/threads/${threadId}/stream/events`, {
      body: { channels: ['lifecycle'] }
    })
    await until(() => events.frames.some(({ data }) => /"(failed|interrupted)"/.test(data)), 'its end')
    t.match(events.frames.at(-1), { data: /"event":"failed".*stopped/ })
    events.leave()
  }
)

t.test('a stop without anything to wait for is quick', async (t) => {
  const graceMs = 60_000
  const { child, person } = await open(t, graceMs)
  const stream = await person.stream(await person.thread(), '/demo deltas=2 rate=0')
  await stream.whole()
  await (await person.join(stream.runPath)).whole()
  await (await person.join(stream.runPath)).whole()
  const since = performance.now()
  t.same(await child.stop(), { code: 0, signal: null })
  t.ok(performance.now() - since < graceMs / 2, 'not the time over which readers are reset: there are none')
})

t.test('a signal while the server starts ends it in order, when it has started', async (t) => {
  const port = await freePort()
  const backend = { module: fileURLToPath(new URL('../fixtures/slow-start.js', import.meta.url)) }
  const child = new Child(homeOf(t), { port, config: { database: { backend } } })
  t.teardown(() => child.kill())
  const person = new Person(`http://127.0.0.1:${port}`)
  const isUp = async () => (await person.get('/health').catch(() => null))?.status === 200
  await until(isUp, 'it listens', 30_000)
  child.process.kill('SIGTERM')
  await until(() => child.log.includes('a signal ends the process'), 'the signal')
  writeFileSync(join(child.home, 'go'), '')
  t.same(await child.exited, { code: 0, signal: null })
})

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  t.test(`${signal} drains: what is running is kept, and the process ends by itself with 0`, async (t) => {
    const { child, person } = await open(t, 200)
    const stream = await person.stream(await person.thread(), LONG, MODES)
    await stream.untilFrames(5)
    t.same(await child.stop(signal), { code: 0, signal: null })
    t.equal(await stream.ended, 'reset')
    t.match(child.log, 'new runs are refused')
  })
