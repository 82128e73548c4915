// Clocks that are apart, or set back: no turn is lost, whichever process made it and whatever its clock said.
import t, { type Test } from 'tap'
import { startChild } from '../fixtures/child.ts'
import { at, asked, homeOf, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'
import { onOther, startPair } from '../fixtures/pair.ts'

const AHEAD_MS = 60_000

/** One turn of a conversation, to its end. */
async function turn(person: Person, thread: string, n: number, more: object = {}): Promise<void> {
  const words = scripted({ text: `answer ${n}` }, `question ${n}`)
  const answer = await person.post(`/api/threads/${thread}/runs/wait`, asked(words, { ...more }))
  if (answer.status !== 200) throw new Error(`turn ${n}: ${answer.status} ${answer.text}`)
}

const saidIn = (messages: readonly unknown[]) =>
  messages.map((message) => /(question|answer) \d+/.exec(textIn(message, 'content'))?.[0])

/** What a conversation of these turns has said. */
const said = (...turns: number[]) => turns.flatMap((n) => [`question ${n}`, `answer ${n}`])

/** History, state and the last prompt of a thread tell all turns, in their order. */
async function isWhole(t: Test, person: Person, thread: string, model: FakeModel, turns: number[]): Promise<void> {
  const state = (await person.get(`/api/threads/${thread}/state`)).body
  t.strictSame(saidIn(listIn(state, 'values', 'messages')), said(...turns), 'the state has every turn')
  const prompt = model.requests.at(-1)!.messages.filter(({ role }) => role !== 'system')
  t.strictSame(saidIn(prompt), said(...turns).slice(0, -1), 'the last prompt had every turn before it')
  const history = listIn((await person.post(`/api/threads/${thread}/history`, { limit: 100 })).body)
  t.equal(at(history[0], 'checkpoint_id'), at(state, 'checkpoint_id'), 'the newest of the history is the state')
  const ids = history.map((one) => textIn(one, 'checkpoint_id'))
  t.equal(new Set(ids).size, ids.length)
  for (const [index, one] of history.entries()) {
    const parent = at(one, 'parent_checkpoint_id')
    t.ok(parent === null || ids.indexOf(String(parent)) > index, 'a parent stands below its children')
    t.ok(parent === null || ids[index]! > String(parent), 'and has the smaller id, by which clients sort branches')
  }
  const page = listIn((await person.post(`/api/threads/${thread}/history`, { limit: 100, before: ids[1] })).body)
  t.strictSame(
    page.map((one) => at(one, 'checkpoint_id')),
    ids.slice(2),
    'what is before a checkpoint is what was written before it'
  )
}

t.test('two processes whose clocks are a minute apart lose no turn of a thread', { timeout: 170_000 }, async (t) => {
  const pair = await startPair(t, { aheadMs: AHEAD_MS })
  const { onA, onB, model } = pair
  const thread = await onA.thread()
  for (let n = 0; n < 6; n++) await turn(n % 2 ? onB : onA, thread, n)
  await isWhole(t, onB, thread, model, [0, 1, 2, 3, 4, 5])
  const renamed = await onB.post(`/api/threads/${thread}/state`, { values: { title: 'said by B' } })
  t.equal(renamed.status, 200)
  t.equal(at((await onA.get(`/api/threads/${thread}/state`)).body, 'values', 'title'), 'said by B')

  await t.test('a branch that the other one makes is what the thread goes on from', async (t) => {
    const history = listIn((await onA.post(`/api/threads/${thread}/history`, { limit: 100 })).body)
    const states = await Promise.all(
      history.map(async (one) => {
        const id = textIn(one, 'checkpoint_id')
        return { id, messages: at((await onA.get(`/api/threads/${thread}/state/${id}`)).body, 'values', 'messages') }
      })
    )
    const base = states.find(({ messages }) => Array.isArray(messages) && messages.length === 4)!
    await turn(onB, thread, 7, { checkpoint_id: base.id })
    await turn(onA, thread, 8)
    await turn(onB, thread, 9)
    await isWhole(t, onA, thread, model, [0, 1, 7, 8, 9])
  })
})

t.test('a clock that is set back over a restart loses no turn', { timeout: 170_000 }, async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const home = homeOf(t)
  const config = {
    models: [{ name: 'main', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }],
    title: { enabled: false },
    memory: { enabled: false },
    server: { shutdown_grace_ms: 0 }
  }
  const first = await startChild(t, { home, config, aheadMs: AHEAD_MS })
  const early = await signIn(first)
  const thread = await early.thread()
  for (const n of [0, 1]) await turn(early, thread, n)
  await first.stop()
  const second = await startChild(t, { home, config })
  const late = onOther(early, second)
  for (const n of [2, 3]) await turn(late, thread, n)
  await isWhole(t, late, thread, model, [0, 1, 2, 3])
})

t.test(
  'whoever saw a first attempt by a clock ahead that was never stored is given the next one, on any process',
  { timeout: 170_000 },
  async (t) => {
    const pair = await startPair(t, { aheadMs: AHEAD_MS })
    const { onA, onB, home, config, database } = pair
    const thread = await onA.thread()
    await database.rows('BEGIN')
    await database.rows('LOCK TABLE frames IN ACCESS EXCLUSIVE MODE')
    const words = scripted({ deltas: 4000, rate: 20 })
    const creator = await onA.stream(thread, words, { stream_mode: ['messages-tuple'] })
    await creator.untilFrames(4)
    const last = creator.lastId
    await pair.a.kill()
    await database.rows('ROLLBACK')
    await until(async () => at((await onB.get(creator.runPath)).body, 'status') === 'running', 'B has begun it')
    const onC = onOther(onA, await startChild(t, { home, config }))
    const [here, there] = await Promise.all(
      [onB, onC].map((person) => person.join(creator.runPath, last, ['messages-tuple']))
    )
    await there!.untilFrames(5)
    await here!.untilFrames(5)
    t.strictSame(there!.frames.slice(0, 5), here!.frames.slice(0, 5), 'from its beginning, while it runs')
    await onB.post(`${creator.runPath}/cancel`)
  }
)
