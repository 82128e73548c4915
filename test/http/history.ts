// The state of a thread and its history, as those who branch and edit conversations ask for them.
import t from 'tap'
import type { Agent, AgentInput, Sink } from '../../lib/agent/runtime.ts'
import type { CheckpointReads, StoredCheckpoint } from '../../lib/store/store.ts'
import { historyPage } from '../../lib/thread/stored-states.ts'
import { textOf } from '../../lib/base/types.ts'
import { anAnswer, request, response } from '../fixtures/agent.ts'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, at, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'

/** Says what it hears. */
class Parrot implements Agent {
  async start({ messages, runId }: AgentInput, sink: Sink): Promise<void> {
    sink.record(request())
    sink.record(response(anAnswer(`${textOf(messages.at(-1)?.content ?? '')}!`, { id: `answer-${runId}` })))
    sink.record({ type: 'step', node: 'agent' })
  }
}

onEachBackend(t, 'a checkpoint that names another thread is refused wherever one can be named', async (t, backend) => {
  const site = await openSite(t, { agent: new Parrot(), config: { database: await databaseSection(t, backend) } })
  const person = await signIn(site)
  const [thread, other] = [await person.thread(), await person.thread()]
  const own = textIn((await person.get(`/api/threads/${thread}/state`)).body, 'checkpoint_id')
  const named = (thread_id: string) => ({ checkpoint: { thread_id, checkpoint_ns: '', checkpoint_id: own } })
  const path = `/api/threads/${thread}`
  const stateless = { config: { configurable: { thread_id: thread } } }
  const asking = (thread_id: string) =>
    [
      [`${path}/runs/wait`, asked('hello', named(thread_id))],
      ['/api/runs/wait', asked('hello', { ...stateless, ...named(thread_id) })],
      [`${path}/state`, { values: {}, ...named(thread_id) }],
      [`${path}/state`, { values: {}, checkpoint_id: own, ...named(thread_id) }],
      [`${path}/state/checkpoint`, named(thread_id)],
      [`${path}/history`, { before: { configurable: named(thread_id).checkpoint } }]
    ] as const
  for (const [entrance, body] of asking(other)) {
    const answer = await person.post(entrance, body)
    t.equal(answer.status, 400, `${entrance}: ${answer.text}`)
    t.match(at(answer.body, 'detail'), other)
  }
  t.strictSame(listIn((await person.get(`${path}/runs`)).body), [], 'nothing is begun')
  for (const [entrance, body] of asking(thread)) t.equal((await person.post(entrance, body)).status, 200, entrance)
})

t.test('a run begins at the checkpoint that its body names, by itself, in a place or in its config', async (t) => {
  const site = await openSite(t, { agent: new Parrot() })
  const person = await signIn(site)
  const path = `/api/threads/${await conversation(person, ['one'])}`
  const checkpoint_id = textIn((await person.get(`${path}/state`)).body, 'checkpoint_id')
  const config = { configurable: { checkpoint_id } }
  for (const named of [{ checkpoint_id }, { checkpoint: { checkpoint_id } }, { checkpoint: config }, { config }]) {
    const { body } = await person.post(`${path}/runs/wait`, asked('instead', named))
    t.strictSame(contentsIn(body), ['one', 'one!', 'instead', 'instead!'], JSON.stringify(named))
  }
  const nowhere = asked('instead', { config: { configurable: { checkpoint_id: 'no-such' } } })
  t.equal((await person.post(`${path}/runs/wait`, nowhere)).status, 404)
  const elsewhere = asked('instead', { config: { configurable: { checkpoint_id, thread_id: await person.thread() } } })
  t.equal((await person.post(`${path}/runs/wait`, elsewhere)).status, 400)
})

t.test('a namespace is that of a subgraph, and where there is none nothing else stands for it', async (t) => {
  const site = await openSite(t, { agent: new Parrot() })
  const person = await signIn(site)
  const path = `/api/threads/${await conversation(person, ['hello'])}`
  const checkpoint = { checkpoint_ns: 'inner:1' }
  t.equal((await person.post(`${path}/state/checkpoint`, { checkpoint })).status, 404)
  t.strictSame((await person.post(`${path}/history`, { checkpoint })).body, [])
  t.equal((await person.post(`${path}/state`, { checkpoint, values: { title: 'Mine' } })).status, 400)
  const get = async (namespace: unknown) =>
    (await person.post(`${path}/commands`, { id: 1, method: 'state.get', params: { namespace } })).body
  t.match(await get(['inner:1']), { type: 'error', error: 'no_such_namespace' })
  t.match(await get('inner:1'), { type: 'error', error: 'invalid_argument' })
  t.match(await get([]), { type: 'success', result: { values: { messages: Array } } })
})

/** Says so many things one after the other, and gives back the thread. */
async function conversation(person: Person, words: readonly string[]): Promise<string> {
  const thread = await person.thread()
  for (const word of words) await person.post(`/api/threads/${thread}/runs/wait`, asked(word))
  return thread
}

const contentsIn = (values: unknown) => listIn(at(values, 'messages') ?? []).map((one) => at(one, 'content'))

onEachBackend(t, 'an entry of a history has the values of the state at its checkpoint', async (t, backend) => {
  const site = await openSite(t, { agent: new Parrot(), config: { database: await databaseSection(t, backend) } })
  const person = await signIn(site)
  const path = `/api/threads/${await conversation(person, ['one', 'two'])}`
  const edited = { values: { artifacts: ['/a'], messages: [{ type: 'human', id: 'm', content: 'instead' }] } }
  await person.post(`${path}/state`, edited)
  const entries = listIn((await person.post(`${path}/history`, { limit: 100 })).body)
  t.ok(entries.length > 5)
  for (const entry of entries) {
    const state = await person.get(`${path}/state/${textIn(entry, 'checkpoint_id')}`)
    const undecorated = JSON.parse(
      JSON.stringify(at(entry, 'values'), (key, value) => (/^(run_id|feedback)$/.test(key) ? undefined : value))
    )
    t.strictSame(undecorated, at(state.body, 'values'))
  }
  const counts = entries.map((entry) => contentsIn(at(entry, 'values')).length)
  t.strictSame([counts[0], Math.max(...counts), counts.at(-1)], [1, 4, 0], 'what came later is in no earlier one')
})

t.test('a history is read by a GET too, as LangGraph’s server has it', async (t) => {
  const person = await signIn(await openSite(t, { agent: new Parrot() }))
  const path = `/api/threads/${await conversation(person, ['one', 'two'])}/history`
  const { body: all } = await person.post(path, { limit: 100 })
  t.strictSame((await person.get(path)).body, (await person.post(path)).body)
  t.strictSame((await person.get(`${path}?limit=2`)).body, listIn(all).slice(0, 2))
  const before = textIn(all, 1, 'checkpoint_id')
  t.strictSame((await person.get(`${path}?limit=1&before=${before}`)).body, listIn(all).slice(2, 3))
  t.equal((await person.get(`${path}?limit=0`)).status, 422)
  t.strictSame((await person.get('/api/threads/nowhere/history')).body, [])
})

onEachBackend(t, 'a message is edited from the checkpoint before it, and both branches stay', async (t, backend) => {
  const site = await openSite(t, { agent: new Parrot(), config: { database: await databaseSection(t, backend) } })
  const person = await signIn(site)
  const path = `/api/threads/${await conversation(person, ['q1', 'q2'])}`
  const history = async () => listIn((await person.post(`${path}/history`, { limit: 100 })).body)
  // What useStream does: the state in which the message is seen first, and its parent.
  const firstSeen = (await history()).findLast((one) => contentsIn(at(one, 'values')).includes('q1'))
  const { thread_id: _, ...checkpoint } = at(firstSeen, 'parent_checkpoint') as { thread_id: string }
  await person.post(`${path}/runs/wait`, asked('EDITED', { checkpoint }))
  t.strictSame(contentsIn(at((await person.get(`${path}/state`)).body, 'values')), ['EDITED', 'EDITED!'])
  const said = (await history()).map((one) => contentsIn(at(one, 'values')).join())
  t.ok(said.includes('q1,q1!,q2,q2!'), 'the other branch')
  const parents = (await history()).map((one) => at(one, 'parent_checkpoint_id'))
  t.equal(parents.filter((id) => id === at(checkpoint, 'checkpoint_id')).length, 2, 'both begin at one checkpoint')
})

onEachBackend(
  t,
  'a history of certain metadata has all that is older, and not what of it is newest',
  async (t, backend) => {
    const site = await openSite(t, { agent: new Parrot(), config: { database: await databaseSection(t, backend) } })
    const person = await signIn(site)
    const path = `/api/threads/${await conversation(person, ['q1', 'q2', 'q3'])}`
    const history = async (query: object) => listIn((await person.post(`${path}/history`, query)).body)
    const all = await history({ limit: 100 })
    const runs = listIn((await person.get(`${path}/runs`)).body).map((run) => textIn(run, 'run_id'))
    const ofRuns = []
    for (const run_id of runs) {
      const wanted = await history({ limit: 100, metadata: { run_id } })
      t.ok(wanted.length > 1)
      ofRuns.push(...wanted)
      t.strictSame(await history({ limit: 1, metadata: { run_id } }), wanted.slice(0, 1))
      const before = at(wanted[0], 'checkpoint_id')
      t.strictSame(await history({ limit: 1, before, metadata: { run_id } }), wanted.slice(1, 2))
    }
    t.strictSame(ofRuns, all.slice(0, ofRuns.length))
    t.ok(all.length - ofRuns.length <= 1, 'the thread began with the rest')
    const { step } = at(all.at(-1), 'metadata') as { step: number }
    t.strictSame(await history({ limit: 1, metadata: { step } }), all.slice(-1))
    t.strictSame(await history({ limit: 1, metadata: { step: 'elsewhere' } }), [])
  }
)

t.test('a page of a history ends before it is too long, and another goes on from there', async (t) => {
  const entry = (n: number, from: number, to: number): StoredCheckpoint => ({
    thread_id: 't',
    checkpoint_id: `c${n}`,
    parent_checkpoint_id: null,
    run_id: null,
    created_at: '',
    metadata: {},
    next: [],
    messages: [[from, to]],
    channels: {},
    messageBodies: Array.from({ length: to - from + 1 }, (_, i) => ({ no: from + i, json: '0123456789' })),
    channelBodies: [],
    nextBody: 100
  })
  // The third one was edited: it shares nothing with the newest.
  const all = [entry(5, 0, 4), entry(4, 0, 3), entry(3, 50, 52), entry(2, 0, 1), entry(1, 0, 0)]
  const loaded: string[] = []
  const checkpoints: CheckpointReads = {
    async load(_, id) {
      loaded.push(String(id))
      return all.find((one) => one.checkpoint_id === id) ?? null
    },
    async history(_, { limit, before }) {
      const rest = before === undefined ? all : all.slice(all.findIndex((one) => one.checkpoint_id === before) + 1)
      return rest.slice(0, limit).map((one, at) => (at === 0 ? one : { ...one, messageBodies: [] }))
    }
  }
  const page = async (maxLength: number, before?: string) =>
    (await historyPage(checkpoints, 't', { limit: 10, channels: null, ...(before && { before }) }, maxLength)).map(
      ({ checkpoint_id, messageBodies }) => `${checkpoint_id}:${messageBodies.length}`
    )
  t.strictSame(await page(1000), ['c5:5', 'c4:4', 'c3:3', 'c2:2', 'c1:1'])
  t.strictSame(loaded, ['c3'], 'what is known is not read again')
  t.strictSame(await page(100), ['c5:5', 'c4:4'])
  t.strictSame(await page(100, 'c4'), ['c3:3', 'c2:2', 'c1:1'])
  t.strictSame(await page(1), ['c5:5'], 'one at least')
})

t.test('a history shows the data of its thread: where its files lie', async (t) => {
  const person = await signIn(await openSite(t))
  const path = `/api/threads/${await conversation(person, ['/demo deltas=1 rate=0'])}`
  const [newest] = listIn((await person.post(`${path}/history`)).body)
  t.strictSame(at(newest, 'values', 'thread_data'), {
    workspace_path: '/mnt/user-data/workspace',
    uploads_path: '/mnt/user-data/uploads',
    outputs_path: '/mnt/user-data/outputs'
  })
})

t.test('a task of a state has all members that clients read, also before it has begun', async (t) => {
  const asking: Agent = {
    async start(_input, sink) {
      sink.record({ type: 'interrupt', interrupt: { id: 'i', value: 'Which?' } })
      sink.record({ type: 'step', node: 'agent' })
    }
  }
  const person = await signIn(await openSite(t, { agent: asking }))
  const path = `/api/threads/${await conversation(person, ['hello'])}`
  const states = [(await person.get(`${path}/state`)).body, ...listIn((await person.post(`${path}/history`)).body)]
  const tasks = states.flatMap((state) => listIn(state, 'tasks'))
  t.ok(tasks.length >= 2)
  for (const task of tasks)
    t.strictSame(
      Object.keys(task as object).toSorted(),
      ['checkpoint', 'error', 'id', 'interrupts', 'name', 'path', 'result', 'state'],
      'as LangGraph names them'
    )
})
