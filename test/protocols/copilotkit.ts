// CopilotKit's runtime as its pages ask for it, by recorded requests: agents, runs, a stop, and the threads of a list.
import t from 'tap'
import { at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'

const site = await openSite(t)
const PATH = '/api/copilotkit'
const AGENT = `${PATH}/agent/lead_agent`
const OF_AGENT = { agentId: 'lead_agent' }

const typesIn = (text: string): string[] =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => (JSON.parse(json!) as { type: string }).type)
const inputOf = (threadId: string, runId: string, words: string | null) => ({
  threadId,
  runId,
  state: {},
  messages: words === null ? [] : [{ id: `m-${runId}`, role: 'user', content: words }],
  tools: [],
  context: [],
  forwardedProps: {}
})
const run = (person: Person, threadId: string, runId: string, words = '/demo deltas=2 rate=0') =>
  person.post(`${AGENT}/run`, inputOf(threadId, runId, words))
const listed = async (person: Person, more = '') =>
  listIn((await person.get(`${PATH}/threads?agentId=lead_agent${more}`)).body, 'threads').map((one) => at(one, 'id'))

t.test('a runtime names its agents, speaks server-sent events, and has threads by REST', async (t) => {
  const person = await signIn(site)
  const { body } = await person.get(`${PATH}/info`)
  t.match(body, {
    mode: 'sse',
    agents: { lead_agent: { name: 'lead_agent', description: String } },
    threadEndpoints: { list: true, mutations: true, realtimeMetadata: false }
  })
  t.equal((await fetch(`${site.url}${PATH}/info`)).status, 401)
})

t.test('a run is joined by connecting to its thread, by others not at all, and is stopped by its name', async (t) => {
  const [person, other] = [await signIn(site), await signIn(site, 'other')]
  const stream = await person.open('POST', `${AGENT}/run`, {
    body: inputOf('talk', 'r1', '/demo deltas=100000 rate=50')
  })
  await stream.until(({ bytes }) => String(bytes).includes('TEXT_MESSAGE_CONTENT'))
  stream.leave()
  const connected = person.post(`${AGENT}/connect`, inputOf('talk', 'fresh', null))
  t.match(await other.post(`${AGENT}/connect`, inputOf('talk', 'fresh', null)), { status: 200, text: '' })
  t.match(await other.post(`${AGENT}/stop/talk`, {}), { status: 200, body: { stopped: false } })
  t.match(await person.post(`${AGENT}/stop/talk`, { runId: 'r0' }), { body: { stopped: false } })
  t.match(await person.post(`${AGENT}/stop/talk`, { runId: 'r1' }), { status: 200, body: { stopped: true } })
  const types = typesIn((await connected).text)
  t.strictSame([types[0], types.at(-1)], ['RUN_STARTED', 'RUN_FINISHED'])
  t.match(await person.ask('POST', `${AGENT}/stop/talk`), { status: 200, body: { stopped: false } }, 'without a body')
})

t.test('threads are listed newest first, page by page, renamed, archived, brought back and deleted', async (t) => {
  const [person, other] = [await signIn(site), await signIn(site, 'other')]
  for (const id of ['one', 'two', 'three']) await run(person, id, `run of ${id}`)
  t.strictSame(await listed(person), ['three', 'two', 'one'])
  t.strictSame(await listed(other), [])
  const first = (await person.get(`${PATH}/threads?agentId=lead_agent&limit=2`)).body
  t.match(first, { threads: [{ id: 'three', agentId: 'lead_agent', archived: false, createdAt: String }, {}] })
  t.strictSame(await listed(person, `&limit=2&cursor=${textIn(first, 'nextCursor')}`), ['one'])
  t.strictSame(await person.get(`${PATH}/threads?agentId=none`).then(({ body }) => body), {
    threads: [],
    nextCursor: null
  })

  const path = `${PATH}/threads/two`
  t.match(await person.ask('PATCH', path, { body: { ...OF_AGENT, name: 'Renamed' } }), { body: { name: 'Renamed' } })
  t.match(await person.post(`${path}/archive`, OF_AGENT), { body: { threadId: 'two', archived: true } })
  t.notOk((await listed(person)).includes('two'))
  t.ok((await listed(person, '&includeArchived=true')).includes('two'))
  await person.ask('PATCH', path, { body: { ...OF_AGENT, archived: false } })
  const again = listIn((await person.get(`${PATH}/threads?agentId=lead_agent`)).body, 'threads')
  t.match(
    again.find((one) => at(one, 'id') === 'two'),
    { name: 'Renamed', archived: false }
  )

  for (const [method, sent] of [
    ['PATCH', { name: 'mine' }],
    ['DELETE', OF_AGENT]
  ] as const)
    t.equal((await other.ask(method, path, { body: sent })).status, 404, `${method} by somebody else`)
  t.match(await person.ask('DELETE', path, { body: OF_AGENT }), { status: 200, body: { deleted: true } })
  t.notOk((await listed(person, '&includeArchived=true')).includes('two'))
  t.equal((await person.ask('DELETE', path, { body: OF_AGENT })).status, 404)
  await until(
    async () => typesIn((await run(person, 'two', 'anew')).text).at(-1) === 'RUN_FINISHED',
    'its name is free'
  )
})

t.test('a copy has an id of its own, by which it alone is renamed and deleted', async (t) => {
  const person = await signIn(site)
  await run(person, 'original', 'run of it')
  const [own] = listIn((await person.post('/api/threads/search', {})).body)
  const copy = textIn((await person.post(`/api/threads/${textIn(own, 'thread_id')}/copy`)).body, 'thread_id')
  t.strictSame((await listed(person)).toSorted(), ['original', copy].toSorted())
  t.match(await person.ask('DELETE', `${PATH}/threads/${copy}`, { body: OF_AGENT }), { status: 200 })
  t.strictSame(await listed(person), ['original'])
})

t.test('what cannot be read is refused by name', async (t) => {
  const person = await signIn(site)
  t.match(await person.get(`${PATH}/threads`), { status: 422, text: /agentId/ })
  t.match(await person.get(`${PATH}/threads?agentId=a&cursor=x`), { status: 422, text: /cursor/ })
  t.match(await person.post(`${AGENT}/run`, { runId: 'x' }), { status: 422, text: /threadId/ })
  t.match(await person.post(`${AGENT}/stop/x`, { runId: 7 }), { status: 422, text: /runId/ })
  t.match(await person.ask('PATCH', `${PATH}/threads/x`, { body: { archived: 'yes' } }), {
    status: 422,
    text: /archived/
  })
  t.equal((await person.post(`${PATH}/agent/nobody/run`, inputOf('t', 'r', 'hi'))).status, 404)
})
