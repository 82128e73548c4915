// Every way to write a state, on every store, of every kind of agent: what was written is what is read, exactly once, also when much is
// written at the same time.
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { defineAgent } from '../../lib/agent/define.ts'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import type { Store } from '../../lib/store/store.ts'
import { isObject, type Json, type JsonObject } from '../../lib/base/types.ts'
import { BACKENDS, type Backend, type DatabaseSection, databaseSection } from '../fixtures/backends.ts'
import { at, listIn, openSite, type Person, signIn, type Site, textIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { startPair } from '../fixtures/pair.ts'

const GRAPHS = { plain: 'states.mjs:plain', delta: 'states.mjs:delta', nested: 'states.mjs:nested' }
/** Updates that come at once. */
const WRITERS = 20

/** How an agent is told what to do, and where what it has kept is found. */
interface Subject {
  readonly graph: string
  /** What is special about it, in the names of tests. */
  readonly about?: string
  readonly durability?: 'exit'
  /** What a run is started with. */
  input(text: string): JsonObject
  /** What one writer adds to the state; each adds its own. */
  change(name: string): JsonObject
  /** What was written, in the order in which it was. */
  written(values: unknown): string[]
}

const graphSubject = (graph: string, durability?: 'exit'): Subject => ({
  graph,
  ...(durability && { durability }),
  input: (text) => ({ items: [text] }),
  change: (name) => ({ items: [name], sum: 1 }),
  written: (values) => listIn(values, 'items').map(String)
})

/** Items so long that a list of them is stored in parts. */
const PADDING = '"[,\\'.repeat(2000)
const padded = (name: string) => `${name}${PADDING}`
const longSubject = (graph: string): Subject => ({
  ...graphSubject(graph),
  about: 'in parts',
  input: (text) => ({ items: [padded('before'), text] }),
  change: (name) => ({ items: [padded(name), name], sum: 1 }),
  written: (values) =>
    listIn(values, 'items')
      .map(String)
      .filter((item) => !item.endsWith(PADDING))
})

/** Ours keeps messages and channels, and a channel is overwritten. */
const OURS: Subject = {
  graph: 'lead_agent',
  input: (text) => ({ messages: [{ role: 'user', content: text }] }),
  change: (name) => ({ [name]: name }),
  written: (values) => {
    const messages = listIn({ messages: [], ...(values as object) }, 'messages').map((one) => textIn(one, 'content'))
    const channels = Object.keys(isObject(values as Json) ? (values as JsonObject) : {})
    return [...messages, ...channels.filter((name) => /^(u\d|forked)/.test(name))]
  }
}

const KINDS: readonly (readonly Subject[])[] = [
  [OURS],
  [...Object.keys(GRAPHS).flatMap((graph) => [graphSubject(graph), graphSubject(graph, 'exit')]), longSubject('plain')]
]

/** Threads whose run has come to where it hangs; graphs run in this process too. */
const hanging = new Set<string>()
Object.assign(globalThis, { hanging })

/** The steps of fixtures/graphs/states.mjs. */
const ours = defineAgent(async function* ({ threadId, messages, resume, context }, signal) {
  if (!resume) {
    yield `first after ${String(messages.at(-1)?.content)}`
    yield { type: 'step', node: 'agent' }
    if (context.ask) return yield { type: 'interrupt', interrupt: { id: 'q', value: 'which?' } }
  }
  if (context.hang) hanging.add(threadId)
  if (context.hang) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  yield `second was told ${String(resume?.value ?? 'nothing')}`
})

const FIRST = ['in', 'first after in', 'second was told nothing']

// --------------------------------------------------------------------------------------------- a thread, as its client sees it

class Talk {
  readonly #person: Person
  readonly #subject: Subject
  readonly id: string

  constructor(person: Person, subject: Subject, id: string) {
    this.#person = person
    this.#subject = subject
    this.id = id
  }

  static async begin(person: Person, subject: Subject): Promise<Talk> {
    return new Talk(person, subject, await person.thread())
  }

  get path(): string {
    return `/api/threads/${this.id}`
  }

  by(person: Person): Talk {
    return new Talk(person, this.#subject, this.id)
  }

  #run(how: object, options: object): object {
    const { graph: assistant_id, durability } = this.#subject
    return {
      assistant_id,
      ...(durability && { durability }),
      config: { configurable: options },
      context: options,
      ...how
    }
  }

  /** Runs to its end. */
  async say(text: string, options: object = {}, more: object = {}): Promise<void> {
    const body = this.#run({ input: this.#subject.input(text), ...more }, options)
    const { status, text: answer } = await this.#person.post(`${this.path}/runs/wait`, body)
    if (status !== 200) throw new Error(`${status} ${answer}`)
  }

  async answer(resume: string, options: object = {}): Promise<void> {
    await this.#person.post(`${this.path}/runs/wait`, this.#run({ command: { resume } }, { ask: true, ...options }))
  }

  /** Begins a run that does not end, and answers its path once it hangs. */
  async hang(how: object): Promise<string> {
    const options = { hang: true, ...('command' in how && { ask: true }) }
    const { body } = await this.#person.post(`${this.path}/runs`, this.#run(how, options))
    const run = `${this.path}/runs/${textIn(body, 'run_id')}`
    await until(() => hanging.delete(this.id), 'the run has come to where it hangs')
    return run
  }

  async rollBack(run: string): Promise<void> {
    await this.#person.post(`${run}/cancel?wait=true&action=rollback`)
    await until(async () => at((await this.#person.get(run)).body, 'status') === 'error', 'it is rolled back')
  }

  update(change: JsonObject, more: object = {}): Promise<{ readonly status: number; readonly body: unknown }> {
    return this.#person.post(`${this.path}/state`, { values: change, ...more })
  }

  async state(): Promise<unknown> {
    const { status, body, text } = await this.#person.get(`${this.path}/state`)
    if (status !== 200) throw new Error(`GET state answered ${status}: ${text}`)
    return body
  }

  async written(): Promise<string[]> {
    return this.#subject.written(at(await this.state(), 'values'))
  }

  /** What a client is asked. */
  async asked(): Promise<unknown[]> {
    const tasks = listIn(await this.state(), 'tasks')
    return tasks.flatMap((task) => listIn(task, 'interrupts').map((one) => at(one, 'value')))
  }

  /** Newest first. */
  async history(limit = 100): Promise<readonly unknown[]> {
    return listIn((await this.#person.post(`${this.path}/history`, { limit })).body)
  }

  async copy(): Promise<Talk> {
    const { status, body, text } = await this.#person.post(`${this.path}/copy`)
    if (status !== 200) throw new Error(`copying answered ${status}: ${text}`)
    return new Talk(this.#person, this.#subject, textIn(body, 'thread_id'))
  }

  async prune(): Promise<unknown> {
    return (await this.#person.post('/api/threads/prune', { thread_ids: [this.id], strategy: 'keep_latest' })).body
  }
}

const checkpointOf = (state: unknown) => textIn(state, 'checkpoint_id')
const parentOf = (state: unknown) => at(state, 'parent_checkpoint_id')

/** The newest states from here on, each the parent of the one before it. */
function lineOf(history: readonly unknown[]): unknown[] {
  const line = history.slice(0, 1)
  const byId = new Map(history.map((one) => [checkpointOf(one), one]))
  for (let next = parentOf(line[0]); typeof next === 'string' && byId.has(next); next = parentOf(line.at(-1)))
    line.push(byId.get(next))
  return line
}

/** Each once, in whatever order. */
function same(t: Test, found: readonly string[], expected: readonly string[], what: string): void {
  t.strictSame([...found].sort(), [...expected].sort(), what)
}

// -------------------------------------------------------------------------------------------------------- the ways

const WAYS: Readonly<Record<string, (t: Test, talk: Talk, subject: Subject, scene: Scene) => Promise<void>>> = {
  async 'the end of a run'(t, talk, subject) {
    await talk.say('in')
    t.strictSame(await talk.written(), FIRST)
    await talk.say('more')
    const all = [...FIRST, 'more', 'first after more', 'second was told nothing']
    t.strictSame(await talk.written(), all, 'the next one goes on from there')
    const [newest] = await talk.history()
    t.strictSame(subject.written(at(newest, 'values')), all, 'and so does the history')
  },

  async 'many updates at once'(t, talk, subject) {
    await talk.say('in')
    const before = (await talk.history()).length
    const names = Array.from({ length: WRITERS }, (_, n) => `u${n}`)
    const answers = await Promise.all(names.map((name) => talk.update(subject.change(name))))
    t.strictSame([...new Set(answers.map(({ status }) => status))], [200])
    same(t, await talk.written(), [...FIRST, ...names], 'each once')
    const history = await talk.history()
    t.equal(history.length, before + WRITERS)
    t.ok(lineOf(history).length >= WRITERS + 1, 'in one line')
    const ids = new Set(answers.map(({ body }) => checkpointOf(body)))
    t.ok(ids.size > 0)
  },

  async 'updates of one channel at once'(t, talk, subject) {
    if (subject !== OURS) return void t.pass('those of a graph are added')
    await talk.say('in')
    const values = Array.from({ length: WRITERS }, (_, n) => `${n} `.repeat(500 + n))
    await Promise.all(values.map((title) => talk.update({ draft: title })))
    t.ok(values.includes(String(at(await talk.state(), 'values', 'draft'))), 'one whole value')
    const line = lineOf(await talk.history()).map((one) => String(at(one, 'values', 'draft')))
    same(t, line.slice(0, WRITERS), values, 'and each was the newest once')
  },

  async 'an update while a run is in flight'(t, talk, subject) {
    await talk.say('in')
    const before = await talk.written()
    const run = await talk.hang({ input: subject.input('later') })
    const [{ status }, { status: fork }] = await Promise.all([
      talk.update(subject.change('u1')),
      talk.update(subject.change('u2'), { checkpoint_id: checkpointOf((await talk.history()).at(-1)) })
    ])
    t.strictSame([status, fork], [409, 409])
    await talk.rollBack(run)
    t.strictSame(await talk.written(), before, 'nothing is written')
  },

  async 'a fork'(t, talk, subject) {
    await talk.say('in')
    const old = await talk.state()
    await talk.say('more')
    const names = ['forked 1', 'forked 2', 'forked 3']
    const base = { checkpoint_id: checkpointOf(old) }
    const answers = await Promise.all(names.map((name) => talk.update(subject.change(name), base)))
    t.strictSame(
      answers.map(({ status }) => status),
      [200, 200, 200],
      'forks need not wait for each other'
    )
    const forks = (await talk.history()).filter((one) => parentOf(one) === checkpointOf(old)).slice(0, 3)
    for (const fork of forks) t.equal(subject.written(at(fork, 'values')).length, FIRST.length + 1)
    const ends = forks.map((one) => subject.written(at(one, 'values')).at(-1)!)
    same(t, ends, names, 'each has what was written to it, and what it was made of')
  },

  async 'the answer to a question'(t, talk) {
    await talk.say('in', { ask: true })
    t.strictSame(await talk.asked(), ['which?'])
    await talk.answer('yes')
    t.strictSame(await talk.asked(), [])
    t.strictSame(await talk.written(), ['in', 'first after in', 'second was told yes'])
  },

  async 'a run that is rolled back'(t, talk, subject, scene) {
    await talk.say('in')
    const before = await talk.state()
    await talk.rollBack(await talk.hang({ input: subject.input('a secret') }))
    t.strictSame(at(await talk.state(), 'values'), at(before, 'values'))
    if (subject !== OURS) t.strictSame(await scene.tablesWith('a secret'), [], 'and it stands nowhere any more')
    await talk.say('more')
    const all = [...FIRST, 'more', 'first after more', 'second was told nothing']
    t.strictSame(await talk.written(), all, 'the next one goes on from what was before')
  },

  async 'a fork that is rolled back'(t, talk, subject) {
    await talk.say('in')
    const checkpoint_id = checkpointOf(await talk.state())
    await talk.say('more')
    const before = await talk.written()
    await talk.rollBack(await talk.hang({ input: subject.input('instead'), checkpoint_id }))
    t.strictSame(await talk.written(), before, 'the state is the one that was newest')
  },

  async 'an answer that is rolled back'(t, talk, _subject, scene) {
    await talk.say('in', { ask: true })
    const before = await talk.written()
    await talk.rollBack(await talk.hang({ command: { resume: 'a rolled back yes' } }))
    t.strictSame(await talk.written(), before)
    t.strictSame(await talk.asked(), ['which?'], 'it is asked again')
    t.strictSame(await scene.tablesWith('a rolled back yes'), [])
    await talk.answer('no')
    t.strictSame(await talk.written(), ['in', 'first after in', 'second was told no'])
  },

  async 'a copy'(t, talk, subject) {
    await talk.say('in', { ask: true })
    const copy = await talk.copy()
    t.strictSame(await copy.asked(), ['which?'])
    await copy.answer('yes')
    await talk.answer('no')
    t.strictSame(await copy.written(), ['in', 'first after in', 'second was told yes'], 'each goes on by itself')
    t.strictSame(await talk.written(), ['in', 'first after in', 'second was told no'])
    await copy.update(subject.change('u1'))
    t.strictSame(await copy.written(), ['in', 'first after in', 'second was told yes', 'u1'])
  },

  async 'copies while it is written'(t, talk, subject) {
    await talk.say('in')
    const names = Array.from({ length: 8 }, (_, n) => `u${n}`)
    const [copies] = await Promise.all([
      Promise.all(names.map(() => talk.copy())),
      ...names.map((name) => talk.update(subject.change(name))),
      talk.history()
    ])
    const states = new Set((await talk.history()).map((one) => JSON.stringify(subject.written(at(one, 'values')))))
    for (const copy of copies) {
      t.ok(states.has(JSON.stringify(await copy.written())), 'each is a state that the thread has had')
      t.ok((await copy.history()).length > 0)
    }
  },

  async 'a copy of a thread that runs'(t, talk, subject) {
    await talk.say('in')
    const run = await talk.hang({ input: subject.input('later') })
    const copies = await Promise.all(Array.from({ length: 3 }, () => talk.copy()))
    for (const copy of copies) t.strictSame((await copy.written()).slice(0, 3), FIRST)
    await talk.rollBack(run)
  },

  async pruning(t, talk, subject) {
    await talk.say('in')
    await talk.update(subject.change('u1'))
    await talk.say('more', { ask: true })
    const before = await talk.state()
    t.strictSame(await talk.prune(), { pruned_count: 1 })
    const told = ['values', 'next', 'checkpoint_id'] as const
    for (const member of told) t.strictSame(at(await talk.state(), member), at(before, member), member)
    t.strictSame(await talk.asked(), ['which?'])
    await talk.answer('yes')
    const all = [...FIRST, 'u1', 'more', 'first after more', 'second was told yes']
    same(t, await talk.written(), all, 'it goes on from there')
    await talk.prune()
    await talk.update(subject.change('u2'))
    await talk.prune()
    same(t, await talk.written(), [...all, 'u2'], 'as often as one likes')
  },

  async 'pruning while it is read'(t, talk, subject) {
    await talk.say('in')
    for (const name of ['u1', 'u2', 'u3']) await talk.update(subject.change(name))
    const expected = await talk.written()
    const reads = Array.from({ length: 10 }, async () => {
      t.strictSame(await talk.written(), expected)
      for (const one of await talk.history()) t.ok(at(one, 'values'))
    })
    await Promise.all([...reads, talk.prune(), talk.prune()])
    t.strictSame(await talk.written(), expected)
  },

  async 'supersteps of a new thread'(t, _talk, subject, { person }) {
    const asNode = subject === OURS ? {} : { as_node: 'first' }
    const supersteps = ['u1', 'u2', 'u3'].map((name) => ({ updates: [{ values: subject.change(name), ...asNode }] }))
    const metadata = { graph_id: subject.graph }
    const { status, body, text } = await person.post('/api/threads', { metadata, supersteps })
    t.equal(status, 200, text)
    const built = new Talk(person, subject, textIn(body, 'thread_id'))
    const values = at(await built.state(), 'values')
    const written = subject === OURS ? Object.keys(values as object).sort() : subject.written(values)
    t.strictSame(written, ['u1', 'u2', 'u3'])
    t.ok(lineOf(await built.history()).length >= 3, 'one after the other')
  }
}

// -------------------------------------------------------------------------------------------------------- on every store

interface Scene {
  readonly person: Person
  /** Tables of graphs in which a text stands. */
  tablesWith(text: string): Promise<string[]>
}

async function openScene(t: Test, subject: Subject, database: DatabaseSection): Promise<Scene> {
  const config = { database, memory: { enabled: false }, title: { enabled: false } }
  const site =
    subject === OURS
      ? await openSite(t, { agent: ours, config })
      : await openSite(t, {
          config: { ...config, agent: { runtime: 'graphs', config: graphsFolder(t, 'newest', GRAPHS) } }
        })
  return { person: await signIn(site), tablesWith: (text) => tablesWith(site, database, text) }
}

const TABLES = ['graph_checkpoints', 'graph_values', 'graph_writes']

async function tablesWith({ home }: Site, { backend, postgres_url }: DatabaseSection, text: string): Promise<string[]> {
  const isIn = (rows: readonly unknown[]) => JSON.stringify(rows).includes(text)
  if (backend === 'memory') return []
  if (backend === 'sqlite') {
    const db = connect(join(home, 'data', 'colloquy.db'))
    const found = TABLES.filter((table) => isIn(db.prepare(`SELECT * FROM ${table}`).all()))
    db.close()
    return found
  }
  const line = await PgConnection.open(postgres_url!)
  const found: string[] = []
  for (const table of TABLES) if (isIn(await line.rows(`SELECT * FROM ${table}`))) found.push(table)
  await line.close()
  return found
}

function nameOf({ graph, durability, about }: Subject): string {
  return [graph, durability && 'durability exit', about].filter(Boolean).join(', ')
}

/** Those that a run has a part in: updates know no durability. */
const OF_RUNS = /run|fork|answer|a copy$|pruning$/

async function onBackend(t: Test, backend: Backend): Promise<void> {
  // The rows of a memory store are SQLite's.
  const isShort = backend === 'memory'
  for (const subjects of KINDS) {
    const scene = await openScene(t, subjects[0]!, await databaseSection(t, backend))
    t.jobs = 4
    for (const subject of isShort
      ? subjects.filter(({ graph, durability }) => !durability && graph !== 'nested')
      : subjects)
      for (const [way, work] of Object.entries(WAYS).filter(([way]) => !subject.durability || OF_RUNS.test(way)))
        void t.test(`${nameOf(subject)}: ${way}`, async (t) => {
          await work(t, await Talk.begin(scene.person, subject), subject, scene)
        })
  }
}

for (const backend of BACKENDS)
  t.test(`every way to write a state (${backend})`, { timeout: 500_000 }, (t) => onBackend(t, backend))

t.test(
  'an update that others are always faster than is 409 after eight attempts, and a fork minds nobody',
  async (t) => {
    let [asked, faster] = [0, 2]
    const behind = (store: Store): Store => ({
      ...store,
      close: () => store.close(),
      apply: (groups) => store.apply(groups),
      graphStates: {
        load: (...of) => store.graphStates.load(...of),
        list: (...of) => store.graphStates.list(...of),
        nextPart: (...of) => store.graphStates.nextPart(...of),
        bodies: (...of) => store.graphStates.bodies(...of),
        // Somebody has changed the state since.
        version: async (threadId) => (asked++ < faster ? 'an older one' : store.graphStates.version(threadId))
      }
    })
    const subject = graphSubject('plain')
    const config = { agent: { runtime: 'graphs', config: graphsFolder(t, 'newest', GRAPHS) } }
    const talk = await Talk.begin(await signIn(await openSite(t, { config, behind })), subject)
    await talk.say('in')
    t.equal((await talk.update(subject.change('u1'))).status, 200, 'the third attempt is written')
    t.strictSame([asked, await talk.written()], [3, [...FIRST, 'u1']], 'once')
    ;[asked, faster] = [0, Number.POSITIVE_INFINITY]
    const { status, body } = await talk.update(subject.change('u2'))
    t.strictSame([status, asked], [409, 8])
    t.match(JSON.stringify(body), /was changed by others at the same time/)
    t.strictSame(await talk.written(), [...FIRST, 'u1'], 'and nothing is written')
    const base = { checkpoint_id: checkpointOf(await talk.state()) }
    t.equal((await talk.update(subject.change('forked'), base)).status, 200)
    t.strictSame(await talk.written(), [...FIRST, 'u1', 'forked'])
  }
)

t.test('a step of a graph with a long list stores what is new in the list, and not all of it', async (t) => {
  const subject = graphSubject('plain')
  const site = await openSite(t, {
    config: {
      database: { backend: 'sqlite' },
      agent: { runtime: 'graphs', config: graphsFolder(t, 'newest', GRAPHS) }
    }
  })
  const talk = await Talk.begin(await signIn(site), subject)
  const long = Array.from({ length: 1000 }, (_, no) => `item ${no}: ${'"words" '.repeat(40)}`)
  await talk.say('in')
  t.equal((await talk.update({ items: long })).status, 200)
  const db = connect(join(site.home, 'data', 'colloquy.db'))
  t.teardown(() => db.close())
  const stored = () => {
    const count = (sql: string) => db.prepare<[], number>(sql).pluck().get() ?? 0
    return (
      count('SELECT sum(length(name) + length(data)) FROM graph_values') +
      count('SELECT sum(length(checkpoint) + length(metadata) + length(names_json)) FROM graph_checkpoints')
    )
  }
  const before = stored()
  t.ok(before > 300_000, `${before} characters`)
  await talk.say('again')
  const steps = stored() - before
  t.comment(`a run of four steps took ${steps} characters beside ${before}`)
  t.ok(steps < 10_000, `${steps} characters`)
  const written = [...FIRST, ...long, 'again', 'first after again', FIRST[2]!]
  t.strictSame(await talk.written(), written)
})

if (BACKENDS.includes('postgres'))
  t.test('updates of two processes at once are all in the state', { timeout: 300_000 }, async (t) => {
    const folder = graphsFolder(t, 'newest', GRAPHS)
    const { onA, onB } = await startPair(t, { config: { agent: { runtime: 'graphs', config: folder } } })
    for (const graph of Object.keys(GRAPHS)) {
      const subject = graphSubject(graph)
      const talk = await Talk.begin(onA, subject)
      await talk.say('in')
      const names = Array.from({ length: WRITERS }, (_, n) => `u${n}`)
      const answers = await Promise.all(
        names.map((name, n) => (n % 2 ? talk : talk.by(onB)).update(subject.change(name)))
      )
      t.strictSame([...new Set(answers.map(({ status }) => status))], [200], graph)
      same(t, await talk.written(), [...FIRST, ...names], `${graph}: each once`)
      t.equal(at(await talk.state(), 'values', 'sum'), WRITERS + 2, `${graph}: the sum of all`)
      t.ok(lineOf(await talk.history()).length >= WRITERS + 1, `${graph}: in one line`)
    }
  })
