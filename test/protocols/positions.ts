// Positions that clients of other protocols come back with: one that was never sent is the beginning, the end has nothing behind it, and where
// the frames are gone nobody is given half of what they said, or any of it twice.
import t from 'tap'
import { endedRun } from '../fixtures/crossings.ts'
import { stateless } from '../fixtures/crossing-tasks.ts'
import { follow, type Request } from '../fixtures/cuts.ts'
import { at } from '../fixtures/gateway.ts'
import type { Json } from '../fixtures/teller.ts'

/** Of the events that a client has when it comes back. */
const SEEN = 10
const LATER = 100_000

interface Way {
  whole(thread: string, run: string): Request
  /** After an event by its id. */
  behind(thread: string, run: string, id: string): Request
  /** A text without positions of it. */
  isEnd(event: Json): boolean
}

const again = (request: Request, id: string): Request => ({ ...request, headers: { 'last-event-id': id } })
const chat = (thread: string): Request => ({ method: 'GET', path: `/api/ai/chat/${thread}/stream` })
const agUi = (thread: string, run: string): Request => ({
  method: 'GET',
  path: `/api/agui/threads/${thread}/runs/${run}`
})
const MCP = { 'mcp-protocol-version': '2026-07-28' }

const WAYS: Readonly<Record<string, Way>> = {
  'AI SDK': {
    whole: chat,
    behind: (thread, _, id) => again(chat(thread), id),
    isEnd: ({ type }) => type === 'finish'
  },
  'AG-UI': {
    whole: agUi,
    behind: (thread, run, id) => again(agUi(thread, run), id),
    isEnd: ({ type }) => type === 'RUN_FINISHED'
  },
  MCP: {
    whole: (_, run) => ({
      method: 'POST',
      path: '/mcp',
      ...stateless('tools/call', 'lead_agent', { name: 'lead_agent', arguments: {} }, { 'colloquy/run': run })
    }),
    behind: (_, __, id) => ({ method: 'GET', path: '/mcp', headers: { ...MCP, 'last-event-id': id } }),
    isEnd: (event) => event.result !== undefined
  }
}

const dataOf = ({ events }: Awaited<ReturnType<typeof follow>>) =>
  events.map(({ data }) => data).filter((data) => Object.keys(data).length > 0)
/** The id of another place: so much later by its attempt, and by its frame. */
const movedTo = (id: string, attempt: number, frame: number) =>
  id.replace(/(\d+)-(\d+)\.(\d+)/, (_, epoch, n) => `${Number(epoch) + attempt}-${Number(n) + frame}.0`)

t.test('a position that was never sent is the beginning, and nothing is behind the end', async (t) => {
  const { place, thread, run } = await endedRun(t)
  for (const [name, { whole, behind }] of Object.entries(WAYS)) {
    const all = await follow(place, whole(thread, run))
    const ids = all.events.map(({ id }) => id)
    const from = async (id: string) => dataOf(await follow(place, behind(thread, run, id)))
    const told = dataOf(all)
    const rest = await from(ids[SEEN]!)
    t.strictSame(rest, told.slice(-rest.length), `${name}: what is behind one that was sent`)
    t.ok(rest.length < told.length && rest.length > 20, `${name}: ${rest.length} of ${told.length}`)
    t.strictSame(await from(movedTo(ids[SEEN]!, LATER, 0)), told, `${name}: of an attempt that was none`)
    t.strictSame(await from(movedTo(ids[SEEN]!, -LATER, 0)), told, `${name}: of one before the first`)
    t.strictSame(await from(movedTo(ids[SEEN]!, 0, LATER)), told, `${name}: beyond the end`)
    t.strictSame(await from(ids.findLast((id) => id !== '')!), [], `${name}: the end`)
  }
})

t.test('where the frames are gone nobody gets half of an answer for all of it, or a piece twice', async (t) => {
  const { place, thread, run, swept } = await endedRun(t)
  const ids = new Map<string, readonly string[]>()
  for (const [name, { whole }] of Object.entries(WAYS)) {
    const { events } = await follow(place, whole(thread, run))
    ids.set(
      name,
      events.map(({ id }) => id).filter((id) => id !== '')
    )
  }
  const response = `/v1/responses/resp_${run.replaceAll('-', '')}?stream=true`
  const before = dataOf(await follow(place, { method: 'GET', path: response }))
  const next = await swept()
  for (const [name, { whole, behind, isEnd }] of Object.entries(WAYS)) {
    const own = ids.get(name)!
    const told = await follow(next, behind(thread, run, own[SEEN]!))
    if (name === 'MCP') {
      t.match(dataOf(told), [{ result: { structuredContent: { message: /./ } } }], 'MCP: the result has all of it')
    } else {
      t.notOk(told.isStream, name)
      t.match(told.events[0]?.data, { detail: /no longer kept/ }, name)
    }
    t.strictSame(dataOf(await follow(next, behind(thread, run, own.at(-1)!))), [], `${name}: who has all is told so`)
    const all = dataOf(await follow(next, whole(thread, run)))
    t.ok(all.length > 5 && isEnd(all.at(-1)!), `${name}: and who has nothing gets all`)
  }
  const rest = dataOf(await follow(next, { method: 'GET', path: `${response}&starting_after=${SEEN}` }))
  t.strictSame(
    rest.map((event) => [event.type, at(event, 'response', 'output')]),
    [['response.completed', at(before.at(-1), 'response', 'output')]],
    'Responses: the terminal event, with the whole'
  )
})
