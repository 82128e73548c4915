// The Idempotency-Key: a client that does not know whether its request has arrived sends it again, and again, and there is one run.
import t, { type Test } from 'tap'
import { startChild } from '../fixtures/child.ts'
import { type Answer, asked, at, homeOf, listIn, type Person, signIn } from '../fixtures/gateway.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'
import type { Stream } from '../fixtures/stream.ts'

const REQUESTS = 50
const MODES = ['values', 'messages-tuple']
const WORDS = scripted({ deltas: 20 })
/** Half of what the model says waits for the gate. */
const HELD = scripted({ deltas: 20, gate: 'half', gateAfter: 10 })

async function open(t: Test) {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const options = { home: homeOf(t), config: { models, title: { enabled: false }, memory: { enabled: false } } }
  const child = await startChild(t, options)
  const person = await signIn(child)
  return { model, options, child, person }
}

const asking = (key: string, words = WORDS) => ({
  body: asked(words, { stream_mode: MODES }),
  headers: { 'idempotency-key': key }
})

/** The same request, as often as that, all at once. */
function all(person: Person, path: string, key: string, words = WORDS): Promise<Stream[]> {
  return Promise.all(Array.from({ length: REQUESTS }, () => person.open('POST', path, asking(key, words))))
}

/** The one run that all of these are about. */
function oneRun(t: Test, streams: readonly Stream[]): string {
  const [path, ...others] = new Set(streams.map(({ runPath }) => runPath))
  t.same(others, [], `${streams.length} requests are about one run`)
  return path!
}

/** All of these have the same from the first frame to the end. Answers it. */
async function sameFrames(t: Test, streams: readonly Stream[]): Promise<Stream['frames']> {
  const [first, ...others] = await Promise.all(streams.map((stream) => stream.whole()))
  for (const frames of others) t.same(frames, first, 'everybody has all of it')
  return first!
}

async function runsOf(person: Person, thread: string): Promise<readonly unknown[]> {
  return listIn((await person.get(`/api/threads/${thread}/runs`)).body)
}

const askedOf = (model: FakeModel, words: string): number =>
  model.requests.filter(({ messages }) => JSON.stringify(messages).includes(JSON.stringify(words).slice(1, -1))).length

t.test(`${REQUESTS} requests at once with one key are one run, also after a restart`, async (t) => {
  const { model, options, child, person } = await open(t)
  const thread = await person.thread()
  const path = `/api/threads/${thread}/runs/stream`
  const first = await all(person, path, 'one')
  const run = oneRun(t, first)
  const frames = await sameFrames(t, first)
  await child.kill()
  person.url = (await startChild(t, options)).url
  const again = await all(person, path, 'one')
  t.equal(oneRun(t, again), run, 'the same as before')
  t.same(await sameFrames(t, again), frames)
  t.equal((await runsOf(person, thread)).length, 1)
  t.equal(askedOf(model, WORDS), 1, 'the model was asked once')
})

t.test(
  'a request that is repeated because the process died is told how its run ended, and starts no second one',
  async (t) => {
    const { model, options, child, person } = await open(t)
    const thread = await person.thread()
    const path = `/api/threads/${thread}/runs/stream`
    const first = await all(person, path, 'one', HELD)
    const run = oneRun(t, first)
    await Promise.all(first.map((stream) => stream.until(({ frames }) => frames.length > 5)))
    await child.kill()
    person.url = (await startChild(t, options)).url
    model.release('half')
    const again = await all(person, path, 'one', HELD)
    t.equal(oneRun(t, again), run)
    const frames = await sameFrames(t, again)
    t.same(
      frames.slice(-2).map(({ event }) => event),
      ['error', 'end']
    )
    t.match(await runsOf(person, thread), [{ status: 'error', stop_reason: 'server_restart' }])
    t.equal(askedOf(model, HELD), 1)
  }
)

t.test(`${REQUESTS} requests at once with one key and without a thread are one run of one new thread`, async (t) => {
  const { model, options, child, person } = await open(t)
  const first = await all(person, '/api/runs/stream', 'one')
  const run = oneRun(t, first)
  const frames = await sameFrames(t, first)
  await child.kill()
  person.url = (await startChild(t, options)).url
  const again = await all(person, '/api/runs/stream', 'one')
  t.equal(oneRun(t, again), run)
  t.same(await sameFrames(t, again), frames)
  t.equal(listIn((await person.post('/api/threads/search')).body).length, 1)
  t.equal(askedOf(model, WORDS), 1)
})

t.test('requests that wait, or do not, get one answer each of the one run', async (t) => {
  const { model, options, child, person } = await open(t)
  const thread = await person.thread()
  const some = (way: string, key: string): Promise<Answer[]> =>
    Promise.all(
      Array.from({ length: REQUESTS }, () => person.ask('POST', `/api/threads/${thread}/runs${way}`, asking(key)))
    )
  const background = await some('', 'background')
  t.same(
    background.map(({ status }) => status),
    Array(REQUESTS).fill(200)
  )
  const path = background[0]!.headers.get('content-location')!
  await (await person.join(path)).whole()
  await child.kill()
  person.url = (await startChild(t, options)).url
  const later = await some('', 'background')
  t.equal(
    new Set([...background, ...later].map(({ text }) => text)).size,
    1,
    'the same to the letter, also after a restart'
  )
  t.match(background[0]!.body, { run_id: path.split('/').at(-1), status: 'pending' })
  t.match((await person.get(path)).body, { status: 'success', message_count: 1 })
  const waited = await some('/wait', 'wait')
  t.equal(new Set(waited.map(({ text }) => text.trim())).size, 1)
  t.match(at(listIn(waited[0]!.body, 'messages').at(-1), 'content'), /^d0 d1 .* d19 $/)
  t.equal((await runsOf(person, thread)).length, 2)
  t.equal(askedOf(model, WORDS), 2)
})

t.test('one key with another request is 409, and is another run of another user, also after a restart', async (t) => {
  const { options, child, person } = await open(t)
  const other = await signIn(child)
  const [thread, elsewhere, theirs] = [await person.thread(), await person.thread(), await other.thread()]
  const path = (id: string, way = '/stream') => `/api/threads/${id}/runs${way}`
  const mine = await person.open('POST', path(thread), asking('one'))
  await mine.whole()
  const foreign = await other.open('POST', path(theirs), asking('one'))
  await foreign.whole()
  t.not(foreign.runPath, mine.runPath)
  const check = async () => {
    const conflicts = [
      await person.ask('POST', path(thread), asking('one', 'something else')),
      await person.ask('POST', path(thread, ''), asking('one')),
      await person.ask('POST', path(elsewhere), asking('one')),
      await person.ask('POST', '/api/runs', asking('one'))
    ]
    t.same(
      conflicts.map(({ status }) => status),
      [409, 409, 409, 409],
      'other words, another way, another thread'
    )
    t.equal((await other.open('POST', path(theirs), asking('one'))).runPath, foreign.runPath)
    t.equal((await other.ask('POST', path(thread), asking('one'))).status, 404, 'the thread of somebody else')
    t.equal(listIn((await person.post('/api/threads/search')).body).length, 2, 'a refusal leaves no thread behind')
    const counts = [await runsOf(person, thread), await runsOf(person, elsewhere), await runsOf(other, theirs)]
    t.same(
      counts.map(({ length }) => length),
      [1, 0, 1]
    )
  }
  await check()
  await child.kill()
  person.url = (await startChild(t, options)).url
  other.url = person.url
  await check()
})
