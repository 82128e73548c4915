// Fills a gateway's database with as much as it might hold after years, written beside the running server as ops of its own store.
import { openSqliteStore } from '../lib/store/sqlite/open.ts'
import type { Group, NewEvent, Op, Store } from '../lib/store/store.ts'
import { newThread } from '../lib/thread/thread.ts'
import { timestamp } from '../lib/base/types.ts'
import { piece } from './agent.ts'
import type { Server } from './rig.ts'
import { newRunOps } from './store.ts'

const BATCH = 500
/** Events in one op. */
const EVENTS = 1000
/** Characters of a message. */
const SIZE = 400

async function apply(store: Store, groups: readonly Group[]): Promise<void> {
  for (const outcome of await store.apply(groups)) if (!outcome.ok) throw new Error(`seeding: ${outcome.message}`)
}

/** The signed-in user of a server. */
export async function userOf(server: Server): Promise<string> {
  // The answer of our own server.
  return ((await (await server.get('/api/v1/auth/me')).json()) as { id: string }).id
}

/** Works on the store of a running server. */
export async function seeded(server: Server, work: (store: Store, userId: string) => Promise<void>): Promise<void> {
  const userId = await userOf(server)
  const store = await openSqliteStore(server.database)
  try {
    await work(store, userId)
  } finally {
    await store.close()
  }
}

/** Makes `count` threads with the ids `<prefix>-0`, `<prefix>-1`... */
export async function addThreads(store: Store, user_id: string, prefix: string, count: number): Promise<void> {
  for (let from = 0; from < count; from += BATCH) {
    const groups = Array.from({ length: Math.min(BATCH, count - from) }, (_, i): Group => {
      const given = { thread_id: `${prefix}-${from + i}`, user_id, assistant_id: null, metadata: { project: i % 7 } }
      return { ops: [{ name: 'thread.create', ...newThread(given, timestamp()) }] }
    })
    await apply(store, groups)
  }
}

/** Makes a thread with one run and so many events of it: a message by the user, one by the model, and three traces beside them. */
export async function addEvents(store: Store, user_id: string, thread_id: string, count: number): Promise<void> {
  const run_id = `${thread_id}-run`
  await apply(store, [{ ops: newRunOps(thread_id, run_id, user_id) }])
  const ops: Op[] = []
  for (let from = 0; from < count; from += EVENTS) {
    const events = Array.from({ length: Math.min(EVENTS, count - from) }, (_, i) => eventOf(from + i))
    ops.push({ name: 'events.append', thread_id, run_id, user_id, events })
    if (ops.length === 10 || from + EVENTS >= count) await apply(store, [{ ops: ops.splice(0) }])
  }
}

function eventOf(k: number): NewEvent {
  const content = piece({ deltas: 0, size: SIZE, rate: 0 }, k)
  const created_at = timestamp()
  const common = { metadata: {}, created_at, k }
  const kind = k % 5
  if (kind === 0)
    return {
      ...common,
      event_type: 'human_message',
      category: 'message',
      content: { type: 'human', id: `m-${k}`, content }
    }
  if (kind === 1)
    return { ...common, event_type: 'ai_message', category: 'message', content: { type: 'ai', id: `m-${k}`, content } }
  return { ...common, event_type: 'llm_request', category: 'trace', content: { text: content } }
}
