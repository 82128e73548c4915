// Whose is it: threads and runs of somebody else are not there, on every route of the real table, and a stream is its session's.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type Answer, asked, at, openSite, Person, PASSWORD, signIn, textIn } from '../fixtures/gateway.ts'

const THREAD = '/api/threads/T'
const RUN = `${THREAD}/runs/R`

/** Routes that change something need the thread's record, the others pass a thread without one [Auth 6]. */
const CHANGING: readonly (readonly [string, string, object?])[] = [
  ['PATCH', THREAD, { metadata: { touched: 1 } }],
  ['POST', `${THREAD}/state`, { values: { title: 'x' } }],
  ['POST', `${THREAD}/runs`, asked('x')],
  ['POST', `${THREAD}/runs/stream`, asked('x')],
  ['POST', `${THREAD}/runs/wait`, asked('x')],
  ['POST', `${RUN}/cancel`],
  ['POST', `${RUN}/stream?action=interrupt`],
  ['PUT', `${RUN}/feedback`, { rating: 1 }],
  ['POST', `${RUN}/feedback`, { rating: 1 }],
  ['DELETE', `${RUN}/feedback`],
  ['DELETE', THREAD]
]
const READING: readonly (readonly [string, string, object?])[] = [
  ['GET', THREAD],
  ['GET', `${THREAD}/state`],
  ['POST', `${THREAD}/history`, {}],
  ['GET', `${THREAD}/runs`],
  ['GET', RUN],
  ['GET', `${RUN}/join`],
  ['GET', `${RUN}/stream`],
  ['GET', `${THREAD}/messages`],
  ['GET', `${THREAD}/messages/page`],
  ['GET', `${RUN}/messages`],
  ['GET', `${RUN}/events`],
  ['GET', `${THREAD}/token-usage`],
  ['GET', `${RUN}/feedback`],
  ['GET', `${RUN}/feedback/stats`]
]

async function ask(person: Person, route: (typeof CHANGING)[number], thread: string, run: string): Promise<Answer> {
  const [method, path, body] = route
  return person.ask(method, path.replace('/T', `/${thread}`).replace('/R', `/${run}`), body ? { body } : {})
}

/** An answer without the ids that were asked for, so that two can be compared. */
function bare({ status, headers, text }: Answer, thread: string, run: string): unknown[] {
  return [status, headers.get('content-type'), text.replaceAll(thread, 'T').replaceAll(run, 'R')]
}

t.test(
  '[Auth 6] a thread of somebody else is 404, where it matters to the letter as one that does not exist',
  async (t) => {
    const site = await openSite(t)
    const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
    const thread = await ada.thread()
    const path = await ada.run(thread, 'a secret /demo deltas=3 rate=0')
    await (await ada.join(path)).whole()
    const run = path.split('/').at(-1)!
    const before = (await ada.get(`/api/threads/${thread}/state`)).text
    const none = [randomUUID(), randomUUID()] as const
    for (const route of CHANGING) {
      const foreign = await ask(bob, route, thread, run)
      t.equal(foreign.status, 404, `${route[0]} ${route[1]}`)
      t.same(bare(foreign, thread, run), bare(await ask(bob, route, ...none), ...none))
    }
    for (const route of READING) {
      const foreign = await ask(bob, route, thread, run)
      t.equal(foreign.status, 404, `${route[0]} ${route[1]}`)
      t.notMatch(foreign.text, 'secret')
      t.ok((await ask(bob, route, ...none)).status < 500, 'a thread without a record is no failure')
    }
    t.equal((await ada.get(`/api/threads/${thread}/state`)).text, before, 'nothing has changed')
  }
)

t.test('a run is not found below another thread, a foreign one no more than one that does not exist', async (t) => {
  const site = await openSite(t)
  const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
  const path = await ada.run(await ada.thread(), '/demo deltas=1 rate=0')
  const [own, foreign, none] = [await bob.thread(), path.split('/').at(-1)!, randomUUID()]
  const routes = [
    ['GET', RUN],
    ['GET', `${RUN}/stream`],
    ['POST', `${RUN}/cancel`],
    ['PUT', `${RUN}/feedback`, { rating: 1 }]
  ] as const
  for (const route of routes) {
    const answer = await ask(bob, route, own, foreign)
    t.equal(answer.status, 404, `${route[0]} ${route[1]}`)
    t.same(bare(answer, own, foreign), bare(await ask(bob, route, own, none), own, none))
  }
})

t.test('creating a thread with the id of somebody else neither takes it nor tells about it', async (t) => {
  const site = await openSite(t)
  const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
  const thread_id = await ada.thread()
  const taken = await bob.post('/api/threads', { thread_id })
  t.equal(taken.status, 404)
  t.equal(taken.text.includes('owner'), false)
  t.match((await bob.post('/api/threads/search')).body, [])
  t.equal((await ada.get(`/api/threads/${thread_id}`)).status, 200)
  const again = await ada.post('/api/threads', { thread_id })
  t.equal(textIn(again.body, 'thread_id'), thread_id, "creating one's own again is harmless")
  const stateless = { ...asked('x'), config: { configurable: { thread_id } } }
  t.equal((await bob.post('/api/runs', stateless)).status, 404)
})

t.test('a stream is broken off when its session is signed out or revoked, and no other one', async (t) => {
  const site = await openSite(t)
  const ada = await signIn(site, 'ada')
  const email = textIn((await ada.get('/api/v1/auth/me')).body, 'email')
  const login = async () => {
    const other = new Person(site.url)
    t.equal((await other.post('/api/v1/auth/login/local', { email, password: PASSWORD })).status, 200)
    return other
  }
  const [phone, laptop, bob] = [await login(), await login(), await signIn(site, 'bob')]
  const LONG = '/demo deltas=9999 rate=30'
  const watched = await ada.stream(await ada.thread(), LONG)
  const mine = await phone.join(watched.runPath)
  const other = await laptop.join(watched.runPath)
  const foreign = await bob.stream(await bob.thread(), LONG)
  t.equal((await phone.post('/api/v1/auth/logout')).status, 200)
  t.match(await mine.ended, /reset|cut/)
  t.notOk(watched.isOver || other.isOver || foreign.isOver)
  const change = { current_password: PASSWORD, new_password: 'another-horse-43' }
  t.equal((await laptop.post('/api/v1/auth/change-password', change)).status, 200)
  t.same(await Promise.all([watched.ended, other.ended]), ['reset', 'reset'])
  t.notOk(foreign.isOver)
  t.match((await ada.get('/api/v1/auth/me')).body, { detail: { code: 'token_invalid' } })
  const run = await laptop.get(watched.runPath)
  t.equal(at(run.body, 'status'), 'running', 'the run goes on without its readers')
  foreign.leave()
})
