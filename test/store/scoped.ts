// The user of a call is resolved in front of the store: what a store implements always gets a user or null.
import t, { type Test } from 'tap'
import { asUser, type Owner, type UserArg, withoutUser } from '../../lib/base/scope.ts'
import { BESIDE_EVENTS } from '../../lib/store/split/open.ts'
import { scopedStore, scopedWriter } from '../../lib/store/scoped.ts'
import { type Op, OWNED_OPS, type Store, type Writer } from '../../lib/store/store.ts'

type Read = (...args: unknown[]) => Promise<unknown>

/** What comes before the user, for every read that takes one. */
const USER_READS: Readonly<Record<string, readonly unknown[]>> = {
  'apiTokens.list': [],
  'assistants.get': ['a'],
  'assistants.list': [],
  'assistants.versions': ['a'],
  'threads.get': ['t'],
  'threads.search': [{ limit: 1, offset: 0 }],
  'runs.get': ['r'],
  'runs.after': ['thread', 1],
  'runs.byKey': ['k'],
  'runs.list': ['t', { limit: 1, offset: 0 }],
  'runs.tokens': ['t'],
  'events.listMessages': ['t', { limit: 1 }],
  'events.listMessagesByRun': ['t', 'r', { limit: 1 }],
  'events.listEvents': ['t', 'r', { limit: 1 }],
  'events.runsOfMessages': ['t', ['m']],
  'runs.unfinished': [],
  'runs.begun': [0, 1],
  'crons.get': ['c'],
  'crons.list': [],
  'items.get': [['a'], 'k'],
  'items.search': [{ prefix: [], limit: 1, offset: 0 }],
  'items.namespaces': [{ limit: 1, offset: 0 }],
  'feedback.list': ['t', 'r'],
  'feedback.byRuns': ['t', ['r']]
}
const OTHER_READS = [
  'apiTokens.byDigest',
  'threads.ownerOf',
  'threads.idsOf',
  'runs.inFlight',
  'events.nextSeq',
  'events.lastK',
  'feedback.newest',
  'feedback.stats'
]

/** A noun whose every method notes how it was called. Its methods know whose they are, as those of a class do. */
function noun(name: string, calls: unknown[]): object {
  const self: object = new Proxy(
    {},
    {
      get: (_, method) =>
        function (this: unknown, ...args: unknown[]) {
          if (this !== self) throw new Error(`${name}.${String(method)} was called as somebody else's`)
          calls.push(...args)
          return Promise.resolve(null)
        }
    }
  )
  return self
}

/** A store that notes the arguments of every call, and its reads by name. */
function setUp() {
  const calls: unknown[] = []
  const names = [...BESIDE_EVENTS, 'events']
  // Whatever method it is asked for, it has it.
  const store = Object.fromEntries(names.map((name) => [name, noun(name, calls)])) as unknown as Store
  const scoped = scopedStore(store)
  const nouns = Object.entries({
    apiTokens: scoped.apiTokens,
    assistants: scoped.assistants,
    threads: scoped.threads,
    runs: scoped.runs,
    events: scoped.events,
    items: scoped.items,
    crons: scoped.crons,
    feedback: scoped.feedback ?? {}
  })
  // All of them take some arguments and answer a promise.
  const reads = nouns.flatMap(([noun, methods]) =>
    Object.entries(methods).map(([method, read]) => [`${noun}.${method}`, read as Read] as const)
  )
  return { calls, reads }
}

/** The three cases of a user argument, with and without a current user. `ask` answers what the store was given. */
async function threeCases(t: Test, name: string, ask: (user: UserArg) => Promise<Owner | undefined>): Promise<void> {
  t.equal(await asUser('ann', () => ask(undefined)), 'ann', `${name}: omitted is the current user`)
  for (const user of ['bob', null]) {
    t.equal(await asUser('ann', () => ask(user)), user, `${name}: ${user} overrides the current user`)
    t.equal(await withoutUser(() => ask(user)), user, `${name}: ${user} needs no current user`)
  }
  await t.rejects(
    withoutUser(() => ask(undefined)),
    { message: `${name} was called without user_id and no user is signed in` },
    `${name}: omitted while nobody is signed in`
  )
}

t.test('a read asks the store for a user or for null, never for nothing [Auth 7]', async (t) => {
  const { calls, reads } = setUp()
  const named = reads.map(([name]) => name)
  t.strictSame(named.toSorted(), [...Object.keys(USER_READS), ...OTHER_READS].toSorted(), 'every read is looked at')
  for (const [name, read] of reads) {
    const before = USER_READS[name]
    if (!before) continue
    await threeCases(t, name, async (user) => {
      calls.length = 0
      await (user === undefined ? read(...before) : read(...before, user))
      t.strictSame(calls.slice(0, -1), before, `${name}: the rest as it was given`)
      return calls.at(-1) as Owner | undefined
    })
  }
})

t.test('reads without a user go through as they are', async (t) => {
  const { calls, reads } = setUp()
  for (const [name, read] of reads) {
    if (!OTHER_READS.includes(name)) continue
    calls.length = 0
    await withoutUser(() => read('one', 'two'))
    t.match(['one', 'two'].slice(0, calls.length), calls, name)
  }
})

t.test('a write that is filtered by a user is handed over with a user or with null [Auth 7]', async (t) => {
  let given: Op | null = null
  const writer: Writer = {
    write: (op) => {
      given = op as unknown as Op
      return Promise.resolve(null as never)
    }
  }
  const scoped = scopedWriter(writer)
  for (const name of OWNED_OPS)
    await threeCases(t, name, async (user) => {
      given = null
      const op = { name, thread_id: 't', ...(user !== undefined && { user }) }
      await scoped.write(op as never)
      return (given as { user?: Owner } | null)?.user
    })
  const user = { id: 'ann' }
  await withoutUser(() => scoped.write({ name: 'user.create', user } as never))
  t.strictSame(given, { name: 'user.create', user }, 'another op goes through as it is')
})
