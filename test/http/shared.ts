// Shared threads: a record without an owner is everybody's, on every route alike; what people do in it stays their own.
import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { aUser, addThread, write } from '../contract/harness.ts'
import { databaseSection, onEachBackend, openBackend, sectionOfGiven } from '../fixtures/backends.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { asked, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { ask, furnished, places, SECRET, statusOf } from '../fixtures/place.ts'
import { until } from '../fixtures/until.ts'

const BELOW = Object.entries(EXPECTED).filter(([, { reach }]) => reach === 'thread' || reach === 'record')
const T = '/api/threads/{thread_id}'
const R = `${T}/runs/{run_id}`
/** Lists of what people have made in a thread. */
const MADE = [
  `GET ${T}/runs`,
  `GET ${T}/messages`,
  `GET ${T}/messages/page`,
  `GET ${R}/messages`,
  `GET ${R}/events`,
  `GET ${R}/feedback`,
  `GET ${T}/uploads/list`
]
/** What one of them has made, by its name. */
const NAMED = [
  `GET ${R}`,
  `GET ${R}/join`,
  `GET ${R}/stream`,
  `POST ${R}/stream`,
  `POST ${R}/cancel`,
  'GET /api/runs/{run_id}/messages',
  `GET ${T}/artifacts/{path}`,
  `DELETE ${T}/uploads/{filename}`
]

onEachBackend(
  t,
  '[Auth 6] a thread without an owner is as accessible to everybody as to an owner, on every route of the table',
  async (t, backend) => {
    const store = await openBackend(t, backend)
    const site = await openSite(t, { store, config: { database: sectionOfGiven(backend), sharing: 'public' } })
    for (const name of ['ada', 'bob']) {
      const person = await signIn(site, name)
      const newThread = () => addThread(store, { thread_id: randomUUID(), user_id: null })
      const placeOf = places(person, backend, async () => (await newThread()).thread_id)
      for (const [route, expected] of BELOW) {
        const answer = await ask(person, route, await placeOf(route))
        t.equal(answer.status, statusOf(expected, backend), `${name}: ${route}: ${answer.text.slice(0, 200)}`)
      }
    }
  }
)

onEachBackend(
  t,
  '[Auth 6] a shared thread is in the list of everybody, and shows everybody the same record, state and history',
  async (t, backend) => {
    const store = await openBackend(t, backend)
    const site = await openSite(t, { store, config: { database: sectionOfGiven(backend), sharing: 'public' } })
    const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
    const { thread_id } = await addThread(store, { user_id: null })
    await furnished(ada, backend, thread_id)
    const path = `/api/threads/${thread_id}`
    const seen = async (person: Person) => [
      (await person.get(path)).text,
      (await person.get(`${path}/state`)).text,
      listIn((await person.post('/api/threads/search')).body).map((thread) => textIn(thread, 'thread_id')),
      listIn((await person.post(`${path}/history`)).body).length
    ]
    t.strictSame(await seen(bob), await seen(ada))
    t.equal((await bob.ask('PATCH', path, { body: { metadata: { by: 'bob' } } })).status, 200)
    t.match((await ada.get(path)).body, { metadata: { by: 'bob' } })
  }
)

onEachBackend(
  t,
  '[Isolation] in a shared thread runs, events, feedback and files are those of who made them',
  async (t, backend) => {
    const store = await openBackend(t, backend)
    const site = await openSite(t, { store, config: { database: sectionOfGiven(backend), sharing: 'public' } })
    const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
    const { thread_id } = await addThread(store, { user_id: null })
    const place = await furnished(ada, backend, thread_id)
    for (const route of MADE) {
      const answer = await ask(bob, route, place)
      t.ok(answer.status < 500 || backend === 'memory', `${route}: ${answer.status}`)
      t.notOk(
        [SECRET, place.run_id ?? ''].some((text) => answer.text.includes(text)),
        `${route} shows what another has made`
      )
    }
    for (const route of NAMED) t.match(await ask(bob, route, place), { status: 404 }, route)
    t.match((await bob.get(`/api/threads/${thread_id}/token-usage`)).body, { total_runs: 0 })
  }
)

onEachBackend(
  t,
  '[Auth 6] in a shared thread everybody finds the files that their own runs wrote; its removal takes those of all',
  async (t, backend) => {
    const store = await openBackend(t, backend)
    const site = await openSite(t, { store, config: { database: sectionOfGiven(backend), sharing: 'public' } })
    const people = [await signIn(site, 'ada'), await signIn(site, 'bob')]
    const { thread_id } = await addThread(store, { user_id: null })
    const path = `/api/threads/${thread_id}`
    for (const [n, person] of people.entries()) {
      const args = JSON.stringify({ path: 'a.txt', content: `file of ${n}` })
      await person.post(`${path}/runs/wait`, asked(`/demo rate=0 tool=write_file args=${args}`))
    }
    for (const [n, person] of people.entries())
      t.match(await person.get(`${path}/artifacts/mnt/user-data/outputs/a.txt`), { status: 200, text: `file of ${n}` })
    t.match((await people[0]!.ask('DELETE', path)).body, { message: `Deleted local thread data for ${thread_id}` })
    const left = readdirSync(join(site.home, 'users'), { recursive: true }).filter((name) =>
      String(name).includes('a.txt')
    )
    t.strictSame(left, [])
  }
)

onEachBackend(
  t,
  "[Auth 12] a start stamps no row of our own: with an administrator there too, threads without an owner stay everybody's",
  async (t, backend) => {
    const store = await openBackend(t, backend)
    await write(store, { name: 'user.initialize', user: aUser({ system_role: 'admin' }) })
    const ids: string[] = []
    for (let i = 0; i < 3; i++) ids.push((await addThread(store, { user_id: null })).thread_id)
    for (let start = 0; start < 2; start++) {
      const site = await openSite(t, { store, config: { database: sectionOfGiven(backend), sharing: 'public' } })
      const person = await signIn(site)
      for (const id of ids) {
        t.equal(await store.threads.ownerOf(id), null)
        t.equal((await person.get(`/api/threads/${id}`)).status, 200)
      }
      await site.stop()
    }
  }
)

onEachBackend(
  t,
  'of several prunes of the same threads each passes over what another has taken',
  async (t, backend) => {
    const site = await openSite(t, { config: { database: await databaseSection(t, backend) } })
    const person = await signIn(site)
    const threads = await Promise.all(Array.from({ length: 6 }, () => person.thread()))
    const prune = () => person.post('/api/threads/prune', { thread_ids: threads })
    const answers = await Promise.all([prune(), prune(), prune()])
    t.strictSame(
      answers.map(({ status }) => status),
      [200, 200, 200]
    )
    const counts = answers.map(({ body }) => (body as { pruned_count: number }).pruned_count)
    t.equal(
      counts.reduce((sum, count) => sum + count, 0),
      6,
      'each thread is counted once'
    )
    for (const thread of threads) t.equal((await person.get(`/api/threads/${thread}`)).status, 404)
  }
)

onEachBackend(
  t,
  '[Auth 6] what names many at once follows the rule of one: prune and cancel take what DELETE and cancel of a single one would',
  async (t, backend) => {
    const store = await openBackend(t, backend)
    const site = await openSite(t, { store, config: { database: sectionOfGiven(backend), sharing: 'public' } })
    const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
    const slow = '/demo deltas=1000 rate=20'
    const shared = async () => (await addThread(store, { thread_id: randomUUID(), user_id: null })).thread_id
    const [one, other, foreign] = [await shared(), await shared(), await ada.thread()]

    t.strictSame((await bob.post('/api/threads/prune', { thread_ids: [one, foreign, randomUUID()] })).body, {
      pruned_count: 1
    })
    t.equal((await bob.ask('DELETE', `/api/threads/${other}`)).status, 200, 'as one alone')
    t.equal((await bob.ask('DELETE', `/api/threads/${foreign}`)).status, 404)
    t.strictSame(
      [(await ada.get(`/api/threads/${one}`)).status, (await ada.get(`/api/threads/${foreign}`)).status],
      [404, 200]
    )

    const [here, there] = [await shared(), await shared()]
    const idOf = (path: string) => path.slice(path.lastIndexOf('/') + 1)
    const adas = await ada.run(here, slow)
    const bobs = await bob.run(there, slow)
    const status = async (person: Person, path: string) => textIn((await person.get(path)).body, 'status')
    await until(
      async () => (await status(ada, adas)) === 'running' && (await status(bob, bobs)) === 'running',
      'both run'
    )
    t.equal((await bob.post('/api/runs/cancel', { run_ids: [idOf(adas)] })).status, 404, 'the run of somebody else')
    t.equal((await bob.post('/api/runs/cancel', { thread_id: here, status: 'all' })).status, 204)
    t.equal(await status(ada, adas), 'running', 'nor are all of the thread those of everybody')
    t.equal((await bob.post('/api/runs/cancel', { status: 'all' })).status, 204)
    await until(async () => (await status(bob, bobs)) === 'interrupted', 'his own is ended')
    t.equal(await status(ada, adas), 'running')

    // A run that is one's own, in a thread that has become somebody else's: the thread is not there for him.
    const left = await bob.thread()
    const run = await bob.run(left, slow)
    const threads = { ownerOf: async (id: string) => (id === left ? 'ada' : store.threads.ownerOf(id)) }
    t.teardown(replaced(store.threads, threads))
    t.equal((await bob.post(`${run}/cancel`)).status, 404, 'as one alone')
    t.equal((await bob.post('/api/runs/cancel', { run_ids: [idOf(run)] })).status, 404)
    t.equal((await bob.post('/api/runs/cancel', { status: 'all' })).status, 204)
    t.equal((await store.runs.inFlight(left)).length, 1, 'it runs on')
  }
)

/** Puts other methods in the place of an object's own; gives what puts these back. */
function replaced<T extends object>(object: T, methods: Partial<T>): () => void {
  const before = { ...object }
  Object.assign(object, methods)
  return () => void Object.assign(object, before)
}
