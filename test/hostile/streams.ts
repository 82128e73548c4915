// Open streams are bounded whatever opens them and however many come at once, and a place is given back whatever becomes of it.
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { asked, openSite, type Person, signIn, until } from '../fixtures/gateway.ts'

const LIMITS = { streams: { per_user: 5, total: 8, heartbeat_ms: 200 } }
/** It says a word, and goes on for longer than any test. */
const LONG = '/demo deltas=100000 rate=5'

/** Statuses of answers whose bodies are not read, and how to go away. */
async function openAll(
  person: Person,
  requests: readonly (readonly [method: string, path: string, body?: unknown])[]
): Promise<{ statuses: number[]; responses: readonly Response[]; leave(): void }> {
  const away = new AbortController()
  const answers = requests.map(([method, path, body]) =>
    fetch(person.url + path, {
      method,
      signal: away.signal,
      headers: { ...person.headers(), ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) })
    })
  )
  // Kept: Node cancels the body of a response that nobody has any more.
  const responses = await Promise.all(answers)
  return { statuses: responses.map(({ status }) => status), responses, leave: () => away.abort() }
}

const count = (statuses: readonly number[], status: number) => statuses.filter((one) => one === status).length

t.test('a burst of streams, joins and waits cannot overshoot the limits of a user and of all', async (t) => {
  const site = await openSite(t, { config: LIMITS })
  const [ann, ben] = [await signIn(site, 'ann'), await signIn(site, 'ben')]
  const run = await ann.run(await ann.thread(), LONG)
  const threads = await Promise.all(Array.from({ length: 4 }, () => ann.thread()))
  const ofAnn = await openAll(ann, [
    ...threads.map((thread) => ['POST', `/api/threads/${thread}/runs/stream`, asked(LONG)] as const),
    ...threads.map(() => ['GET', `${run}/stream`] as const),
    ...threads.map(() => ['GET', `${run}/join`] as const),
    ...threads.map((thread) => ['POST', `/api/threads/${thread}/runs/wait`, asked(LONG)] as const),
    ...threads.map(() => ['POST', '/api/runs/stream', asked(LONG)] as const)
  ])
  t.equal(count(ofAnn.statuses, 200), 5, ofAnn.statuses.join())
  t.equal(count(ofAnn.statuses, 429), 15)
  t.equal(site.sizes().places, 5)
  const other = await ben.run(await ben.thread(), LONG)
  const ofBen = await openAll(
    ben,
    Array.from({ length: 6 }, () => ['GET', `${other}/join`] as const)
  )
  t.equal(count(ofBen.statuses, 200), 3, 'the limit of all')
  t.equal(site.sizes().places, 8)
  ofAnn.leave()
  ofBen.leave()
  await until(() => site.sizes().places === 0, 'every place is free again')
})

t.test('a request that is refused gives its place back', async (t) => {
  const site = await openSite(t, { config: LIMITS })
  const ann = await signIn(site)
  const thread = await ann.thread()
  const missing = '00000000-0000-4000-8000-000000000000'
  for (let i = 0; i < 3; i++) {
    const { statuses } = await openAll(ann, [
      ['POST', `/api/threads/${missing}/runs/stream`, asked('words')],
      ['POST', `/api/threads/${missing}/runs/wait`, asked('words')],
      ['GET', `/api/threads/${thread}/runs/${missing}/stream`],
      ['POST', `/api/threads/${thread}/runs/stream`, { ...asked('words'), checkpoint_id: missing }],
      ['GET', `/api/threads/${thread}/runs/${missing}/join`]
    ])
    t.equal(count(statuses, 429), 0)
    t.ok(
      statuses.every((status) => status >= 400 && status < 500),
      statuses.join()
    )
  }
  t.equal(site.sizes().places, 0)
})

t.test('requests in a pipeline hold places as others do, and give them back when their client goes', async (t) => {
  const site = await openSite(t, { config: LIMITS })
  const ann = await signIn(site)
  const run = await ann.run(await ann.thread(), LONG)
  const { hostname, port } = new URL(site.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  const { cookie } = ann.headers()
  const join = `GET ${run}/stream HTTP/1.1\r\nHost: ${hostname}:${port}\r\nCookie: ${cookie}\r\n\r\n`
  socket.write(join.repeat(12))
  await once(socket, 'data')
  await until(() => site.sizes().places === 5, 'as many as may be are held')
  const { statuses } = await openAll(ann, [['GET', `${run}/stream`]])
  t.same(statuses, [429])
  socket.destroy()
  await until(() => site.sizes().places === 0, 'all of them are free again')
})
