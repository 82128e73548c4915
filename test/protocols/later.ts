// A run in each protocol when its frames are gone: what it was told as pieces is told under the same ids, one piece an item, and a position
// that was given before is answered with all that is left.
import t from 'tap'
import { endedRun } from '../fixtures/crossings.ts'
import { stateless } from '../fixtures/crossing-tasks.ts'
import { follow, type Request } from '../fixtures/cuts.ts'
import { at, textIn } from '../fixtures/gateway.ts'
import type { Json } from '../fixtures/teller.ts'

interface Replay {
  /** What tells the whole run. */
  request(thread: string, run: string): Request
  /** The id of the item that an event adds words to; null: it adds none. */
  itemOf(event: Json): string | null
}

const idIf = (is: boolean, id: unknown): string | null => (is ? String(id) : null)

const REPLAYS: Readonly<Record<string, Replay>> = {
  OpenAI: {
    request: (_, run) => ({ method: 'GET', path: `/v1/responses/resp_${run.replaceAll('-', '')}?stream=true` }),
    itemOf: ({ type, item_id }) => idIf(/(output_text|reasoning_text)\.delta$/.test(String(type)), item_id)
  },
  'AI SDK': {
    request: (thread) => ({ method: 'GET', path: `/api/ai/chat/${thread}/stream` }),
    itemOf: ({ type, id }) => idIf(/^(text|reasoning)-delta$/.test(String(type)), id)
  },
  'AG-UI': {
    request: (thread, run) => ({ method: 'GET', path: `/api/agui/threads/${thread}/runs/${run}` }),
    itemOf: ({ type, messageId }) => idIf(/^(TEXT|REASONING)_MESSAGE_CONTENT$/.test(String(type)), messageId)
  },
  MCP: {
    request: (_, run) => ({
      method: 'POST',
      path: '/mcp',
      ...stateless('tools/call', 'lead_agent', { name: 'lead_agent', arguments: {} }, { 'colloquy/run': run })
    }),
    itemOf: (event) => {
      const piece = at(event, 'params', '_meta', 'colloquy/piece')
      const type = String(at(piece, 'type'))
      return idIf(/^(text|reasoning)$/.test(type), `${type} ${at(piece, 'message_id')}`)
    }
  }
}

t.test('later a run is one piece an item, under the same ids, in every protocol', async (t) => {
  const { place, thread, run, swept } = await endedRun(t)
  const all = async (where: typeof place) => {
    const told: Record<string, readonly Json[]> = {}
    for (const [name, { request }] of Object.entries(REPLAYS)) {
      const { events } = await follow(where, request(thread, run))
      told[name] = events.map(({ data }) => data)
    }
    return told
  }
  const before = await all(place)
  const next = await swept()
  const after = await all(next)
  for (const [name, { itemOf }] of Object.entries(REPLAYS)) {
    const itemsOf = (events: readonly Json[]) => events.flatMap((event) => itemOf(event) ?? [])
    const [old, now] = [itemsOf(before[name]!), itemsOf(after[name]!)]
    t.ok(old.length > 40, `${name}: in pieces`)
    t.strictSame(now, [...new Set(old)], `${name}: one piece an item, in order, under the same ids`)
  }

  const events = before.OpenAI!
  const last = after.OpenAI!.at(-1)
  t.strictSame(at(last, 'response'), at(events.at(-1), 'response'), 'the whole is the same')
  const path = `/v1/responses/${textIn(last, 'response', 'id')}?stream=true&starting_after=${events.length - 5}`
  const { events: rest } = await follow(next, { method: 'GET', path })
  t.strictSame(
    rest.map(({ data }) => data),
    [last],
    'a position beyond the end gets the terminal event with the whole'
  )
})
