// A run in each protocol when its frames are gone: what it was told as pieces is told under the same ids, one piece an item, and a position
// that was given before is answered with all that is left.
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Store } from '../../lib/store/store.ts'
import { sweepAll } from '../fixtures/crossings.ts'
import { stateless } from '../fixtures/crossing-tasks.ts'
import { follow, type Request } from '../fixtures/cuts.ts'
import { at, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'
import type { Json } from '../fixtures/teller.ts'

const TALK = '/demo rate=0 deltas=40 reasoning tool=current_time'

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
  let store: Store
  const behind = (opened: Store) => {
    store = opened
    return opened
  }
  const home = t.testdir()
  const config = { memory: { enabled: false }, title: { enabled: false } }
  const site = await openSite(t, { config, behind, home })
  const owner = await signIn(site)
  const { token } = await programOf(owner, ...PERMISSIONS)
  const thread = await owner.thread()
  const row = await owner.run(thread, TALK)
  await (await owner.join(row)).whole()
  const run = row.split('/').at(-1)!
  const all = async (url: string) => {
    const told: Record<string, readonly Json[]> = {}
    for (const [name, { request }] of Object.entries(REPLAYS)) {
      const { events } = await follow({ url, token }, request(thread, run))
      told[name] = events.map(({ data }) => data)
    }
    return told
  }
  const before = await all(site.url)
  await sweepAll(store!)
  await site.stop()
  const next = await openSite(t, { config, home })
  const after = await all(next.url)
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
  const { events: rest } = await follow({ url: next.url, token }, { method: 'GET', path })
  t.strictSame(
    rest.map(({ data }) => data),
    [last],
    'a position beyond the end gets the terminal event with the whole'
  )
})
