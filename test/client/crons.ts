// Crons as LangGraph's clients make them, and the runs that come of them: one a turn, whoever starts, stops and dies meanwhile.
import { join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t, { type Test } from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { openStore } from '../../lib/store/open.ts'
import { loadConfig } from '../../lib/config/config.ts'
import { timestamp } from '../../lib/base/types.ts'
import { systemAssistantId } from '../../lib/thread/assistants.ts'
import { write } from '../contract/harness.ts'
import { databaseSection, type DatabaseSection } from '../fixtures/backends.ts'
import {
  asked,
  at,
  configFile,
  homeOf,
  listIn,
  openSite,
  type Options,
  type Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { PYTHON, PYTHON_MISSING, pythonFolder, SMALL } from '../fixtures/python-graphs.ts'
import { probes, refusal } from '../fixtures/sdk.ts'

const probe = probes(t)
const says = asked('/demo deltas=1 rate=0')

probe('a cron is created, found, counted, changed and deleted', async (t, { client, version }) => {
  const { crons } = client
  const made = await crons.create('lead_agent', { ...says, schedule: '*/5 * * * *', metadata: { topic: 'a' } })
  t.match(made, { cron_id: String, schedule: '*/5 * * * *', metadata: { topic: 'a' }, payload: { input: Object } })
  t.match(textIn(made, 'next_run_date'), /:[0-5][05]:00\.000\+00:00$/)
  const { thread_id } = await client.threads.create()
  const ofThread = await crons.createForThread(thread_id, 'lead_agent', { ...says, schedule: '0 12 * * 1' })
  t.equal(at(ofThread, 'thread_id'), thread_id)
  const idsOf = async (query: object) => (await crons.search(query)).map(({ cron_id }) => cron_id)
  const [one, two] = [textIn(made, 'cron_id'), textIn(ofThread, 'cron_id')]
  t.same(await idsOf({}), [two, one], 'the newest first')
  t.same(await idsOf({ threadId: thread_id }), [two])
  t.same(await idsOf({ assistantId: 'lead_agent', limit: 1, offset: 1 }), [one])
  t.same(await idsOf({ assistantId: systemAssistantId('lead_agent') }), [two, one], 'by the id of its assistant too')
  t.same(await idsOf({ assistantId: 'other' }), [])
  // Older clients ignore it.
  if (version === '1.12.4' || version === '1.15.0') t.same(await idsOf({ metadata: { topic: 'a' } }), [one])
  t.equal(await crons.count({ threadId: thread_id }), 1)
  if ('update' in crons) {
    const changed = await crons.update(one, { schedule: '0 0 * * *', enabled: false })
    t.match(changed, { schedule: '0 0 * * *', enabled: false, next_run_date: null, metadata: { topic: 'a' } })
    t.match((await crons.update(one, { enabled: true })).next_run_date, /T00:00:00/)
  }
  await crons.delete(one)
  t.same(await idsOf({}), [two])
  t.equal(await refusal(crons.delete(one)), 404)
})

probe('a schedule that is none, or never comes, is refused', async (t, { client: { crons } }) => {
  for (const schedule of ['', 'x', '* * * * * *', '61 * * * *', '0 0 31 2 *', '* * * *', '9'.repeat(300)])
    t.equal(await refusal(crons.create('lead_agent', { ...says, schedule })), 422, schedule.slice(0, 20))
  t.equal(await refusal(crons.createForThread('nowhere', 'lead_agent', { ...says, schedule: '* * * * *' })), 404)
})

t.test('as whom the runs of a cron are started is told to nobody', async (t) => {
  const ada = await signIn(await openSite(t), 'ada')
  const { body } = await ada.post('/api/v1/auth/tokens', { scopes: ['runs:create', 'runs:read'] })
  const { crons } = new Client({ apiUrl: `${ada.url}/api`, apiKey: textIn(body, 'token') })
  const made = await crons.create('lead_agent', { ...says, schedule: '0 0 * * *' })
  const changed = await crons.update(textIn(made, 'cron_id'), { enabled: false })
  const [found] = await crons.search()
  for (const shown of [made, changed, found])
    t.strictSame(Object.keys(Object(at(shown, 'payload'))).sort(), ['assistant_id', 'input'])
})

t.test('crons are their user’s alone, and no more than one may have', async (t) => {
  const site = await openSite(t, { config: { crons: { per_user: 2 } } })
  const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
  const create = (person: Person, more: object = {}) =>
    person.post('/api/runs/crons', { schedule: '0 0 * * *', ...more })
  const id = textIn((await create(ada)).body, 'cron_id')
  t.equal((await create(ada)).status, 200)
  t.equal((await create(ada)).status, 409)
  t.same((await bob.post('/api/runs/crons/search')).body, [])
  t.equal((await bob.ask('PATCH', `/api/runs/crons/${id}`, { body: { enabled: false } })).status, 404)
  t.equal((await bob.ask('DELETE', `/api/runs/crons/${id}`)).status, 404)
  const thread = await ada.thread()
  t.equal((await bob.post(`/api/threads/${thread}/runs/crons`, { schedule: '0 0 * * *' })).status, 404)
  const refused: [object, RegExp][] = [
    [{ timezone: 'No/Where' }, /timezone/],
    [{ end_time: 'soon' }, /ISO-8601/],
    [{ on_run_completed: 'burn' }, /literal_error/],
    [{ input: [] }, /dict_type/],
    [{ webhook: 'ftp://x' }, /http or https/]
  ]
  for (const [more, text] of refused) {
    const answer = await create(bob, more)
    t.equal(answer.status, 422)
    t.match(answer.text, text)
  }
  t.match((await create(bob, { timezone: 'America/New_York' })).body, { next_run_date: /T0[45]:00:00/ })
})

/** A site that has stopped, with a cron that was due in four minutes up to this one, and is again in an hour: no minute that begins counts. */
async function lateCron(t: Test, database: DatabaseSection, body: object, ofThread = false, more: Options = {}) {
  const home = homeOf(t)
  const config = {
    ...more,
    database,
    title: { enabled: false },
    memory: { enabled: false },
    runs: { temporary_grace_ms: 200 }
  }
  const site = await openSite(t, { home, config })
  const person = await signIn(site)
  const path = ofThread ? `/api/threads/${await person.thread()}/runs/crons` : '/api/runs/crons'
  const now = Date.now()
  const minutes = [3, 2, 1, 0].map((ago) => new Date(now - ago * 60_000).getUTCMinutes())
  const cron = (await person.post(path, { ...says, schedule: `${minutes} * * * *`, ...body })).body
  await site.stop()
  const loaded = loadConfig({ file: configFile(home, config), home, port: 0, env: {}, cwd: home })
  const store = await openStore(loaded, () => {})
  const due = timestamp(now - (now % 60_000) - 180_000)
  const cron_id = textIn(cron, 'cron_id')
  await write(store, { name: 'cron.update', cron_id, set: { next_run_date: due }, user: null, now: due })
  await store.close()
  return { home, config, person, cron_id, due, threadId: at(cron, 'thread_id') }
}

t.test('what was missed while nobody was there runs once, is said, and the next turn is in the future', async (t) => {
  const late = await lateCron(t, { backend: 'sqlite' }, { on_run_completed: 'keep', metadata: { topic: 'news' } })
  const site = await openSite(t, late)
  late.person.url = site.url
  const runsOf = async () => {
    const threads = listIn((await late.person.post('/api/threads/search', { metadata: { topic: 'news' } })).body)
    const lists = threads.map(async (thread) =>
      listIn((await late.person.get(`/api/threads/${textIn(thread, 'thread_id')}/runs`)).body)
    )
    return (await Promise.all(lists)).flat()
  }
  await until(async () => at((await runsOf())[0], 'status') === 'success', 'the run of the cron')
  t.match(await runsOf(), [{ metadata: { topic: 'news', cron_id: late.cron_id }, assistant_id: null }])
  const said = site.logged.find(([, , text]) => text.includes('a cron is late'))
  t.match(said, ['warn', { cron_id: late.cron_id, due: late.due, missed: 3 }])
  const [cron] = listIn((await late.person.post('/api/runs/crons/search')).body)
  t.ok(Date.parse(textIn(cron, 'next_run_date')) > Date.parse(late.due) + 180_000)
})

t.test('a thread that was made for one turn goes with it, unless it is to be kept', async (t) => {
  const late = await lateCron(t, { backend: 'sqlite' }, {})
  const site = await openSite(t, late)
  late.person.url = site.url
  const started = () => site.logged.find(([, , text]) => text === 'a cron has started a run')
  await until(() => started() !== undefined, 'the run of the cron')
  const threadId = textIn(started()![1], 'thread_id')
  await until(async () => (await late.person.get(`/api/threads/${threadId}/runs`)).text === '[]', 'the thread is gone')
  t.same((await late.person.post('/api/threads/search')).body, [])
})

t.test(
  'a cron of a graph in Python is due by the clock, runs it, and its thread goes on',
  { skip: PYTHON_MISSING },
  async (t) => {
    const agent = { runtime: 'graphs', config: pythonFolder(t, SMALL), python: PYTHON }
    const asked = (content: string) => ({ assistant_id: 'agent', input: { messages: [{ role: 'user', content }] } })
    const late = await lateCron(t, { backend: 'sqlite' }, asked('hi'), true, { agent })
    const site = await openSite(t, late)
    late.person.url = site.url
    const path = `/api/threads/${String(late.threadId)}`
    const runs = async () => listIn((await late.person.get(`${path}/runs`)).body)
    const status = async () => String(at((await runs())[0], 'status'))
    // A process with LangGraph in it is loaded twice, beside others.
    await until(async () => !['undefined', 'pending', 'running'].includes(await status()), 'its run', 120_000)
    t.match(await runs(), [{ status: 'success', error: null, metadata: { cron_id: late.cron_id } }])
    const said = (body: unknown) => listIn(body, 'messages').map((one) => at(one, 'content'))
    const { body } = await late.person.get(`${path}/state`)
    t.strictSame(said(at(body, 'values')), ['hi', 'one two three'])
    t.match(at(body, 'next'), [])
    const next = await late.person.post(`${path}/runs/wait`, asked('more'))
    t.strictSame(said(next.body), ['hi', 'one two three', 'more', 'one two three'])
  }
)

t.test('a cron of a thread that is gone goes, one whose run is refused comes again', async (t) => {
  const late = await lateCron(t, { backend: 'sqlite' }, {}, true)
  const site = await openSite(t, late)
  late.person.url = site.url
  const runs = async () => listIn((await late.person.get(`/api/threads/${late.threadId}/runs`)).body)
  await until(async () => (await runs()).length === 1, 'the run of the cron')
  await site.stop()
  const store = await openStore(
    loadConfig({ file: configFile(late.home, late.config), home: late.home, port: 0, env: {}, cwd: late.home }),
    () => {}
  )
  const { cron_id, due } = late
  await write(store, { name: 'cron.update', cron_id, set: { next_run_date: due }, user: null, now: due })
  await write(store, { name: 'thread.remove', thread_id: String(late.threadId), user: null })
  await store.close()
  const again = await openSite(t, late)
  late.person.url = again.url
  await until(async () => (await late.person.post('/api/runs/crons/search')).text === '[]', 'the cron is gone')
})

t.test('two processes that start the same cron start one run', async (t) => {
  const database = await databaseSection(t, 'postgres')
  const late = await lateCron(t, database, { on_run_completed: 'keep', metadata: { topic: 'pair' } })
  // The home is of one of them: with PostgreSQL two may share it.
  const sites = await Promise.all([openSite(t, late), openSite(t, late)])
  late.person.url = sites[0].url
  const threads = async () =>
    listIn((await late.person.post('/api/threads/search', { metadata: { topic: 'pair' } })).body)
  await until(async () => (await threads()).length > 0, 'the run of the cron')
  const started = () =>
    sites.flatMap(({ logged }) => logged).filter(([, , text]) => text === 'a cron has started a run')
  await until(() => started().length > 0, 'one of them says so')
  const isAdvanced = async () => {
    const [cron] = listIn((await late.person.post('/api/runs/crons/search')).body)
    return Date.parse(textIn(cron, 'next_run_date')) > Date.parse(late.due)
  }
  await until(isAdvanced, 'its next turn')
  t.strictSame(
    started().map(([, fields]) => at(fields, 'due')),
    [late.due]
  )
})

t.test('a turn whose claim was lost before its run was stored starts one run all the same', async (t) => {
  const late = await lateCron(t, { backend: 'sqlite' }, { on_run_completed: 'keep', metadata: { topic: 'lost' } })
  let lost = 0
  const site = await openSite(t, {
    ...late,
    behind: (store) => ({
      ...store,
      async apply(groups) {
        const isTurn = groups.some(({ ops }) => ops.some((op) => op.name === 'run.create' && op.run.metadata.cron_id))
        if (isTurn && lost++ === 0) {
          // Somebody else has it now, who is gone before doing anything.
          const db = new Sqlite(join(late.home, 'data/colloquy.db'))
          db.exec("UPDATE jobs SET owner = 'somebody else' WHERE kind = 'turn'")
          db.close()
        }
        return store.apply(groups)
      }
    })
  })
  late.person.url = site.url
  const started = () => site.logged.filter(([, , text]) => text === 'a cron has started a run')
  const next = async () => textIn(listIn((await late.person.post('/api/runs/crons/search')).body)[0], 'next_run_date')
  await until(async () => Date.parse(await next()) > Date.parse(late.due), 'its next turn')
  t.equal(lost, 2, 'it was claimed twice')
  const threads = listIn((await late.person.post('/api/threads/search', { metadata: { topic: 'lost' } })).body)
  t.equal(threads.length, 1, 'and the refused run has left no thread')
  t.equal(started().length, 1)
})

t.test('a cron that ends before its first turn is refused', async (t) => {
  const person = await signIn(await openSite(t))
  const create = (body: object) => person.post('/api/runs/crons', { schedule: '0 0 * * *', ...body })
  t.equal((await create({ end_time: new Date(Date.now() - 1000).toISOString() })).status, 422)
  t.equal((await create({ end_time: new Date(Date.now() - 1000).toISOString(), enabled: false })).status, 422)
  t.equal((await create({ end_time: new Date(Date.now() + 1000).toISOString(), schedule: '0 0 29 2 *' })).status, 422)
  const { body } = await create({ end_time: new Date(Date.now() + 172_800_000).toISOString() })
  const path = `/api/runs/crons/${textIn(body, 'cron_id')}`
  t.equal((await person.ask('PATCH', path, { body: { end_time: '2020-01-01T00:00:00Z' } })).status, 422)
})

t.test('the crons of a user who is gone start nothing more, and go', async (t) => {
  const late = await lateCron(t, { backend: 'sqlite' }, {})
  const db = new Sqlite(join(late.home, 'data/colloquy.db'))
  db.exec('DELETE FROM users')
  db.close()
  const site = await openSite(t, late)
  const left = () => {
    const now = new Sqlite(join(late.home, 'data/colloquy.db'), { readonly: true })
    const rows = now.prepare('SELECT (SELECT count(*) FROM crons) + (SELECT count(*) FROM jobs)').pluck().get()
    const runs = now.prepare('SELECT count(*) FROM runs').pluck().get()
    now.close()
    return [rows, runs]
  }
  await until(() => left()[0] === 0, 'the cron is gone')
  t.same(left(), [0, 0])
  await site.stop()
})

t.test('a turn that a clock ahead has set is set again, and not silent until then', async (t) => {
  const late = await lateCron(t, { backend: 'sqlite' }, {})
  const db = new Sqlite(join(late.home, 'data/colloquy.db'))
  db.exec("UPDATE jobs SET due_at = '2126-01-01T00:00:00.000+00:00', set_at = '2125-12-31T23:59:00.000+00:00'")
  db.close()
  const site = await openSite(t, late)
  late.person.url = site.url
  const next = async () => {
    const [cron] = listIn((await late.person.post('/api/runs/crons/search')).body)
    return Date.parse(textIn(cron, 'next_run_date'))
  }
  await until(async () => (await next()) < Date.now() + 7_200_000, 'its next turn is the one of its schedule')
})
