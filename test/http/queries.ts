// How many queries a request that reads costs: whatever it shows, it asks for it in a few, and not once for each thing on the page.
import t from 'tap'
import { EXPECTED } from '../fixtures/expected.ts'
import { asked, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { ask, furnished, type Place, statusOf } from '../fixtures/place.ts'
import { watchQueries } from '../fixtures/queries.ts'

/** Besides the credential's look-up, which every request has: one of them says whose the thread is. */
const QUERIES_MAX = 3
/**
 * Where origins and feedback of messages are read as well, or a page of messages in two steps, because rows may be large; and when a
 * thread is removed, because one that was made for a run is not shown.
 */
const MORE: Readonly<Record<string, number>> = {
  'GET /api/threads/{thread_id}': 4,
  'GET /api/threads/{thread_id}/history': 4,
  'POST /api/threads/{thread_id}/history': 4,
  'GET /api/threads/{thread_id}/messages': 4,
  // Beside these: the runs that replays have replaced.
  'GET /api/threads/{thread_id}/messages/page': 5,
  // And the state with its last run: how full the conversation is.
  'GET /api/threads/{thread_id}/token-usage': 4
}

/** Routes that change nothing although they take a body. */
const READING_POSTS = [
  'POST /api/threads/search',
  'POST /api/threads/{thread_id}/history',
  'POST /api/threads/{thread_id}/state/checkpoint',
  'POST /api/threads/{thread_id}/suggestions'
]

/** The log of a run, slab by slab as its reader takes it, and all that is kept of somebody: as many queries as it is long. */
const LOGS = [
  'GET /api/v1/auth/export',
  'GET /api/threads/{thread_id}/runs/{run_id}/stream',
  'GET /api/runs/{run_id}/stream',
  'GET /api/threads/{thread_id}/stream',
  'GET /api/stream',
  'GET /api/agui/threads/{thread_id}/runs/{run_id}',
  'GET /v1/responses/{response_id}',
  'GET /api/threads/{thread_id}/runs/{run_id}/frames',
  'GET /api/threads/{thread_id}/runs/{run_id}/frames/{n}'
]

const GETS = Object.keys(EXPECTED).filter((name) => name.startsWith('GET ') && !LOGS.includes(name))
const READS = [...GETS, ...READING_POSTS]

const isCredential = (sql: string) => sql.includes('denied_sessions')

/** Queries of a request that reads, without its credential's: jobs and the index of words ask now and then as well, and not every time. */
async function queriesOf(queries: string[], most: number, read: () => Promise<void>): Promise<readonly string[]> {
  let found: readonly string[] = []
  for (let n = 0; n < 3 && (n === 0 || found.length > most); n++) {
    queries.length = 0
    await read()
    found = queries.filter((sql) => !isCredential(sql))
  }
  return found
}

/** A place with several of everything that a page could ask for one by one: threads, runs, checkpoints, channels, feedback. */
async function crowded(person: Person): Promise<Place> {
  const place = await furnished(person, 'sqlite')
  const path = `/api/threads/${place.thread_id}`
  for (let n = 0; n < 5; n++) {
    await person.thread()
    await person.post(`${path}/runs/wait`, asked(`word ${n} /demo deltas=1 rate=0`))
    const run = textIn(listIn((await person.get(`${path}/runs`)).body)[0], 'run_id')
    await person.ask('PUT', `${path}/runs/${run}/feedback`, { body: { rating: 1 } })
    // Messages after a channel: their numbers are several ranges.
    await person.post(`${path}/state`, { values: { title: `title ${n}`, thread_data: { n }, [`channel-${n}`]: n } })
  }
  return place
}

t.test(`a request that reads costs at most ${QUERIES_MAX} queries and its credential's look-up`, async (t) => {
  const site = await openSite(t, { config: { database: { backend: 'sqlite' } } })
  const person = await signIn(site)
  const place = await crowded(person)
  const queries = watchQueries(t)
  for (const name of READS) {
    const expected = EXPECTED[name]!
    const owed = expected.reach === 'admin' ? 403 : statusOf(expected, 'sqlite')
    const most = MORE[name] ?? QUERIES_MAX
    const found = await queriesOf(queries, most, async () => {
      const { status, text } = await ask(person, name, place)
      t.equal(status, owed, `${name}: ${text.slice(0, 200)}`)
    })
    if (expected.reach !== 'public') t.ok(queries.some(isCredential), `${name}: a credential is looked up`)
    t.ok(found.length <= most, `${name}: ${found.length} queries`, { found })
  }
})

t.test(
  'a history of certain metadata costs as many queries as one of all, however many states are meant',
  async (t) => {
    const site = await openSite(t, { config: { database: { backend: 'sqlite' } } })
    const person = await signIn(site)
    const path = `/api/threads/${(await crowded(person)).thread_id}`
    const run_id = textIn(listIn((await person.get(`${path}/runs`)).body)[0], 'run_id')
    const queries = watchQueries(t)
    // Beside those of a page: its heads.
    const most = MORE['POST /api/threads/{thread_id}/history']! + 1
    const found = await queriesOf(queries, most, async () => {
      const { body } = await person.post(`${path}/history`, { limit: 100, metadata: { run_id } })
      t.ok(listIn(body).length > 1)
    })
    t.ok(found.length <= most, `${found.length} queries`, { found })
  }
)
