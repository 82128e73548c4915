// A store of somebody else's: proved by our suites through the public door, and refused at start when it is none.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { eventsOverMemory, storeContract } from 'colloquy/testing'
import t, { type Test } from 'tap'
import { loadConfig } from '../../lib/config/config.ts'
import { isInUse, openStore } from '../../lib/store/open.ts'
import { openMemoryEvents } from '../../lib/store/memory/event-store.ts'
import { splitStore } from '../../lib/store/split/open.ts'
import { classStore } from '../fixtures/database-module.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { openEventStore } from '../examples/file-store.ts'
import { homeOf, openSite, signIn } from '../fixtures/gateway.ts'
import { ask, places, statusOf } from '../fixtures/place.ts'

storeContract(
  t,
  'a file a thread, by somebody else',
  eventsOverMemory(async () => {
    const home = mkdtempSync(join(tmpdir(), 'colloquy-module-'))
    const open = () => openEventStore({ home, options: {}, warn: () => {} })
    return {
      events: await open(),
      reopen: open,
      async remove() {
        rmSync(home, { recursive: true, force: true })
      }
    }
  })
)

const FIXTURES = fileURLToPath(new URL('../fixtures/', import.meta.url))

/** Opens the stores of a configuration with these sections; answers what was warned of. */
async function opened(t: Test, yaml: string, files: Record<string, string> = {}) {
  const cwd = t.testdir({ 'colloquy.yaml': yaml, ...files })
  const warnings: string[] = []
  const store = await openStore(loadConfig({ env: {}, cwd }), (_, text) => warnings.push(text))
  await store.close()
  return warnings
}

t.test('modules that are what they should be are taken, for events and for everything', async (t) => {
  const events = JSON.stringify({ module: join(FIXTURES, '../examples/file-store.js'), options: { folder: 'mine' } })
  const database = JSON.stringify({ module: join(FIXTURES, 'database-module.js') })
  t.strictSame(await opened(t, `run_events: { backend: ${events} }\ndatabase: { backend: ${database} }`), [])
})

// A class has no members that could be copied, only methods that want to be called as its own.
storeContract(t, 'a class, with events beside it', async () => {
  const store = splitStore(classStore(), openMemoryEvents())
  return { store, close: () => store.close() }
})

t.test(
  'a database that is a class answers on every route, with events of its own and with events beside it',
  async (t) => {
    const backend = { module: join(FIXTURES, 'database-module.js') }
    for (const events of ['db', 'memory', 'jsonl']) {
      const site = await openSite(t, {
        config: { database: { backend }, run_events: { backend: events }, sharing: 'public' }
      })
      const owner = await signIn(site)
      const placeOf = places(owner, 'sqlite')
      for (const [name, expected] of Object.entries(EXPECTED)) {
        if (expected.reach === 'admin' || expected.reach === 'public') continue
        const answer = await ask(owner, name, await placeOf(name))
        t.equal(
          answer.status,
          statusOf(expected, 'sqlite'),
          `${name}, events in ${events}: ${answer.text.slice(0, 200)}`
        )
      }
      await site.stop()
    }
  }
)

/** What is said of a module whose source is this; null: there is no such file. */
const REFUSALS: readonly [name: string, what: 'run_events' | 'database', source: string | null, message: RegExp][] = [
  ['no file', 'run_events', null, /^run_events\.backend: \/.*\/theirs\.mjs cannot be loaded \(.*Cannot find module/],
  ['no JavaScript', 'database', 'export const = 5', /^database\.backend: \/.*\/theirs\.mjs cannot be loaded \(/],
  ['no opener', 'run_events', 'export const openEventStore = 5', /theirs\.mjs exports no function openEventStore$/],
  ['the other opener', 'database', 'export function openEventStore() {}', /theirs\.mjs exports no function openStore$/],
  ['nothing opened', 'run_events', 'export async function openEventStore() {}', /has no select, append, truncate, /],
  [
    'methods missing',
    'run_events',
    'export const openEventStore = async () => ({ select() {}, append() {}, close: 1 })',
    /^run_events\.backend: what openEventStore of \/.*\/theirs\.mjs answers has no truncate, remove, close$/
  ],
  [
    'methods of nouns missing',
    'database',
    'export const openStore = () => ({ apply() {}, close() {}, users: { byId() {} }, feedback: {}, frames: null })',
    /answers has no (?=.*users\.byEmail, users\.byIdentity,.*users\.admin, users\.ofSession,)(?=.*threads\.get)(?=.*frames\.read).*feedback\.list, feedback\.stats/
  ],
  [
    'a contract without jobs',
    'database',
    'export const openStore = () => ({ apply() {}, close() {}, ttls: {}, webhooks: {} })',
    /answers has no (?=.*jobs\.dueIn).*: since 0\.2 webhooks, turns of crons and times to live are rows of one noun, jobs,/
  ],
  [
    'jobs without a method',
    'database',
    'export const openStore = () => ({ apply() {}, close() {}, jobs: { get() {}, ofThread() {}, list() {}, counts() {} } })',
    /has no (?=.*jobs\.dueIn, jobs\.now)[\w., ]+$/
  ],
  [
    'its own failure',
    'run_events',
    'export async function openEventStore({ options }) { throw new Error("no " + options.url) }',
    /^no redis:$/
  ]
]

t.test('a module that is none is refused at start, with its name and what is missing', async (t) => {
  for (const [name, what, source, message] of REFUSALS) {
    // A test of its own has a folder of its own: node loads a module once.
    await t.test(name, async (t) => {
      const yaml = `${what}: { backend: { module: ./theirs.mjs, options: { url: 'redis:' } } }`
      await t.rejects(opened(t, yaml, source === null ? {} : { 'theirs.mjs': source }), { message })
    })
  }
})

t.test('whether a server uses a store of somebody else is told by the lock of its home alone', async (t) => {
  const home = homeOf(t)
  const database = { backend: { module: '/their/store.js', options: {} }, sqlite_path: join(home, 'data', 'none.db') }
  t.equal(await isInUse({ home, database, run_events: { backend: 'db' } }), false)
})
