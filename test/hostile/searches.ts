// Lists and searches of somebody who has filled his account: what they read and answer is bounded, however long its rows are.
import t from 'tap'
import { asked, at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { besieged, WHOLE, withstands } from '../fixtures/siege.ts'

/** What costs most to read: many short members. */
function manyKeys(bytes: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: Math.floor(bytes / 12) }, (_, at) => [`key${at}`, at % 10]))
}

const SMALL = { thing: manyKeys(15_000) }
const BIG = manyKeys(550_000)
const LIKE_IT = { thing: { key1: 1 } }
const NOTHING_LIKE_IT = { thing: { other: 1 } }

interface Kind {
  /** How many an account may have, or a page; of them `npm test` makes fewer. */
  readonly most: number
  readonly few: number
  /** Path and body of the one that is made. */
  readonly makes: (n: number) => readonly [method: string, path: string, body: object]
  readonly asks: readonly (readonly [method: string, path: string, body?: object])[]
}

function kinds(thread: string): Readonly<Record<string, Kind>> {
  return {
    threads: {
      most: 1_000,
      few: 100,
      makes: () => ['POST', '/api/threads', { metadata: SMALL }],
      asks: [
        ['POST', '/api/threads/search', { limit: 1_000 }],
        ['POST', '/api/threads/search', { limit: 1_000, metadata: LIKE_IT }],
        ['POST', '/api/threads/count', { metadata: NOTHING_LIKE_IT }]
      ]
    },
    assistants: {
      most: 500,
      few: 100,
      makes: () => ['POST', '/api/assistants', { graph_id: 'lead_agent', config: SMALL, metadata: SMALL }],
      asks: [
        ['POST', '/api/assistants/search', { limit: 1_000 }],
        ['POST', '/api/assistants/search', { limit: 1_000, metadata: NOTHING_LIKE_IT }],
        ['POST', '/api/assistants/count', { metadata: LIKE_IT }]
      ]
    },
    crons: {
      most: 100,
      few: 50,
      makes: () => ['POST', '/api/runs/crons', { schedule: '0 0 1 1 *', metadata: SMALL }],
      asks: [
        ['POST', '/api/runs/crons/search', { limit: 1_000 }],
        ['POST', '/api/runs/crons/count', { metadata: NOTHING_LIKE_IT }]
      ]
    },
    'items of the store': {
      most: 100,
      few: 20,
      makes: (n) => ['PUT', '/api/store/items', { namespace: ['a'], key: `key-${n}`, value: BIG }],
      asks: [
        ['POST', '/api/store/items/search', { limit: 1_000 }],
        ['POST', '/api/store/items/search', { limit: 1_000, filter: { other: 1 } }]
      ]
    },
    runs: {
      most: 100,
      few: 20,
      makes: () => ['POST', `/api/threads/${thread}/runs/wait`, asked('/demo deltas=1 rate=0', { config: BIG })],
      asks: [
        ['GET', `/api/threads/${thread}/runs?limit=1000`],
        ['GET', `/api/threads/${thread}/runs?limit=1000&select=run_id`]
      ]
    }
  }
}

t.test(
  '[18.A.3] a search through all that an account can hold leaves the loop to others and memory to the process',
  async (t) => {
    const child = await besieged(t, { log_level: 'silent' })
    const person = await signIn(child)
    for (const [what, { most, few, makes, asks }] of Object.entries(kinds(await person.thread()))) {
      const count = WHOLE ? most : few
      for (let n = 0; n < count; n++) {
        const [method, path, body] = makes(n)
        const { status, text } = await person.ask(method, path, { body })
        if (status >= 300) throw new Error(`${what}: ${status} ${text.slice(0, 200)}`)
      }
      for (const [method, path, body] of asks) {
        await withstands(t, child, `${count} ${what}: ${path} ${JSON.stringify(body ?? {}).slice(0, 60)}`, async () => {
          const { status, text } = await person.ask(method, path, body ? { body } : {})
          if (status !== 200) throw new Error(`${path} answered ${status}: ${text.slice(0, 200)}`)
        })
      }
    }
  }
)

t.test('[18.A.2] what a row may hold is bounded with all that was added to it', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = await person.thread()
  const text = (length: number) => 'x'.repeat(length)
  const statusOf = async (method: string, path: string, body: object) =>
    (await person.ask(method, path, { body })).status
  const idOf = async (path: string, body: object, name: string) => textIn((await person.post(path, body)).body, name)

  t.equal(await statusOf('POST', '/api/threads', { metadata: { a: text(17_000) } }), 422, 'metadata of a thread')
  t.equal(
    await statusOf('POST', `/api/threads/${thread}/runs/wait`, { metadata: { a: text(17_000) } }),
    422,
    'of a run'
  )
  const more = (key: string) => statusOf('PATCH', `/api/threads/${thread}`, { metadata: { [key]: text(7_000) } })
  t.strictSame([await more('a'), await more('b'), await more('c'), await more('a')], [200, 200, 422, 200])

  const assistant = await idOf('/api/assistants', { graph_id: 'lead_agent' }, 'assistant_id')
  const parts = [{ config: { a: text(20_000) } }, { context: { a: text(10_000) } }, { config: { a: text(5_000) } }]
  for (const part of parts)
    t.equal(await statusOf('PATCH', `/api/assistants/${assistant}`, part), 200, Object.keys(part).join())
  const tooMuch = { context: { a: text(30_000) } }
  t.equal(await statusOf('PATCH', `/api/assistants/${assistant}`, tooMuch), 422, 'an assistant in all')

  const cron = await idOf('/api/runs/crons', { schedule: '0 0 1 1 *', config: { a: text(9_000) } }, 'cron_id')
  t.equal(await statusOf('PATCH', `/api/runs/crons/${cron}`, { context: { a: text(9_000) } }), 422, 'a cron in all')

  const filter = { a: { $in: Array.from({ length: 5_000 }, () => 1) } }
  t.equal(await statusOf('POST', '/api/store/items/search', { filter }), 422, 'a filter of items')
})

t.test('of a list of runs the newest show what they were given, up to a length, and all are listed', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = await person.thread()
  const long = asked('/demo deltas=1 rate=0', { config: { a: 'x'.repeat(1_250_000) } })
  for (let n = 0; n < 4; n++) await person.post(`/api/threads/${thread}/runs/wait`, long)
  const { body } = await person.get(`/api/threads/${thread}/runs`)
  const isShown = listIn(body).map((run) => at(run, 'kwargs', 'input') !== null)
  t.strictSame(isShown, [true, true, false, false])
  const last = textIn(body, 3, 'run_id')
  const { body: one } = await person.get(`/api/threads/${thread}/runs/${last}`)
  t.ok(at(one, 'kwargs', 'input'), 'each is shown by itself')
})
