// A server that is killed in the middle of everything, five times over, and what the next one makes of it.
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { asked, at, homeOf, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'
import type { Stream } from '../fixtures/stream.ts'

const ROUNDS = 5
const STARTED = 24
const PENDING = 4
/** How long a start may take to have dealt with all of them. */
const RECOVERED_MS = 3000
/** Frames that a reader saw within the window before the kill may be taken back [design 4, rule 7]. */
const WINDOW_FRAMES = 40

/** A third each is cut in text, in the arguments of a tool call, and behind a tool's result. */
const SCRIPTS: readonly Script[] = [
  { deltas: 4000, rate: 200 },
  {
    calls: [[{ name: 'write_file', args: JSON.stringify({ path: 'a.txt', content: 'x'.repeat(8000) }) }]],
    size: 4,
    rate: 200
  },
  { calls: [[{ name: 'current_time', args: '{}' }]], deltas: 4000, rate: 200 }
]

interface Underway {
  readonly thread: string
  readonly path: string
  readonly queued: string | null
  readonly reader: Stream
}

async function begin(person: Person, index: number): Promise<Underway> {
  const thread = await person.thread()
  const words = scripted({ ...SCRIPTS[index % SCRIPTS.length], strict: true })
  const reader = await person.stream(thread, words, { stream_mode: ['messages-tuple'] })
  const next = scripted({ text: 'it was my turn', strict: true })
  const queued = index < PENDING ? await person.run(thread, next, { multitask_strategy: 'enqueue' }) : null
  return { thread, path: reader.runPath, queued, reader }
}

async function statusOf(person: Person, path: string): Promise<string> {
  return textIn((await person.get(path)).body, 'status')
}

/** The bytes of the frames that a reader saw, without those that may be taken back. */
function seen(reader: Stream): string[] {
  return reader.frames.slice(0, -WINDOW_FRAMES).map(({ id, data }) => `${id} ${data}`)
}

async function checkRound(t: Test, person: Person, all: readonly Underway[]): Promise<void> {
  const deadline = performance.now() + RECOVERED_MS
  for (const { path } of all) t.equal(await statusOf(person, path), 'error', 'what had started has ended')
  t.ok(performance.now() < deadline, 'in time')
  for (const { thread, path, queued, reader } of all) {
    if (queued) await until(async () => (await statusOf(person, queued)) === 'success', 'the run that waited')
    const again = await person.join(path, null, ['messages-tuple'])
    t.equal(await again.ended, 'whole')
    const events = again.frames.map(({ event }) => event)
    t.same(
      events.filter((event) => event === 'error' || event === 'end'),
      ['error', 'end'],
      'one terminal frame'
    )
    const replayed = again.frames.map(({ id, data }) => `${id} ${data}`)
    const before = seen(reader)
    t.same(replayed.slice(0, before.length), before, 'what was seen and stored replays identically')
    const kept = listIn((await person.get(`${path}/events`)).body).map((event) => at(event, 'event_type'))
    t.equal(kept.filter((type) => type === 'run_error').length, 1)
    const next = await person.post(
      `/api/threads/${thread}/runs/wait`,
      asked(scripted({ text: 'goes on', strict: true }))
    )
    t.equal(
      at(listIn(next.body, 'messages').at(-1), 'content'),
      'goes on',
      'the next run is accepted by a strict model'
    )
  }
}

function configOf(model: FakeModel): { [section: string]: unknown } {
  const models = [{ name: 'main', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  return { models, title: { enabled: false } }
}

t.test('killed in mid-answer, five times over', { timeout: 170_000 }, async (root) => {
  const model = await startModel()
  root.teardown(() => model.stop())
  const home = homeOf(root)
  const config = configOf(model)
  let child: Child = await startChild(root, { home, config })
  const person = await signIn(child)

  for (let round = 1; round <= ROUNDS; round++) {
    await root.test(`round ${round}: every run has one end, keeps its part, and its thread goes on`, async (t) => {
      const all = await Promise.all(Array.from({ length: STARTED }, (_, index) => begin(person, index)))
      await Promise.all(all.map(({ reader }) => reader.untilFrames(60)))
      await child.kill()
      child = await startChild(root, { home, config })
      person.url = child.url
      await checkRound(t, person, all)
    })
  }

  await root.test('the part of an answer that was stored is in state, history and events', async (t) => {
    const thread = await person.thread()
    const reader = await person.stream(thread, scripted({ deltas: 4000, rate: 200 }), {
      stream_mode: ['messages-tuple']
    })
    await reader.untilFrames(80)
    await child.kill()
    child = await startChild(root, { home, config })
    person.url = child.url
    const last = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages').at(-1)
    t.match(textIn(last, 'content'), /^d0 d1 d2 d3 /)
    const history = listIn((await person.post(`/api/threads/${thread}/history`)).body, 0, 'values', 'messages').at(-1)
    t.equal(at(history, 'content'), at(last, 'content'))
    const events = listIn((await person.get(`${reader.runPath}/events?event_types=ai_message`)).body)
    t.equal(at(events[0], 'content', 'content'), at(last, 'content'))
  })

  await child.stop()
})
