// The paths of lib/README.md: which files a delta goes through to a socket and to the disk, and a search for threads through the server.
// Counted and not read: by how often V8 says that the functions of a file were called, in whatever thread.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { type Person, signIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'

const MANY = 60
const HOUSE = readFileSync(fileURLToPath(new URL('../../../lib/README.md', import.meta.url)), 'utf8')

interface Path {
  /** In order: the thing itself goes through them. */
  readonly through: readonly string[]
  /** Helpers that answer at once: nothing goes on from them. */
  readonly beside: readonly string[]
}

const EMIT = {
  through: ['agent/http/post', 'agent/chat-completion', 'run/recorder', 'run/log/message', 'run/log/run-log'],
  beside: [
    'agent/check',
    'agent/http/idle-timeout',
    'agent/json',
    'growing-text',
    'run/commit/committer',
    'run/commit/pending-budget',
    'run/log/filter',
    'run/log/journal',
    'run/log/oversized',
    'run/log/slabs',
    'run/log/sse',
    'run/log/state-builder',
    'types'
  ]
}

const TO_SOCKET: Path = {
  through: [...EMIT.through, 'run/delivery/ticker', 'run/delivery/joiner', 'http/streaming-response'],
  beside: ['run/delivery/paced-writer', ...EMIT.beside, 'run/log/counters']
}

const TO_DISK: Path = {
  through: [
    'run/recorder',
    'run/log/run-log',
    'run/commit/committer',
    'store/sqlite/open',
    'store/sqlite/writer',
    'store/sqlite/batch-codec',
    'store/sqlite/worker',
    'store/sqlite/frames'
  ],
  beside: [
    'metrics',
    'run/commit/write-health-check',
    'run/lifecycle/actor',
    'run/lifecycle/registry',
    'store/sqlite/metadata-search',
    'store/sqlite/search',
    'store/sqlite/totals-cache',
    'store/sqlite/wal'
  ]
}

const SEARCH: Path = {
  through: [
    'http/server',
    'http/router',
    'http/guards',
    'auth/session',
    'http/request',
    'routes/thread-search',
    'store/scoped',
    'store/sqlite/search',
    'http/reply'
  ],
  beside: [
    'auth/token',
    'http/address',
    'http/body-budget',
    'http/body-reader',
    'http/call',
    'http/connections',
    'http/entry-guard',
    'http/json-list',
    'http/langgraph-client',
    'http/route',
    'http/schema',
    'http/unread-answers',
    'http/upgrade',
    'http/web-socket',
    'loop-turns',
    'metrics',
    'routes/page',
    'routes/thread-view',
    'run/lifecycle/readiness',
    'scope',
    'store/sql/json',
    'store/sql/metadata-index',
    'store/sql/thread-search',
    'store/sql/threads',
    'store/sqlite/connection',
    'store/sqlite/metadata-index',
    'store/sqlite/totals-cache',
    'store/sqlite/steps',
    'store/sql/users',
    'store/sql/steps',
    'thread/checkpoint',
    'types',
    'well-formed'
  ]
}

// ------------------------------------------------------------------------------------------------------ counting

/** How often the functions of lib/ were called, by `file function`. */
type Calls = Map<string, number>

interface Covered {
  readonly result: readonly {
    readonly url: string
    readonly functions: readonly {
      readonly functionName: string
      readonly ranges: readonly { readonly startOffset: number; readonly count: number }[]
    }[]
  }[]
}

/** Of all threads of a process that has ended. */
function callsIn(folder: string): Calls {
  const calls: Calls = new Map()
  for (const name of readdirSync(folder)) {
    // Written by Node.
    for (const { url, functions } of (JSON.parse(readFileSync(join(folder, name), 'utf8')) as Covered).result) {
      const file = /\/dist\/lib\/(.+)\.js$/.exec(url)?.[1]
      if (!file) continue
      for (const { functionName, ranges } of functions) {
        const key = `${file} ${functionName}@${ranges[0]!.startOffset}`
        calls.set(key, (calls.get(key) ?? 0) + ranges[0]!.count)
      }
    }
  }
  return calls
}

type Work = (person: Person) => Promise<void>

async function callsOf(t: Test, streams: object, work: Work): Promise<Calls> {
  const folder = t.testdir({})
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const config = { models, title: { enabled: false }, memory: { enabled: false }, streams }
  const child: Child = await startChild(t, { config, env: { NODE_V8_COVERAGE: folder } })
  await work(await signIn(child))
  child.process.kill('SIGTERM')
  await child.exited
  return callsIn(folder)
}

/** Files of which a function was called for (nearly) each of the `MANY` that `many` did beyond what `once` did. */
function crossed(once: Calls, many: Calls, share: number): Set<string> {
  const often = [...many].filter(([key, count]) => count - (once.get(key) ?? 0) >= MANY * share)
  return new Set(often.map(([key]) => key.split(' ')[0]!))
}

/** Called by how long something took and not by how often: on a slow machine turns of the loop are left to others. */
const BY_TIME = ['loop-turns']

async function check(
  t: Test,
  title: string,
  path: Path,
  streams: object,
  work: (count: number) => Work
): Promise<void> {
  const known = [...path.through, ...path.beside]
  const found: Set<string>[] = []
  const once = await callsOf(t, streams, work(1))
  const many = await callsOf(t, streams, work(1 + MANY))
  for (const share of [0.95, 0.1]) found.push(crossed(once, many, share))
  const [always, sometimes] = found
  const others = [...always!].filter((file) => !known.includes(file) && !BY_TIME.includes(file))
  t.same(others.sort(), [], 'it crosses no other file')
  // On a busy machine several go together.
  t.same(
    known.filter((file) => !sometimes!.has(file)),
    [],
    'and all of these'
  )
  const [, section = ''] = HOUSE.split(`### ${title}`)
  const listed = [...section.split('```')[1]!.matchAll(/^([a-z].*)\.ts /gm)].map(([, file]) => file)
  t.same(listed, path.through, 'lib/README.md says so')
}

// ------------------------------------------------------------------------------------------------------ the paths

t.test('a delta goes through 8 files to the socket', async (t) => {
  t.equal(TO_SOCKET.through.length, 8)
  await check(t, 'To the socket', TO_SOCKET, { flush_ms: 2000 }, (deltas) => async (person) => {
    const thread = await person.thread()
    const stream = await person.stream(thread, scripted({ deltas, rate: 50 }), { stream_mode: ['messages-tuple'] })
    await stream.whole()
  })
})

t.test('and through 8 to the disk', async (t) => {
  t.equal(TO_DISK.through.length, 8)
  const all = { through: TO_DISK.through, beside: [...EMIT.through, ...EMIT.beside, ...TO_DISK.beside] }
  await check(t, 'To the disk', all, { flush_ms: 1 }, (deltas) => async (person) => {
    const input = { messages: [{ role: 'user', content: scripted({ deltas, rate: 25 }) }] }
    await person.post(`/api/threads/${await person.thread()}/runs/wait`, { input })
  })
})

t.test('a search for threads goes through 9', async (t) => {
  t.equal(SEARCH.through.length, 9)
  await check(t, 'A search for threads', SEARCH, {}, (count) => async (person) => {
    await person.thread()
    for (let n = 0; n < count; n++) await person.post('/api/threads/search', {})
  })
})
