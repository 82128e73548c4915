// What is the server's own affair with the runtime `langgraph`: users, cut connections, servers that hang and die; against the real one.
import t, { type Test } from 'tap'
import { at, listIn, openSite, type Site, signIn, textIn, until } from '../fixtures/gateway.ts'
import { dataOf, saidIn, Talk, textsIn } from '../fixtures/graph-journey.ts'
import { graphFolder, startGraphServer } from '../fixtures/langgraph.ts'
import { openProxy } from '../fixtures/proxy.ts'

// Most of it is waiting for the server.
t.jobs = 3

const folder = await graphFolder(t)

function siteOf(t: Test, server: { readonly url: string }, more: object = {}): Promise<Site> {
  return openSite(t, { config: { agent: { runtime: 'langgraph', url: server.url, assistant_id: 'agent', ...more } } })
}

const skip = folder === null && 'LangGraph cannot be installed here'
const server = folder === null ? null : await startGraphServer(t, folder)

t.test('[Auth 13] a thread on the server bears its user, and is gone when ours is', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, server!))
  await talk.wait({ text: 'hello' })
  const me = textIn((await talk.person.get('/api/v1/auth/me')).body, 'id')
  const remote = await server!.ask(`/threads/${talk.thread}`)
  t.match(remote, { metadata: { user_id: me, gateway_thread_id: talk.thread } })
  const [run] = listIn(await server!.ask(`/threads/${talk.thread}/runs`))
  t.match(run, { metadata: { user_id: me } })
  t.equal((await talk.person.ask('DELETE', talk.path)).status, 200)
  await until(
    async () => at(await server!.ask(`/threads/${talk.thread}`), 'status') === 404,
    'the thread is gone there'
  )
})

t.test('[Auth 13] a thread of our name that is somebody else’s there is left alone', { skip }, async (t) => {
  const site = await siteOf(t, server!)
  const ada = await Talk.begin(site)
  await ada.wait({ text: 'a secret of Ada' })
  // Another gateway, with its own users, over the same server.
  const bob = await signIn(await siteOf(t, server!))
  await bob.post('/api/threads', { thread_id: ada.thread })
  const talk = new Talk(bob, ada.thread)
  t.match(saidIn(await talk.wait({ text: 'hello' })), [
    ['human', String],
    ['ai', 'hello ']
  ])
  t.strictSame(at(await talk.state(), 'values', 'notes'), ['after 1'])
  await talk.wait({ text: 'again' })
  t.strictSame(at(await talk.state(), 'values', 'notes'), ['after 1', 'after 3'])
  await ada.wait({ text: 'more' })
  t.strictSame(at(await ada.state(), 'values', 'notes'), ['after 1', 'after 3'], 'and hers goes on')
})

t.test('a thread whose name is no UUID has one there', { skip }, async (t) => {
  const person = await signIn(await siteOf(t, server!))
  await person.post('/api/threads', { thread_id: 'my-own-name' })
  const talk = new Talk(person, 'my-own-name')
  for (const text of ['one', 'two']) await talk.wait({ text })
  t.strictSame(at(await talk.state(), 'values', 'notes'), ['after 1', 'after 3'])
})

t.test('a cancel reaches the run on the server', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, server!))
  const stream = await talk.stream({ text: 'one two', hang: 1 })
  await stream.until(({ frames }) => frames.some(({ data }) => data.includes('"one "')))
  await talk.person.post(`${stream.runPath}/cancel?wait=true`)
  const statusThere = async () => at(listIn(await server!.ask(`/threads/${talk.thread}/runs`))[0], 'status')
  await until(async () => (await statusThere()) === 'interrupted', 'the run there ends')
  t.equal((await stream.whole()).at(-1)?.event, 'end')
})

t.test('a graph that stops before a node waits for its user, and goes on', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, server!, { assistant_id: 'stopping' }))
  const asking = await talk.wait({ call: ['add', { a: 1, b: 2 }] })
  t.match(at(asking, '__interrupt__'), [{ value: { when: 'breakpoint', next: ['tools'] } }])
  t.match(await talk.state(), { next: ['tools'] })
  t.match(saidIn(await talk.answer('go')).slice(1), [
    ['ai', ''],
    ['tool', '3'],
    ['ai', 'the tool said 3 ']
  ])
})

t.test('connections that are cut are taken up again: nothing is missing, nothing comes twice', { skip }, async (t) => {
  const proxy = await openProxy(t, server!.url)
  const talk = await Talk.begin(await siteOf(t, proxy))
  const text = Array.from({ length: 200 }, (_, n) => `w${n}`).join(' ')
  await talk.wait({ text: 'short' })
  proxy.cutAfter(20_000, 20_000, 20_000)
  const frames = await (await talk.stream({ text, rate: 1000 })).whole()
  t.equal(proxy.cutsLeft, 0)
  t.match((await talk.runs())[0], { status: 'success', error: null })
  t.equal([...textsIn(frames).values()].join(''), `${text} `)
  t.match((await talk.said()).at(-1), ['ai', `${text} `])
})

t.test('a stream that breaks before its first event is heard from its start', { skip }, async (t) => {
  const proxy = await openProxy(t, server!.url)
  const talk = await Talk.begin(await siteOf(t, proxy))
  proxy.cutBehindHead()
  const frames = await (await talk.stream({ text: 'one two' })).whole()
  t.equal(proxy.cutsLeft, 0)
  t.equal([...textsIn(frames).values()].join(''), 'one two ')
  t.match((await talk.runs())[0], { status: 'success', error: null })
})

t.test('a server that is not there ends the run as error, in words', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, { url: 'http://127.0.0.1:9' }, { reconnect_ms: 0 }))
  const frames = await (await talk.stream({ text: 'hello' })).whole()
  t.match(dataOf(frames, 'error'), [{ error: 'AgentUnavailable', message: /cannot be reached/ }])
  t.equal(frames.at(-1)?.event, 'end')
  t.match(await talk.said(), [['human', String]], 'what was said is kept')
})

t.test('a graph that the server does not have is refused with its words', { skip }, async (t) => {
  const talk = await Talk.begin(await siteOf(t, server!, { assistant_id: 'nobody' }))
  await talk.wait({ text: 'hello' })
  t.match((await talk.runs())[0], { status: 'error', error: /status 404: No assistant found/ })
})

t.test('a server that hangs ends the run as error, with what was said', { skip }, async (t) => {
  const own = await startGraphServer(t, folder!)
  const talk = await Talk.begin(await siteOf(t, own, { idle_timeout_ms: 300, reconnect_ms: 300 }))
  const quiet = await talk.stream({ text: 'one two', rate: 1, hang: -1 })
  t.match((await quiet.whole()).at(-1), { event: 'end' })
  t.match((await talk.runs())[0], { status: 'success', error: null }, 'silence alone is no reason')
  const stream = await talk.stream({ text: 'one two', hang: 1 })
  await stream.until(({ frames }) => frames.some(({ data }) => data.includes('"one "')))
  own.freeze()
  const frames = await stream.whole()
  t.match(dataOf(frames, 'error'), [{ error: 'AgentTimeout' }])
  t.equal(frames.at(-1)?.event, 'end')
  t.match((await talk.said()).at(-1), ['ai', 'one '])
})

t.test('kill -9 of the server ends the run as error with end; a new one is told what was said', { skip }, async (t) => {
  const own = await startGraphServer(t, folder!)
  const talk = await Talk.begin(await siteOf(t, own, { reconnect_ms: 1000 }))
  await talk.wait({ text: 'first' })
  const stream = await talk.stream({ text: 'one two', hang: 1 })
  await stream.until(({ frames }) => frames.some(({ data }) => data.includes('"one "')))
  await own.kill()
  const frames = await stream.whole()
  t.match(dataOf(frames, 'error'), [{ error: /Agent(Unavailable|Interrupted)/ }])
  t.equal(frames.at(-1)?.event, 'end')
  t.match((await talk.runs())[0], { status: 'error' })
  await own.again()
  const values = await talk.wait({ text: 'next' })
  t.match(saidIn(values), [
    ['human', String],
    ['ai', 'first '],
    ['human', String],
    ['ai', 'one '],
    ['human', String],
    ['ai', 'next ']
  ])
  t.strictSame(at(values, 'notes'), ['after 1', 'after 5'])
})
