// Threads as LangGraph's clients use them: every method and option, with every version of the client.
import t from 'tap'
import { at, asked, listIn, openSite, signIn, until } from '../fixtures/gateway.ts'
import { probes, refusal, type Sdk } from '../fixtures/sdk.ts'

const says = (words: string) => ({ input: { messages: [{ role: 'user', content: words }] } })
const QUICK = says('hello /demo deltas=1 rate=0')
const probe = probes(t)

const idsOf = (threads: readonly { thread_id: string }[]) => threads.map(({ thread_id }) => thread_id)

/** A thread with a turn in it. */
async function talked(client: Sdk, words: string, metadata: Record<string, unknown> = {}): Promise<string> {
  const { thread_id } = await client.threads.create({ metadata })
  await client.runs.wait(thread_id, 'lead_agent', says(`${words} /demo deltas=1 rate=0`))
  return thread_id
}

probe('create: an id that is taken is 409, unless ifExists is do_nothing', async (t, { client }) => {
  const threadId = crypto.randomUUID()
  const made = await client.threads.create({ threadId, metadata: { n: 1 } })
  t.match(made, { thread_id: threadId, status: 'idle', metadata: { n: 1 } })
  t.equal(await refusal(client.threads.create({ threadId })), 409)
  t.equal(await refusal(client.threads.create({ threadId, ifExists: 'raise' })), 409)
  t.match(await client.threads.create({ threadId, ifExists: 'do_nothing' }), { metadata: { n: 1 } })
})

probe('create: supersteps make a history', async (t, { client }) => {
  const message = (type: string, content: string) => ({ type, content, id: content })
  const supersteps = [
    { updates: [{ values: { messages: [message('human', 'one')] }, asNode: '__input__' }] },
    { updates: [{ values: { messages: [message('human', 'one'), message('ai', 'two')] }, asNode: 'agent' }] }
  ]
  const { thread_id } = await client.threads.create({ supersteps, graphId: 'lead_agent' })
  const state = await client.threads.getState(thread_id)
  t.match(state.values, { messages: [{ content: 'one' }, { content: 'two' }] })
  t.ok((await client.threads.getHistory(thread_id)).length >= 2)
  await client.runs.wait(thread_id, 'lead_agent', QUICK)
  t.equal(listIn((await client.threads.getState(thread_id)).values, 'messages').length, 4)
})

probe('update: metadata is merged; returnMinimal (Prefer) is 204', async (t, { client, person, version }) => {
  const { thread_id } = await client.threads.create({ metadata: { a: 1 } })
  t.match(await client.threads.update(thread_id, { metadata: { b: 2 } }), { metadata: { a: 1, b: 2 } })
  await client.threads.patchState(thread_id, { d: 4 })
  t.match(await client.threads.get(thread_id), { metadata: { a: 1, d: 4 } })
  const minimal = { headers: { prefer: 'return=minimal' }, body: { metadata: { c: 3 } } }
  // Older clients have no word for it.
  if (version === '1.5.3' || version === '2.0.0')
    t.equal((await person.ask('PATCH', `/threads/${thread_id}`, minimal)).status, 204)
  else t.equal(await client.threads.update(thread_id, { metadata: { c: 3 }, returnMinimal: true }), undefined)
  t.match(await client.threads.get(thread_id), { metadata: { a: 1, b: 2, c: 3 } })
})

probe('create: ttl is kept, and updated', async (t, { client, person }) => {
  const made = await client.threads.create({ ttl: { ttl: 5, strategy: 'delete' } })
  t.match(made, { ttl: { strategy: 'delete', ttl_minutes: 5, expires_at: String } })
  const id = made.thread_id
  t.match((await person.get(`/api/threads/${id}?include=ttl`)).body, { ttl: { ttl_minutes: 5 } })
  await client.threads.update(id, { ttl: 0.5 })
  t.match(await client.threads.get(id), { ttl: { ttl_minutes: 0.5 } })
  for (const ttl of [0, -1, 'long', { ttl: 1e12 }, { ttl: 5, strategy: 'burn' }])
    t.equal((await person.post('/api/threads', { ttl })).status, 422, JSON.stringify(ttl))
  t.match(await client.threads.create({ ttl: 7 }), { ttl: { ttl_minutes: 7 } })
})

probe('copy: record, state and history, and both go on apart', async (t, { client }) => {
  const original = await talked(client, 'one', { team: 'red' })
  const copy = (await client.threads.copy(original)) as unknown as { thread_id: string }
  t.not(copy.thread_id, original)
  t.match(copy, { status: 'idle', metadata: { team: 'red', graph_id: 'lead_agent' } })
  const [state, other] = [await client.threads.getState(original), await client.threads.getState(copy.thread_id)]
  t.same(other.values, state.values)
  t.match(other.checkpoint, { thread_id: copy.thread_id })
  t.equal((await client.threads.getHistory(copy.thread_id)).length, (await client.threads.getHistory(original)).length)
  await client.runs.wait(copy.thread_id, 'lead_agent', QUICK)
  t.equal(listIn((await client.threads.getState(copy.thread_id)).values, 'messages').length, 4)
  t.equal(listIn((await client.threads.getState(original)).values, 'messages').length, 2)
  t.equal(await refusal(client.threads.copy(crypto.randomUUID())), 404)
})

probe('search: ids, metadata also nested, values, status, order, pages', async (t, { client }) => {
  const one = await talked(client, 'red words', { team: { color: 'red', of: ['ann', 'bob'] }, n: 1 })
  const two = await talked(client, 'blue words', { team: { color: 'blue' }, n: 1 })
  await client.threads.create({ metadata: { n: 2 } })
  const found = async (query: object) => idsOf(await client.threads.search(query))
  t.same(await found({ metadata: { team: { color: 'red' } } }), [one])
  t.same(await found({ metadata: { team: { of: ['bob'] }, n: 1 } }), [one])
  t.same(await found({ metadata: { team: { of: ['cat'] } } }), [])
  t.same(await found({ ids: [one, two], sortBy: 'created_at', sortOrder: 'asc' }), [one, two])
  t.same(await found({ metadata: { n: 1 } }), [two, one])
  t.same(await found({ metadata: { n: 1 }, limit: 1, offset: 1 }), [one])
  t.same(await found({ status: 'busy' }), [])
  t.equal((await found({ status: 'idle' })).length, 3)
})

probe('search: values, and order by state_updated_at', async (t, { client, person }) => {
  const one = await talked(client, 'red words')
  const two = await talked(client, 'blue words')
  const found = async (query: object) => idsOf(await client.threads.search(query))
  t.same(await found({ values: { messages: [{ content: 'red words /demo deltas=1 rate=0' }] } }), [one])
  t.same(await found({ values: { messages: [{ content: 'green' }] } }), [])
  t.same(await found({ sortBy: 'state_updated_at', sortOrder: 'desc' }), [two, one])
  await client.runs.wait(one, 'lead_agent', QUICK)
  t.same(await found({ sortBy: 'state_updated_at', sortOrder: 'desc' }), [one, two])
  const { body } = await person.post('/api/threads/search', { query: 'BLUE' })
  t.match(body, [{ thread_id: two }])
  t.equal(listIn(body).length, 1)
})

probe('search: a list has values and interrupts; select and extract say which parts', async (t, given) => {
  const { client, person, version } = given
  const id = await talked(client, 'first question')
  const [thread] = await client.threads.search({ metadata: { graph_id: 'lead_agent' } })
  t.match(thread, { thread_id: id, values: { messages: [{ content: /first question/ }, { type: 'ai' }] } })
  t.match(thread, { status: 'idle', interrupts: {}, state_updated_at: String })
  const { text } = await person.get(`/threads/${id}`)
  t.equal(text.match(/"status":/g)?.length, 1, 'each member once: which of two a reader takes is not defined')
  const ask = async (query: object) => (await client.threads.search(query))[0]
  t.match(await ask({ select: ['thread_id', 'values'] }), { thread_id: id, values: { messages: [{}, {}] } })
  t.same(Object.keys((await ask({ select: ['thread_id', 'status'] })) as object), ['thread_id', 'status'])
  const extract = {
    first: 'values.messages[0].content',
    last: 'values.messages[-1].type',
    none: 'values.messages[9].content',
    graph: 'metadata.graph_id'
  }
  const extracted = { first: /first question/, last: 'ai', none: null, graph: 'lead_agent' }
  const body = { select: ['thread_id'], extract }
  // Older clients have no word for it.
  t.match((await person.post('/api/threads/search', body)).body, [{ thread_id: id, extracted }])
  if (version === '1.12.4' || version === '1.15.0') t.match(await ask(body), { thread_id: id, extracted })
  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`a${n}`, 'status']))
  for (const bad of [{ a: 'values[' }, { a: '$.values' }, { a: 1 }, eleven])
    t.equal((await person.post('/api/threads/search', { extract: bad })).status, 422, JSON.stringify(bad).slice(0, 40))
})

probe('search: without a limit ten at most, and the headers say what there is', async (t, { client, person }) => {
  for (let n = 0; n < 12; n++) await client.threads.create()
  const threads = await client.threads.search()
  t.equal(threads.length, 10)
  const page = await person.post('/api/threads/search', { limit: 5, offset: 5 })
  t.equal(page.headers.get('x-pagination-total'), '12')
  t.equal(page.headers.get('x-pagination-next'), '10')
})

probe('a thread with a run in flight is busy, and found as such', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'lead_agent', says('/demo deltas=100000 rate=20'))
  await until(async () => (await client.threads.get(thread_id)).status === 'busy', 'the thread is busy')
  t.match(await client.threads.search({ status: 'busy' }), [{ thread_id, status: 'busy' }])
  await client.runs.cancel(thread_id, run_id, true)
  t.match(await client.threads.get(thread_id), { status: 'idle' })
})

probe('count and prune', async (t, { client, person }) => {
  const one = await client.threads.create({ metadata: { team: { color: 'red' } } })
  const two = await client.threads.create({ metadata: { n: 1 } })
  const count = async (body: object) => (await person.post('/api/threads/count', body)).body
  t.equal(await count({}), 2)
  t.equal(await count({ metadata: { n: 1 } }), 1)
  t.equal(await count({ metadata: { team: { color: 'red' } } }), 1)
  t.equal(await count({ status: 'error' }), 0)
  t.equal(await client.threads.count({ metadata: { n: 1 } }), 1)
  const ids = [one.thread_id, crypto.randomUUID()]
  // Older clients do not have it.
  const pruned =
    'prune' in client.threads
      ? await client.threads.prune(ids)
      : (await person.post('/threads/prune', { thread_ids: ids })).body
  t.same(pruned, { pruned_count: 1 })
  t.same(idsOf(await client.threads.search()), [two.thread_id])
})

t.test("what is LangGraph's by default is none of the service's own clients", async (t) => {
  const person = await signIn(await openSite(t))
  const threadId = await person.thread()
  t.equal((await person.post('/api/threads', { thread_id: threadId })).status, 200, 'creation is idempotent [spec]')
  t.equal((await person.post('/api/threads', { thread_id: threadId, if_exists: 'raise' })).status, 409)
  await person.post(`/api/threads/${threadId}/runs/wait`, asked('words /demo deltas=1 rate=0'))
  const [listed] = listIn((await person.post('/api/threads/search', {})).body)
  t.same(Object.keys(at(listed, 'values') as object), ['title'], 'a list shows the title')
  const working = await person.run(threadId, '/demo deltas=100000 rate=20')
  const status = async () => at((await person.get(`/api/threads/${threadId}`)).body, 'status')
  await until(async () => (await status()) === 'running', 'the thread is running')
  await person.post(`${working}/cancel?wait=true`)
})

t.test('nobody copies, prunes, counts or finds what is somebody else’s', async (t) => {
  const site = await openSite(t)
  const [ann, bob] = [await signIn(site), await signIn(site)]
  const id = await ann.thread()
  await ann.post(`/api/threads/${id}/runs/wait`, asked('secret words /demo deltas=1 rate=0'))
  t.equal((await bob.post(`/api/threads/${id}/copy`)).status, 404)
  t.same((await bob.post('/api/threads/prune', { thread_ids: [id] })).body, { pruned_count: 0 })
  t.equal((await bob.post('/api/threads/count', { ids: [id] })).body, 0)
  t.same((await bob.post('/api/threads/search', { query: 'secret', select: ['values'] })).body, [])
  t.equal((await ann.get(`/api/threads/${id}`)).status, 200)
})
