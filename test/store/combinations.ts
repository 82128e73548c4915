// Three databases and three places for events: each pair works the same [contract 4.7].
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { databaseSection } from '../fixtures/backends.ts'
import { asked, at, listIn, openSite, type Person, type Site, signIn } from '../fixtures/gateway.ts'

const SQL = { feedback: true, warns: [] as readonly RegExp[] }
const NOT_KEPT = /database\.backend is memory: nothing is kept over a restart/
const EVENTS_NOT_KEPT = /run_events\.backend is memory: events are not kept over a restart/
const module = (file: string) => ({ module: fileURLToPath(new URL(`../fixtures/${file}`, import.meta.url)) })

const WORDS = '/demo deltas=5 rate=1000'

interface Backends {
  readonly database: unknown
  readonly events: unknown
}
interface Pair extends Backends {
  readonly works: { readonly feedback: boolean; readonly warns: readonly RegExp[] }
}

const PAIRS: readonly Pair[] = [
  { database: 'memory', events: 'memory', works: { feedback: false, warns: [NOT_KEPT] } },
  {
    database: 'memory',
    events: 'db',
    works: { feedback: false, warns: [NOT_KEPT, /run_events\.backend is db and database\.backend is memory: events/] }
  },
  {
    database: 'memory',
    events: 'jsonl',
    works: { feedback: false, warns: [NOT_KEPT, /run events in files belong to no thread/] }
  },
  { database: 'sqlite', events: 'memory', works: { ...SQL, warns: [EVENTS_NOT_KEPT] } },
  { database: 'sqlite', events: 'db', works: SQL },
  { database: 'sqlite', events: 'jsonl', works: SQL },
  { database: 'sqlite', events: module('../examples/file-store.js'), works: SQL },
  { database: module('database-module.js'), events: 'jsonl', works: SQL },
  { database: 'memory', events: module('../examples/file-store.js'), works: { feedback: false, warns: [NOT_KEPT] } },
  { database: 'postgres', events: 'memory', works: { ...SQL, warns: [EVENTS_NOT_KEPT] } },
  { database: 'postgres', events: 'db', works: SQL },
  { database: 'postgres', events: 'jsonl', works: SQL },
  { database: 'postgres', events: module('../examples/file-store.js'), works: SQL }
]

/** Runs of a person on one thread, as the API tells them, without what differs from one time to the next. */
async function journey(site: Site): Promise<unknown> {
  const person = await signIn(site)
  const other = await signIn(site)
  const thread = await person.thread()
  const path = `/api/threads/${thread}`
  for (const words of [WORDS, `${WORDS} tool=current_time`, `${WORDS} error`])
    await person.post(`${path}/runs/wait`, asked(words))
  const seen = await lookAt(person, path)
  const others = (await other.get(`${path}/messages`)).status
  const removed = (await person.ask('DELETE', path)).status
  await person.post('/api/threads', { thread_id: thread })
  const anew = listIn((await person.get(`${path}/messages`)).body).length
  await person.post(`${path}/runs/wait`, asked(WORDS))
  const first = at(listIn((await person.get(`${path}/messages`)).body)[0], 'seq')
  return { seen, others, removed, anew, first }
}

async function lookAt(person: Person, path: string): Promise<unknown> {
  const runs = listIn((await person.get(`${path}/runs`)).body).map((run) => String(at(run, 'run_id')))
  const messages = listIn((await person.get(`${path}/messages`)).body)
  const last = listIn((await person.get(`${path}/messages?limit=2&before_seq=${at(messages[2], 'seq')}`)).body)
  const events = await Promise.all(
    runs.map(async (run) => listIn((await person.get(`${path}/runs/${run}/events`)).body))
  )
  const page = (await person.get(`${path}/messages/page?limit=3`)).body
  const facts = (event: unknown) => [
    at(event, 'seq'),
    at(event, 'event_type'),
    at(event, 'category'),
    Object.keys(Object(at(event, 'metadata'))).sort(),
    typeof at(event, 'content')
  ]
  return {
    events: events.map((list) => list.map(facts)),
    messages: messages.map(facts),
    before: last.map(facts),
    page: [listIn(page, 'data').map(facts), at(page, 'has_more'), at(page, 'next_before_seq')],
    users: new Set(events.flat().map((event) => at(event, 'user_id'))).size
  }
}

async function givesFeedback(site: Site): Promise<number> {
  const person = await signIn(site)
  const thread = await person.thread()
  const run = await person.run(thread, WORDS)
  return (await person.ask('PUT', `${run}/feedback`, { body: { rating: 1 } })).status
}

function nameOf(backend: unknown): string {
  return typeof backend === 'string' ? backend : 'a module'
}

const journeys: unknown[] = []

async function works(t: Test, { database, events, works }: Pair): Promise<void> {
  const section = database === 'postgres' ? await databaseSection(t, database) : { backend: database }
  const site = await openSite(t, { config: { database: section, run_events: { backend: events } } })
  const warned = site.logged.filter(([level]) => level === 'warn').map(([, , text]) => text)
  t.equal(warned.length, works.warns.length, `warns: ${warned}`)
  for (const [index, pattern] of works.warns.entries()) t.match(warned[index], pattern)
  journeys.push(await journey(site))
  t.strictSame(journeys.at(-1), journeys[0], 'the same as the first one')
  t.equal(await givesFeedback(site), works.feedback ? 200 : 503, 'feedback')
}

for (const pair of PAIRS) {
  const name = `${nameOf(pair.database)} with events in ${nameOf(pair.events)}`
  t.test(`${name} works`, (t) => works(t, pair))
}

t.test('a journey sees what it should, so that all of them being equal says something', async (t) => {
  t.match(journeys[0], { others: 404, removed: 200, anew: 0, first: 1, seen: { users: 1, events: { length: 3 } } })
  const types = JSON.stringify(journeys[0])
  for (const type of ['human_message', 'ai_tool_call', 'tool_result', 'ai_message', 'run_error']) t.match(types, type)
  t.ok(journeys.length >= 13)
})
