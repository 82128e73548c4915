// Deletion is whole: no row of any table, no file and no line of one names what was deleted. The tables are those that the database has,
// so that one that is made later and forgets nothing is found here.
import { timestamp } from '../../lib/base/types.ts'
import type { Store } from '../../lib/store/store.ts'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { digestOf } from '../../lib/auth/session.ts'
import { loadConfig } from '../../lib/config/config.ts'
import { openStore } from '../../lib/store/open.ts'
import { write } from '../contract/harness.ts'
import { type Backend, BACKENDS, databaseSection, type DatabaseSection } from '../fixtures/backends.ts'
import { command } from '../fixtures/child.ts'
import {
  configFile,
  homeOf,
  listIn,
  openSite,
  type Options,
  type Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { graphLife, personLife, threadLife } from '../fixtures/life.ts'
import { filesWith } from '../fixtures/remains.ts'
import { tablesNaming, tablesOf } from '../fixtures/rows.ts'

/** Tables that a life leaves empty, or that name nobody, and why. */
const NAMELESS: Readonly<Record<string, string>> = {
  migrations: 'steps of the schema',
  sqlite_sequence: 'the greatest numbers of rows',
  writers: 'processes',
  former_writers: 'processes that have lost their lease',
  denied_sessions: 'digests of sessions that were logged out, until they would have ended',
  holds: 'legal holds, under which nothing is deleted',
  search_queue: 'threads whose texts have just changed, until they are indexed',
  removed_threads: 'threads that are too long to be removed at once, until they are gone'
}

/** A receiver of webhooks that takes none until it is told to. */
async function receiver(t: Test) {
  const hook = { isThere: false, url: '', bodies: [] as string[] }
  const server = createServer((req, res) => {
    let body = ''
    req.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    req.on('end', () => {
      if (hook.isThere) hook.bodies.push(body)
      res.writeHead(hook.isThere ? 200 : 500).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  hook.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  return hook
}

interface House {
  readonly home: string
  readonly database: DatabaseSection
  readonly config: Options
}

async function houseOf(t: Test, backend: Backend, events: string): Promise<House> {
  const database = await databaseSection(t, backend)
  const config = {
    database,
    run_events: { backend: events },
    memory: { enabled: true },
    quotas: { runs_per_day: 1000 },
    webhooks: { allowed_networks: ['127.0.0.0/8'], retry_ms: 3_600_000 }
  }
  return { home: homeOf(t), database, config }
}

/** Lives of these people: with the built-in agent, and then, in a process with the same rows and files, with graphs. */
async function lives(t: Test, { home, database, config }: House, names: readonly string[], webhook: string) {
  const site = await openSite(t, { home, config })
  const people = []
  for (const name of names) {
    const person = await signIn(site, name)
    const { id, email } = (await person.get('/api/v1/auth/me')).body as { id: string; email: string }
    const thread = await threadLife(person, { webhook })
    const threads = [thread, await personLife(person, thread)]
    people.push({ person, id, email, threads })
  }
  await until(() => site.sizes().uncompacted === 0, 'frames are compacted')
  await site.stop()
  await signedInElsewhere(home, config, people)
  const graphs = { runtime: 'graphs', config: graphsFolder(t, 'newest', { nested: 'nested' }) }
  let store: Store | null = null
  const behind = (one: Store) => {
    store = one
    return one
  }
  const second = await openSite(t, { home, config: { ...config, agent: graphs }, behind })
  for (const { person, threads } of people) {
    person.url = second.url
    threads.push(await graphLife(person))
    const { id } = (await person.get('/api/v1/auth/me')).body as { id: string }
    const alias = { user_id: id, protocol: 'test', text: threads[0]!, thread_id: threads[0]!, run_id: null }
    await store!.apply([{ ops: [{ name: 'alias.put', alias, now: timestamp() }] }])
  }
  await until(async () => (await tablesOf(home, database)).get('search_queue')?.length === 0, 'texts are indexed')
  return { site: second, people }
}

/** Sessions of theirs that a provider has opened: without one nobody is asked about them. */
async function signedInElsewhere(home: string, config: Options, people: readonly { readonly id: string }[]) {
  const store = await openStore(loadConfig({ file: configFile(home, config), home, env: {}, cwd: home }), () => {})
  const now = Math.floor(Date.now() / 1000)
  for (const { id } of people) {
    const of = { digest: digestOf(id), user_id: id, provider: 'company', subject: id, sid: null, tokens: 'sealed' }
    await write(store, { name: 'session.attach', session: { ...of, checked: null, expires: now + 3600 }, now })
  }
  await store.close()
}

/** But for the database, whose rows are looked at. */
function filesNaming(home: string, wanted: readonly string[]): string[] {
  return filesWith(home, wanted).filter((name) => !name.startsWith('data/'))
}

/** Also what somebody is told of it by: ids of their threads and runs. */
async function namesOf({ person, threads }: { readonly person: Person; readonly threads: readonly string[] }) {
  const lists = await Promise.all(threads.map((thread) => person.get(`/api/threads/${thread}/runs?limit=100`)))
  return [...threads, ...lists.flatMap(({ body }) => listIn(body).map((run) => textIn(run, 'run_id')))]
}

/** Jobs of a kind are due now. */
async function retry(home: string, kind: string): Promise<void> {
  const { out } = await command(home, 'jobs', 'list')
  for (const line of out.split('\n').filter((one) => one.startsWith(`${kind}\t`)))
    await command(home, 'jobs', 'retry', ...line.split('\t').slice(0, 2))
}

for (const backend of BACKENDS.filter((one) => one !== 'memory'))
  for (const events of backend === 'sqlite' ? ['db', 'jsonl'] : ['db']) {
    t.test(`no row and no file names threads that were deleted (${backend}, events in ${events})`, async (t) => {
      const house = await houseOf(t, backend, events)
      const { home, database } = house
      const hook = await receiver(t)
      const { site, people } = await lives(t, house, ['ann'], hook.url)
      const { person, threads } = people[0]!
      const wanted = await namesOf(people[0]!)
      const before = await tablesOf(home, database)
      t.strictSame(
        [...before].filter(([table, rows]) => rows.length === 0 && !(table in NAMELESS)).map(([table]) => table),
        events === 'jsonl' ? ['run_events'] : [],
        'they had filled every table'
      )
      const files = filesNaming(home, wanted)
      for (const kind of [/memory\.json$/, /uploads/, /outputs/, ...(events === 'jsonl' ? [/\.jsonl$/] : [])])
        t.ok(
          files.some((name) => kind.test(name)),
          `and were in files: ${kind}`
        )

      for (const thread of threads) t.equal((await person.ask('DELETE', `/api/threads/${thread}`)).status, 200)
      const left = async () => tablesNaming(await tablesOf(home, database), wanted)
      t.strictSame(await left(), ['jobs'], 'but for ends of runs that are yet to be sent')
      hook.isThere = true
      await retry(home, 'webhook')
      await until(async () => (await left()).length === 0, 'they are sent')
      t.match(JSON.parse(hook.bodies[0]!), { thread_id: threads[0], status: 'success' })
      t.equal((await tablesOf(home, database)).get('frames')?.length, 0, 'no frame is left, which has no names')
      t.strictSame(filesNaming(home, wanted), [])
      await site.stop()
      t.strictSame([await left(), filesNaming(home, wanted)], [[], []], 'nor does the stop write any')
    })

    t.test(`no row and no file names a user who was removed (${backend}, events in ${events})`, async (t) => {
      const house = await houseOf(t, backend, events)
      const { home, database } = house
      const hook = await receiver(t)
      const { site, people } = await lives(t, house, ['ann', 'bob'], hook.url)
      const [ann, bob] = [people[0]!, people[1]!]
      const running = await ann.person.run(await ann.person.thread(), 'how is it?', {
        assistant_id: 'nested',
        after_seconds: 3600
      })
      const wanted = [ann.id, ann.email, ...(await namesOf(ann)), running.split('/')[3]!, running.split('/').at(-1)!]
      const his = [bob.id, bob.email, ...(await namesOf(bob))]
      const before = await tablesOf(home, database)
      const hisTables = tablesNaming(before, his)
      t.ok(hisTables.length > 10)
      const hisFiles = filesNaming(home, his)

      t.match(await command(home, 'user', 'delete', ann.email), { code: 0, out: /is gone/ })
      t.equal((await ann.person.get('/api/v1/auth/me')).status, 401)
      const left = async () => {
        const tables = new Map(await tablesOf(home, database))
        // The audit keeps who it was by the id, and nothing else.
        tables.set(
          'audit',
          (tables.get('audit') ?? []).map((row) => row.replaceAll(`user:${ann.id}`, ''))
        )
        return tablesNaming(tables, wanted)
      }
      await until(async () => (await left()).join() === 'jobs', 'there is nothing but the job that looks again')
      await retry(home, 'departure')
      await until(async () => (await left()).length === 0, 'it has found nothing')
      t.strictSame(filesNaming(home, wanted), [])
      t.strictSame(tablesNaming(await tablesOf(home, database), his), hisTables, 'others keep what they have')
      t.strictSame(filesNaming(home, his), hisFiles)
      t.strictSame((await namesOf(bob)).length, his.length - 2)
      await site.stop()
      t.strictSame([await left(), filesNaming(home, wanted)], [[], []])
    })
  }
