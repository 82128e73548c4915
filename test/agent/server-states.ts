// What a history behind a LangGraph server asks of the server: few requests, however long the conversation and whatever stands in front.
import t from 'tap'
import type { KeptState, KeptStates } from '../../lib/agent/states.ts'
import { parseJson, textOr } from '../../lib/base/json.ts'
import type { Json, JsonObject } from '../../lib/base/types.ts'
import { REF_CHANNEL, refJson } from '../../lib/langgraph/server-agent/checkpoint-ref.ts'
import type { Requests } from '../../lib/langgraph/server-agent/requests.ts'
import { ServerStates } from '../../lib/langgraph/server-agent/server-states.ts'
import { stateIn } from '../../lib/langgraph/server-agent/server-thread.ts'
import { at } from '../fixtures/gateway.ts'

const QUERY = { before: null, place: null, metadata: null, user: null }
const idOf = (no: number) => `00000000-0000-4000-8000-${String(no).padStart(12, '0')}`
const listed = (texts: readonly string[]) => texts.map((text) => at(parseJson(text), 'checkpoint', 'checkpoint_id'))

/** One of the server's: the channel `count` tells it from others. */
function theirs(no: number): JsonObject {
  const checkpoint = { checkpoint_id: idOf(no), checkpoint_ns: '', thread_id: 'remote' }
  const metadata = { part: no % 2 === 0 ? 'even' : 'odd' }
  return { checkpoint, values: { count: no }, next: [], tasks: [], metadata, created_at: '2026-01-01T00:00:00Z' }
}

/** One of ours that names theirs; `isShared`: and is the same. */
function ours(no: number, isShared: boolean): KeptState {
  const id = idOf(1_000_000 + no)
  const ref = refJson({ threadId: 'remote', checkpointId: idOf(no), runId: null })
  const channels = { count: isShared ? no : -1, [REF_CHANNEL]: ref }
  const json = JSON.stringify({ checkpoint: { checkpoint_id: id }, values: { count: channels.count }, metadata: {} })
  return { checkpointId: id, json, state: () => ({ messages: [], channels }) }
}

/** A server with `count` states, and how often it was asked. */
function statesOf(count: number, kept: readonly KeptState[]) {
  const asked: string[] = []
  const askOnce = (method: string, path: string, { body }: { body?: JsonObject } = {}): Promise<Json> => {
    asked.push(`${method} ${path}`)
    const named = /\/state\/([^?]+)/.exec(path)?.[1]
    const no = Number(named?.slice(-12))
    if (named !== undefined) return Promise.resolve(no < count ? theirs(no) : null)
    const from = textOr(body?.before) === null ? count : Number(textOr(body?.before)!.slice(-12))
    return Promise.resolve(Array.from({ length: Math.min(Number(body?.limit), from) }, (_, n) => theirs(from - 1 - n)))
  }
  const keptStates: Partial<KeptStates> = {
    kept: (_, { limit, before }) => {
      const from = before === null ? 0 : kept.findIndex((one) => one.checkpointId === before) + 1
      return Promise.resolve(kept.slice(from, from + limit))
    },
    has: (_, id) => Promise.resolve(kept.some((one) => one.checkpointId === id))
  }
  const bound = new Proxy(keptStates, { get: (of, name) => Reflect.get(of, name) ?? (() => undefined) })
  // Only what a history needs of either is there.
  return { asked, states: new ServerStates(bound as KeptStates, { askOnce } as unknown as Requests) }
}

t.test('a history whose newest states are ours alone finds the first shared one by two requests', async (t) => {
  const kept = Array.from({ length: 40 }, (_, n) => ours(99 - n, n >= 30))
  const { asked, states } = statesOf(100, kept)
  const found = listed(await states.history('thread', { ...QUERY, limit: 100 }))
  t.equal(asked.length, 3, 'and lists what is older by a third')
  t.strictSame(
    found.slice(0, 30),
    kept.slice(0, 30).map((one) => one.checkpointId)
  )
  t.strictSame(
    found.slice(30),
    Array.from({ length: 70 }, (_, n) => idOf(69 - n))
  )
})

t.test('nor is more asked where the server knows nothing of them', async (t) => {
  const kept = Array.from({ length: 40 }, (_, n) => ours(500 - n, true))
  const { asked, states } = statesOf(100, kept)
  t.equal((await states.history('thread', { ...QUERY, limit: 100 })).length, 40)
  t.equal(asked.length, 2)
})

t.test('states of certain metadata are looked for among so many, and not for ever', async (t) => {
  const few = statesOf(1000, [ours(999, true)])
  const even = await few.states.history('thread', { ...QUERY, limit: 3, metadata: { part: 'even' } })
  t.strictSame(listed(even), [998, 996, 994].map(idOf))
  const many = statesOf(100_000, [ours(99_999, true)])
  t.strictSame(await many.states.history('thread', { ...QUERY, limit: 3, metadata: { part: 'none' } }), [])
  t.ok(many.asked.length < 60, `${many.asked.length} requests`)
})

t.test('a question that was answered beside another that waits is none of the state any more', async (t) => {
  const task = (name: string, more: JsonObject) => ({
    id: name,
    name,
    interrupts: [{ id: name, value: `${name}?` }],
    ...more
  })
  const tasks = [task('done', { result: { steps: ['yes'] } }), task('again', { result: {} }), task('open', {})]
  t.same(
    stateIn({ ...theirs(1), next: ['open'], tasks })?.interrupts.map(({ id }) => id),
    ['again', 'open']
  )
})
