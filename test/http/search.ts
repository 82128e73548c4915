// Search in what threads show, over HTTP: found soon after the end, by nobody else, not after a deletion, and also what is older than
// the index.
import t from 'tap'
import type { Store } from '../../lib/store/store.ts'
import { BACKENDS, databaseSection } from '../fixtures/backends.ts'
import { homeOf, openSite, type Person, signIn, until } from '../fixtures/gateway.ts'
import { problemsOf, schemaOf } from '../fixtures/openapi.ts'

interface Found {
  readonly hits: readonly {
    readonly thread_id: string
    readonly type: string
    readonly message_id: string | null
    readonly snippet: readonly { readonly text: string; readonly hit: boolean }[]
  }[]
  readonly total: number
  readonly more: boolean
  readonly waiting: number
}

const find = async (person: Person, q: string) =>
  (await person.get(`/api/v1/search?q=${encodeURIComponent(q)}`)).body as Found

for (const backend of BACKENDS)
  t.test(`what a thread shows is found by its words (${backend})`, async (t) => {
    const config = { database: await databaseSection(t, backend) }
    const site = await openSite(t, { home: homeOf(t), config })
    const ann = await signIn(site, 'ann')
    const bob = await signIn(site, 'bob')
    const threadId = await ann.thread()
    await ann.run(threadId, 'Wie ist das Wetter in Zürich? 今天天气很好 /demo deltas=5 rate=0')
    const began = Date.now()
    await until(async () => (await find(ann, 'zurich')).hits.length > 0, 'it is found')
    t.ok(Date.now() - began < 20_000, 'soon after the end')
    const { hits, waiting } = await find(ann, '天气')
    const [asked] = hits.filter(({ type }) => type === 'human')
    t.match(asked, { thread_id: threadId, type: 'human', message_id: String })
    t.ok(asked!.snippet.some(({ text, hit }) => hit && text === '天气'))
    t.equal(waiting, 0)
    t.strictSame((await find(bob, 'zurich')).hits, [], 'nobody else finds it')
    t.strictSame(await find(ann, '?!'), { hits: [], total: 0, more: false, waiting: 0 }, 'no word, no hit')

    await ann.post(`/api/threads/${threadId}/state`, { values: { title: 'Alpenglühen' } })
    await until(async () => (await find(ann, 'alpengl')).hits.length > 0, 'a new title is found')
    t.match((await find(ann, 'alpengl')).hits, [{ type: 'title', message_id: null }])
    t.equal((await ann.ask('DELETE', `/api/threads/${threadId}`)).status, 200)
    t.strictSame(await find(ann, 'zurich'), { hits: [], total: 0, more: false, waiting: 0 }, 'not after its deletion')
  })

t.test('a search that has not counted all says so, in the form that the reference describes', async (t) => {
  const find = async () => ({ places: [], total: 200, more: true })
  const behind = (store: Store): Store => ({ ...store, search: { ...store.search!, find } })
  const site = await openSite(t, { config: { database: { backend: 'memory' } }, behind })
  const answer = await (await signIn(site)).get('/api/v1/search?q=often')
  t.strictSame(answer.body, { hits: [], total: 200, more: true, waiting: 0 })
  const schema = schemaOf('GET /api/v1/search', 200, 'application/json')
  t.strictSame(problemsOf(schema, answer.body), [])
  t.match(schema, { properties: { total: { description: /at least/ }, more: { description: /more than/ } } })
  t.match(schema, { required: ['hits', 'total', 'more', 'waiting'] })
})
