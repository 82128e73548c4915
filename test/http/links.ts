// Links to a thread over HTTP: whoever has one reads that thread, live, and nothing else. What each route gives by a link is walked in table.ts.
import t from 'tap'
import { asked, at, listIn, openSite, Person, signIn, textIn, until } from '../fixtures/gateway.ts'

const LONG = '/demo deltas=400 rate=100'
const BY = (link: string) => ({ headers: { 'x-share-link': link } })
const refused = (code: string) => ({ status: 401, body: { detail: { code } } })

async function thread(person: Person): Promise<string> {
  return `/api/threads/${textIn((await person.post('/api/threads', {})).body, 'thread_id')}`
}

async function linkTo(person: Person, path: string, more: object = {}) {
  const { body } = await person.post(`${path}/links`, more)
  return { link: textIn(body, 'link'), id: textIn(body, 'link_id') }
}

t.test('links are off unless the operator turns them on, and go out with the option', async (t) => {
  const site = await openSite(t, { config: {} })
  const person = await signIn(site)
  const path = await thread(person)
  t.match(await person.post(`${path}/links`, {}), { status: 403, body: { detail: /turned off/ } })
  t.match(await new Person(site.url).get(path, BY('clq_anything')), refused('token_invalid'))
  t.match((await person.get('/api/features')).body, { sharing: { enabled: false } })
})

t.test('a link is shown once, has an end, and is listed without its secret', async (t) => {
  const person = await signIn(await openSite(t, { config: { sharing: 'public' } }))
  const path = await thread(person)
  const made = await person.post(`${path}/links`, { expires_in_days: 2 })
  t.match(made, { status: 201, body: { files: false, link: /^clq_[A-Za-z0-9_-]{43}$/ } })
  t.match(textIn(made.body, 'url'), `/#/shared/${path.split('/').at(-1)}/${textIn(made.body, 'link')}`)
  t.equal(Date.parse(textIn(made.body, 'expires_at')) - Date.parse(textIn(made.body, 'created_at')), 2 * 86_400_000)
  const listed = await person.get(`${path}/links`)
  const { link: _, url: __, ...rest } = made.body as Record<string, unknown>
  t.strictSame(listed.body, { links: [rest] })
  t.strictSame((await person.get('/api/v1/auth/tokens')).body, { tokens: [] }, 'it is no API token')
  for (const body of [{ expires_in_days: 0 }, { expires_in_days: 366 }, { files: 'yes' }, { expires_in_days: null }])
    t.equal((await person.post(`${path}/links`, body)).status, 422, JSON.stringify(body))
  for (let i = 1; i < 20; i++) await person.post(`${path}/links`, {})
  t.match(await person.post(`${path}/links`, {}), { status: 409, body: { detail: /at most 20 links/ } })
  t.equal((await person.post(`${await thread(person)}/links`, {})).status, 201, 'another thread has its own')
})

t.test('the secret of a link is no other credential, and no other credential a link', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public' } })
  const person = await signIn(site)
  const path = await thread(person)
  const { link } = await linkTo(person, path)
  const token = textIn((await person.post('/api/v1/auth/tokens', { scopes: ['threads:read'] })).body, 'token')
  const bare = new Person(site.url)
  t.match(await bare.get(path, { headers: { authorization: `Bearer ${link}` } }), refused('token_invalid'))
  t.match(await bare.get('/api/v1/auth/me', { headers: { 'x-api-key': link } }), refused('token_invalid'))
  t.match(await bare.get(path, BY(token)), refused('token_invalid'))
  t.match(await bare.get(path, BY('')), refused('token_invalid'))
  t.equal((await person.get('/api/v1/auth/me', BY(link))).status, 403, 'a link counts before a session: it opens less')
})

t.test('whoever opens a link in mid-answer reads from the exact frame on, and a revoked one ends', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public', streams: { heartbeat_ms: 100 } } })
  const person = await signIn(site)
  const path = await thread(person)
  const { link, id } = await linkTo(person, path)
  const run = textIn(
    (await person.post(`${path}/runs`, asked(LONG, { config: { configurable: { secret: 'x' } } }))).body,
    'run_id'
  )
  const reader = new Person(site.url)
  const listed = await reader.get(`${path}/runs`, BY(link))
  t.match(listed.body, [{ run_id: run, kwargs: { input: { messages: [{ content: LONG }] }, config: null } }])
  const own = await person.join(`${path}/runs/${run}`, null, ['messages-tuple'])
  await own.untilFrames(9)
  const place = { 'last-event-id': own.frames[4]?.id ?? '', 'x-share-link': link }
  const address = `${path}/runs/${run}/stream?stream_mode=messages-tuple`
  const theirs = await reader.open('GET', address, { headers: place })
  await theirs.untilFrames(4)
  t.strictSame(theirs.frames.slice(0, 4), own.frames.slice(5, 9), 'the same frames, from the same place on')
  t.equal((await person.ask('DELETE', `${path}/links/${id}`)).status, 200)
  t.equal(await theirs.ended, 'reset')
  t.match(await reader.get(path, BY(link)), refused('token_invalid'))
  t.equal(own.isOver, false, 'its maker reads on')
  own.leave()
})

t.test('a link shows the conversation, and nothing of how its runs were made', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public' } })
  const person = await signIn(site)
  const path = await thread(person)
  const { link } = await linkTo(person, path)
  const modes = { stream_mode: ['values', 'debug', 'checkpoints', 'tasks', 'events'] }
  const run = `${path}/runs/${textIn((await person.post(`${path}/runs`, asked('hi', modes))).body, 'run_id')}`
  await (await person.join(run, null, ['values'])).ended
  const reader = new Person(site.url)
  const state = await reader.get(`${path}/state`, BY(link))
  t.ok(at(state.body, 'values', 'messages'))
  t.notOk(at(state.body, 'metadata'), 'metadata has the configuration of the run')
  t.notOk(at((await reader.get(`${path}/state?select=metadata&subgraphs=true`, BY(link))).body, 'metadata'))
  const inside = /^(debug|checkpoints|tasks|events)$/
  for (const query of ['', '?stream_mode=debug&stream_mode=values', '?stream_mode=checkpoints&stream_mode=tasks']) {
    const stream = await reader.open('GET', `${run}/stream${query}`, BY(link))
    await stream.ended
    t.ok(stream.frames.length > 1, query)
    t.strictSame(
      stream.frames.filter(({ event }) => inside.test(event)),
      [],
      query
    )
  }
  const own = await person.join(run, null, ['debug'])
  await own.ended
  t.ok(
    own.frames.some(({ event }) => inside.test(event)),
    'its maker sees them'
  )
  const all = await reader.open('GET', `${path}/stream?last_event_id=1`, BY(link))
  await all.untilFrames(20)
  t.strictSame(
    all.frames.filter(({ event }) => inside.test(event)),
    []
  )
  all.leave()
})

t.test('one viewer who signs out ends what he reads, and nothing of another', async (t) => {
  const site = await openSite(t, { config: { sharing: 'users', streams: { heartbeat_ms: 100 } } })
  const person = await signIn(site)
  const path = await thread(person)
  const { link } = await linkTo(person, path)
  const run = `${path}/runs/${textIn((await person.post(`${path}/runs`, asked(LONG))).body, 'run_id')}`
  const [one, other] = [await signIn(site, 'one'), await signIn(site, 'other')]
  const read = (viewer: Person) => viewer.open('GET', `${run}/stream?stream_mode=messages-tuple`, BY(link))
  const [theirs, others] = [await read(one), await read(other)]
  await theirs.untilFrames(4)
  await one.post('/api/v1/auth/logout')
  t.equal(await theirs.ended, 'reset')
  const before = others.frames.length
  await others.untilFrames(before + 20)
  t.equal(others.isOver, false, 'the other reads on')
  others.leave()
})

t.test('where links are for users, a link needs a session besides', async (t) => {
  const site = await openSite(t, { config: { sharing: 'users' } })
  const person = await signIn(site)
  const path = await thread(person)
  const { link } = await linkTo(person, path)
  t.match(await new Person(site.url).get(path, BY(link)), refused('not_authenticated'))
  const other = await signIn(site, 'other')
  t.equal((await other.get(path)).status, 404)
  t.equal((await other.get(path, BY(link))).status, 200)
  await other.post('/api/v1/auth/logout')
  t.equal((await other.get(path, BY(link))).status, 401)
})

t.test('a link ends with its thread, and a new thread of the same id is another', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public' } })
  const person = await signIn(site)
  const path = await thread(person)
  const { link } = await linkTo(person, path)
  await person.ask('DELETE', path)
  await person.post('/api/threads', { thread_id: path.split('/').at(-1) })
  t.match(await new Person(site.url).get(path, BY(link)), refused('token_invalid'))
})

t.test('what is done with links stands in the audit, once an hour for each who opens one', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public' } })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: 'correct-horse-42' })
  const path = await thread(admin)
  const { link, id } = await linkTo(admin, path, { files: true })
  for (let i = 0; i < 3; i++) await new Person(site.url).get(path, BY(link))
  await admin.ask('DELETE', `${path}/links/${id}`)
  const lines = async () => {
    const entries = listIn((await admin.get('/api/v1/admin/audit')).body, 'entries')
    return entries.filter((one) => textIn(one, 'action').startsWith('link_'))
  }
  await until(async () => (await lines()).length === 3, 'the audit has all of it')
  t.match(
    (await lines()).map((one) => [textIn(one, 'action'), textIn(one, 'target')]).toSorted(),
    ['created', 'opened', 'revoked'].map((what) => [`link_${what}`, `link:${id}`])
  )
  t.notOk(JSON.stringify(await lines()).includes(link))
})

t.test('an address that asks for links too often is told to wait', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public' } })
  const reader = new Person(site.url)
  const ask = () => reader.get('/api/threads/none', BY('clq_wrong'))
  const answers: Awaited<ReturnType<typeof ask>>[] = []
  while (answers.length < 2000 && !answers.some(({ status }) => status === 429))
    answers.push(...(await Promise.all(Array.from({ length: 20 }, ask))))
  t.ok(answers.length > 200, 'who opens one, and reads along, is not')
  t.match(answers.find(({ status }) => status === 429)?.headers.get('retry-after'), /^\d+$/)
})
