// Expiry: threads whose time to live is over go, all of them, and none whose time was extended meanwhile.
import t, { type Test } from 'tap'
import type { Group, Store } from '../../lib/store/store.ts'
import { type Backend, databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'

t.jobs = 3

/** In minutes: over at once. */
const SHORT = 0.000_01

async function siteOf(t: Test, backend: Backend, behind: (store: Store) => Store = (store) => store) {
  const database = await databaseSection(t, backend)
  const runs = { active_per_user: 0 }
  return openSite(t, { config: { database, runs }, behind })
}

const statusOf = async (person: Person, threadId: string) => (await person.get(`/api/threads/${threadId}`)).status
const expire = (person: Person, threadId: string, ttl = SHORT) =>
  person.ask('PATCH', `/api/threads/${threadId}`, { body: { ttl } })
const removes = (threadId: string) => (group: Group) =>
  group.ops.some((op) => op.name === 'thread.remove' && op.thread_id === threadId)

onEachBackend(t, 'a time to live that is extended while its thread is being removed keeps it', async (t, backend) => {
  let held = ''
  let isHeld = false
  let release = () => {}
  const tried: string[] = []
  const site = await siteOf(t, backend, (store) => ({
    ...store,
    apply: (groups) => {
      for (const group of groups) if (removes(held)(group)) tried.push(held)
      return store.apply(groups)
    },
    runs: {
      ...store.runs,
      // The first that a removal reads.
      async inFlight(threadId) {
        if (threadId === held && !isHeld) {
          isHeld = true
          await new Promise<void>((resolve) => {
            release = resolve
          })
        }
        return store.runs.inFlight(threadId)
      }
    }
  }))
  const person = await signIn(site)
  held = await person.thread()
  t.equal((await expire(person, held)).status, 200)
  await until(() => isHeld, 'it is being removed')
  const extended = await expire(person, held, 60)
  t.equal(extended.status, 200)
  release()
  await until(() => tried.length > 0, 'the removal is written')
  const other = await person.thread()
  await expire(person, other)
  await until(async () => (await statusOf(person, other)) === 404, 'another one goes')
  t.match((await person.get(`/api/threads/${held}?include=ttl`)).body, { ttl: { ttl_minutes: 60 } })
})

onEachBackend(t, 'a thread that cannot be removed holds up no other, and goes when it can be', async (t, backend) => {
  let stuck: string | null = null
  let failures = 0
  const site = await siteOf(t, backend, (store) => ({
    ...store,
    runs: {
      ...store.runs,
      async inFlight(threadId) {
        if (threadId === stuck && ++failures < 2) throw new Error('the disk has a hole')
        return store.runs.inFlight(threadId)
      }
    }
  }))
  const person = await signIn(site)
  const all = await Promise.all([person.thread(), person.thread(), person.thread()])
  stuck = all[0]!
  for (const threadId of all) t.equal((await expire(person, threadId)).status, 200)
  await until(() => failures > 0, 'its removal has failed')
  for (const threadId of all) await until(async () => (await statusOf(person, threadId)) === 404, 'it goes')
  const said = site.logged.find(([, , text]) => text === 'a job has failed: it will be tried again')
  t.match(said?.[1], { kind: 'removal', key: stuck, attempts: 1, reason: 'the disk has a hole' })
})

onEachBackend(t, 'a hundred threads with runs to come hold up nobody, and none of many waits', async (t, backend) => {
  const person = await signIn(await siteOf(t, backend))
  const make = async (n: number) => {
    const { body } = await person.post('/api/threads', { metadata: { n } })
    return textIn(body, 'thread_id')
  }
  const later = asked('/demo deltas=1 rate=0', { after_seconds: 3600 })
  const waiting: string[] = []
  for (let n = 0; n < 100; n++) {
    const threadId = await make(n)
    await person.post(`/api/threads/${threadId}/runs`, later)
    await expire(person, threadId)
    waiting.push(threadId)
  }
  const many = await Promise.all(Array.from({ length: 250 }, (_, n) => make(n)))
  await Promise.all(many.map((threadId) => expire(person, threadId)))
  const left = async () => (await person.post('/api/threads/count')).body
  await until(async () => (await left()) === waiting.length, 'all that nothing is to come in are gone')
  t.equal(await statusOf(person, waiting[0]!), 200)
})
