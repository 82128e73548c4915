// States and history of threads behind a LangGraph server, against the real one: its checkpoints under our runs, and ours in front where
// they say more; and the modes that show them while a run works.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { asked, at, listIn, openSite, type Site, textIn } from '../fixtures/gateway.ts'
import { saidIn, Talk } from '../fixtures/graph-journey.ts'
import { type GraphServer, graphFolder, planned, startGraphServer } from '../fixtures/langgraph.ts'

t.jobs = 3

const folder = await graphFolder(t)
const skip = folder === null && 'LangGraph cannot be installed here'
const shared = folder === null ? null : await startGraphServer(t, folder)

function siteOf(t: Test, { url }: { readonly url: string }): Promise<Site> {
  const agent = { runtime: 'langgraph', url, assistant_id: 'agent', reconnect_ms: 0 }
  return openSite(t, { config: { agent } })
}

const historyThere = async (server: GraphServer, thread: string) => {
  const body = JSON.stringify({ limit: 100 })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${server.url}/threads/${thread}/history`, { method: 'POST', headers, body })
  return listIn(await answer.json())
}
const idOf = (state: unknown) => textIn(state, 'checkpoint', 'checkpoint_id')
const idsOf = (states: readonly unknown[]) => states.map(idOf)
const ADDING = { call: ['add', { a: 1, b: 2 }] }

t.test(
  'a history is that of the server: ids, parents, tasks and their results, under our runs',
  { skip },
  async (t) => {
    const talk = await Talk.begin(await siteOf(t, shared!))
    await talk.wait({ text: 'one' })
    await talk.wait(ADDING)
    const theirs = await historyThere(shared!, talk.thread)
    const ours = await talk.history()
    t.strictSame(idsOf(ours), idsOf(theirs))
    t.ok(ours.length > 7, `${ours.length} checkpoints`)
    for (const member of ['next', 'created_at'])
      t.strictSame(
        ours.map((one) => at(one, member)),
        theirs.map((one) => at(one, member)),
        member
      )
    t.strictSame(
      ours.map((one) => at(one, 'parent_checkpoint', 'checkpoint_id')),
      theirs.map((one) => at(one, 'parent_checkpoint', 'checkpoint_id'))
    )
    const taskNames = (states: readonly unknown[]) =>
      states.map((one) => listIn(one, 'tasks').map((task) => [at(task, 'id'), at(task, 'name')]))
    t.strictSame(taskNames(ours), taskNames(theirs))
    const [second, first] = (await talk.runs()).map((run) => at(run, 'run_id'))
    const runs = ours.map((one) => at(one, 'metadata', 'run_id'))
    t.strictSame([...new Set(runs)], [second, first])
    t.notMatch(JSON.stringify(ours), /gateway_/)
    const idsIn = (state: unknown) => listIn(state, 'values', 'messages').map((message) => at(message, 'id'))
    t.strictSame(idsIn(ours[0]), idsIn(await talk.state()))
    const source = at(ours.at(-1), 'metadata', 'source')
    t.not(source, at(ours[0], 'metadata', 'source'))
    const [oldest] = await talk.history({ limit: 1, metadata: { source } })
    t.equal(at(oldest, 'metadata', 'source'), source, 'of certain metadata, however old')
    t.ok(
      listIn(ours[4], 'values', 'messages').every((message) => at(message, 'run_id')),
      'messages are as we keep them'
    )
    t.equal(idOf(await talk.state()), idOf(theirs[0]), 'the state is the newest of them')
    const page = listIn((await talk.person.post(`${talk.path}/history`, { limit: 2, before: idOf(theirs[2]) })).body)
    t.strictSame(idsOf(page), idsOf(theirs).slice(3, 5))
    const one = (await talk.person.get(`${talk.path}/state/${idOf(theirs[3])}`)).body
    t.match(one, { checkpoint_id: idOf(theirs[3]), next: at(theirs[3], 'next') })
    t.equal((await talk.person.get(`${talk.path}/state/no-such`)).status, 404)
  }
)

t.test('what we say beyond the server stands in front, until the next run has told it there', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, shared!))
  await talk.wait({ text: 'one' })
  const before = await talk.history()
  await talk.person.post(`${talk.path}/state`, { values: { mood: 'calm' } })
  const [ours, ...rest] = await talk.history()
  t.match(ours, { values: { mood: 'calm' } })
  t.strictSame(idsOf(rest), idsOf(before))
  t.match(await talk.state(), { checkpoint_id: idOf(ours), values: { mood: 'calm' } })
  await talk.wait({ text: 'two' })
  t.match(await talk.state(), { values: { mood: 'calm' } })
  t.strictSame(idsOf(await talk.history()), idsOf(await historyThere(shared!, talk.thread)))
})

t.test('a run starts from a checkpoint of the server that is none of ours', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, shared!))
  await talk.wait(ADDING)
  const waiting = (await talk.history()).find((one) => listIn(one, 'next')[0] === 'tools')
  const body = { input: null, checkpoint: { checkpoint_id: idOf(waiting) }, stream_mode: ['values'] }
  const { body: values, status } = await talk.person.post(`${talk.path}/runs/wait`, body)
  t.equal(status, 200)
  t.match(saidIn(values), [
    ['human', String],
    ['ai', ''],
    ['tool', '3'],
    ['ai', 'the tool said 3 ']
  ])
  t.equal(
    (await talk.history()).filter((one) => at(one, 'parent_checkpoint', 'checkpoint_id') === idOf(waiting)).length,
    2
  )
  const [first] = (await talk.history()).toReversed()
  const other = await talk.wait({ text: 'another' }, { checkpoint: { checkpoint_id: idOf(first) } })
  t.match(saidIn(other), [
    ['human', String],
    ['ai', 'another ']
  ])
  t.equal(saidIn(other).length, 2, 'from before the first message')
  const refused = await talk.person.post(`${talk.path}/runs/wait`, asked(planned({}), { checkpoint_id: 'no-such' }))
  t.equal(refused.status, 404)
})

t.test('the state of a subgraph that waits is shown on demand', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, shared!))
  await talk.wait({ nested: true, pause: true, text: 'in there' })
  const whole = (await talk.person.get(`${talk.path}/state?subgraphs=true`)).body
  t.match(whole, { next: ['nested'], tasks: [{ name: 'nested', interrupts: [{ value: { question: 'Go on?' } }] }] })
  t.match(at(whole, 'tasks', 0, 'state'), { next: ['answerer'], values: { messages: [{ type: 'human' }] } })
  const bare = await talk.state()
  t.equal(at(bare, 'tasks', 0, 'state'), null)
  const place = at(bare, 'tasks', 0, 'checkpoint') as { checkpoint_ns: string }
  t.match(place, { checkpoint_ns: /^nested:/ })
  const inner = await talk.person.post(`${talk.path}/state/checkpoint`, {
    checkpoint: at(whole, 'tasks', 0, 'state', 'checkpoint')
  })
  t.match(inner.body, { next: ['answerer'] })
  const answered = await talk.answer('yes')
  t.match(saidIn(answered).at(-1), ['ai', 'in there '])
})

t.test('a server that is away: the history is 503 with the reason, and the state is ours', { skip }, async (t) => {
  const own = await startGraphServer(t, folder!)
  const talk = await Talk.begin(await siteOf(t, own))
  await talk.wait({ text: 'one' })
  await own.kill()
  const { status, body } = await talk.person.post(`${talk.path}/history`, {})
  t.equal(status, 503)
  t.match(at(body, 'detail'), /cannot be reached|unreachable/)
  t.match(await talk.said(), [
    ['human', String],
    ['ai', 'one ']
  ])
})

/** Frames of a stream, by event, without what is of one run alone. */
function shapesOf(frames: readonly { readonly event: string; readonly data: string }[]): string[] {
  return frames
    .filter(({ event }) => /^(tasks|checkpoints|debug)/.test(event))
    .map(({ event, data }) => {
      const { type, payload, ...rest } = JSON.parse(data) as Record<string, unknown>
      const shown = (payload ?? rest) as Record<string, unknown>
      return `${event.replace(/:[0-9a-f-]+/g, '')} ${type ?? ''} ${shown.name ?? ''} ${Object.keys(shown).sort()}`
    })
}

for (const subgraphs of [false, true])
  t.test(
    `tasks, checkpoints and debug are what the server sends, ${subgraphs ? 'with' : 'without'} subgraphs`,
    { skip },
    async (t) => {
      const talk = await Talk.begin(await siteOf(t, shared!))
      const content = planned({ nested: true, text: 'in there' })
      const stream_mode = ['tasks', 'checkpoints', 'debug', 'values', 'updates', 'custom', 'messages-tuple']
      const more = { stream_mode, stream_subgraphs: subgraphs }
      const ours = await (await talk.person.stream(talk.thread, content, more)).whole()
      const input = { messages: [{ role: 'user', content }] }
      const body = JSON.stringify({ assistant_id: 'agent', input, ...more, if_not_exists: 'create' })
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`${shared!.url}/threads/${randomUUID()}/runs/stream`, {
        method: 'POST',
        headers,
        body
      })
      const theirs = (await answer.text()).split(/\r?\n\r?\n/).flatMap((text) => {
        const [, event] = /^event: (.*?)\r?$/m.exec(text) ?? []
        const [, data] = /^data: (.*?)\r?$/m.exec(text) ?? []
        return event && data ? [{ event, data }] : []
      })
      // What names a checkpoint before its values is no checkpoint.
      const isShown = ({ event, data }: { event: string; data: string }) =>
        !event.startsWith('checkpoints') || data.includes('"values"')
      t.strictSame(shapesOf(ours), shapesOf(theirs.filter(isShown)))
      t.ok(shapesOf(ours).length > 9)
      t.equal(
        shapesOf(ours).some((shape) => shape.includes('|nested')),
        subgraphs
      )
      const joined = await (
        await talk.person.join(`${talk.path}/runs/${textIn((await talk.runs())[0], 'run_id')}`, null, stream_mode)
      ).whole()
      t.strictSame(shapesOf(joined), shapesOf(ours), 'also to whoever comes later')
    }
  )
