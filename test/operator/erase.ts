// Erasing: of an account that is erased no byte is left, in no row, no log of the database and no file, but its id in the audit.
import t, { type Test } from 'tap'
import { departureDeed, departureOf } from '../../lib/jobs/departures.ts'
import type { Job, Op } from '../../lib/store/store.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { command } from '../fixtures/child.ts'
import { upload } from '../fixtures/form.ts'
import {
  asked,
  homeOf,
  listIn,
  type Options,
  openSite,
  PASSWORD,
  Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { threadLife } from '../fixtures/life.ts'
import { filesWith } from '../fixtures/remains.ts'
import { tablesNaming, tablesOf } from '../fixtures/rows.ts'

const USERS = '/api/v1/admin/users'

async function accountOf(person: Person) {
  const { body } = await person.get('/api/v1/auth/me')
  return { id: textIn(body, 'id'), email: textIn(body, 'email') }
}

/** A life with words that nobody else has said. */
async function lifeOf(person: Person, word: string): Promise<string[]> {
  const thread = await threadLife(person)
  const texts = ['said', 'title', 'note', 'told'].map((what) => `${word}${what}`)
  const [said, title, note, told] = texts
  await person.post(`/api/threads/${thread}/runs/wait`, asked(`/demo deltas=3 rate=0 ${said}`))
  await person.post(`/api/threads/${thread}/state`, { values: { title } })
  await person.ask('PATCH', `/api/threads/${thread}`, { body: { metadata: { about: title } } })
  await upload(person, thread, [[`${note}.txt`, note!]])
  await person.post('/api/memory/import', { facts: [{ content: told, source: thread }] })
  await named(person, thread, `${word}named`)
  return [thread, ...texts, `${word}named`]
}

/** Whatever of theirs people call by words of their own. */
async function named(person: Person, thread: string, name: string): Promise<void> {
  const path = `/api/threads/${thread}`
  const says = (more: Options = {}) => asked('/demo deltas=1 rate=0', more)
  await person.post('/api/agents', { name, description: name, soul: name })
  const runs = async (more: Options) => {
    const { status } = await person.post(`${path}/runs/wait`, says(more))
    if (status !== 200) throw new Error(`answered ${status}: ${JSON.stringify(more)}`)
  }
  await runs({ assistant_id: name, metadata: { about: name } })
  await runs({ assistant_id: `${name}-none` })
  await person.post('/api/agents', { name: `${name}-gone` })
  await runs({ assistant_id: `${name}-gone` })
  await person.ask('DELETE', `/api/agents/${name}-gone`)
  const headers = { 'idempotency-key': name }
  await person.post(`${path}/runs/wait`, says(), { headers })
  await person.post('/api/runs/crons', says({ schedule: '0 0 29 2 *', metadata: { about: name } }))
  await person.ask('PUT', '/api/store/items', { body: { namespace: [name], key: name, value: { said: name } } })
  await person.ask('PUT', `${path}/goal`, { body: { objective: name } })
  await person.post('/api/v1/auth/tokens', { name })
  await person.post('/api/ai/chat', {
    id: name,
    messages: [{ id: name, role: 'user', parts: [{ type: 'text', text: `/demo deltas=1 rate=0 ${name}` }] }]
  })
  await person.post('/api/agui/lead_agent', {
    threadId: `${name}-thread`,
    runId: `${name}-run`,
    messages: [{ id: `${name}-message`, role: 'user', content: '/demo deltas=1 rate=0' }]
  })
  await person.post('/v1/responses', { input: `/demo deltas=1 rate=0 ${name}`, metadata: { about: name } })
  await person.post('/v1/chat/completions', { messages: [{ role: 'user', content: `/demo deltas=1 rate=0 ${name}` }] })
}

interface House {
  readonly backend: 'sqlite' | 'postgres'
  readonly events: 'db' | 'jsonl'
}
const HOUSES: readonly House[] = [
  { backend: 'sqlite', events: 'db' },
  { backend: 'sqlite', events: 'jsonl' },
  { backend: 'postgres', events: 'db' }
]

async function houseOf(t: Test, { backend, events }: House) {
  const database = await databaseSection(t, backend)
  const home = homeOf(t)
  const config = { database, run_events: { backend: events }, memory: { enabled: true } }
  const site = await openSite(t, { home, config })
  const [ann, bob] = [await signIn(site, 'ann'), await signIn(site, 'bob')]
  const account = await accountOf(ann)
  const [hers, his] = [await lifeOf(ann, 'zebra'), await lifeOf(bob, 'lion')]
  const wanted = [account.id, account.email, ...hers]
  const rowsWith = async (texts: readonly string[]) => {
    const tables = new Map(await tablesOf(home, database))
    const lines = (tables.get('audit') ?? []).map((row) => row.replaceAll(`user:${account.id}`, ''))
    return tablesNaming(tables.set('audit', lines), texts)
  }
  return { home, site, bob, account, wanted, his, database, rowsWith }
}

/** Of SQLite's file too; but the audit names the account by its id. */
async function isErased(t: Test, { home, account, wanted, his, rowsWith }: Awaited<ReturnType<typeof houseOf>>) {
  t.strictSame(await rowsWith(wanted), [])
  const words = wanted.filter((text) => text !== account.id)
  t.strictSame(filesWith(home, words), [], 'no byte is left in any file')
  t.strictSame(
    filesWith(home, [account.id]).filter((name) => !/colloquy\.db(-wal)?$/.test(name)),
    []
  )
  t.ok((await rowsWith(his)).length > 3, 'others keep what they have')
}

for (const house of HOUSES) {
  const { backend, events } = house
  t.test(`of who is erased nothing is left, also where no server runs (${backend}, events in ${events})`, async (t) => {
    const place = await houseOf(t, house)
    const { home, site, account, wanted } = place
    await until(() => site.sizes().uncompacted === 0, 'frames are compacted')
    await site.stop()
    t.ok((await place.rowsWith(wanted)).length > 5)
    t.ok(filesWith(home, wanted).some((name) => name.includes('uploads')))
    t.match(await command(home, 'user', 'erase', account.email, '--json'), {
      code: 0,
      out: `{"id":"${account.id}","email":"${account.email}","copies":[]}\n`
    })
    await isErased(t, place)
    t.match(await command(home, 'user', 'erase', account.email), { code: 1, errors: /./ })
    const { out } = await command(home, 'audit', '--user', account.id, '--json')
    const lines = out.trim().split('\n')
    t.match(JSON.parse(lines[0]!), { action: 'account_erased', actor: 'operator', target: `user:${account.id}` })
    t.notMatch(out, /127\.0\.0\.1|@/, 'without addresses')
  })
}

t.test('beside a running server it does the work: the command waits, and the route says which job it is', async (t) => {
  const place = await houseOf(t, HOUSES[0]!)
  const { home, site, bob, account, wanted } = place
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const boss = await accountOf(admin)
  /** The second look would be half a minute later. */
  const isDone = async (id: string, texts: readonly string[]) => {
    const left = async () => (await place.rowsWith([id, ...texts])).filter((table) => table !== 'audit').join()
    // Deleted words stand in their index until its parts are merged.
    await until(
      async () => ['', 'jobs', 'jobs,search_words_data'].includes(await left()),
      'there is nothing but the job that looks again'
    )
    // Or it has looked again already.
    await command(home, 'jobs', 'retry', 'departure', id)
    await until(async () => (await left()) === '', 'the job is gone')
  }
  const erasing = command(home, 'user', 'erase', account.email)
  await until(async () => (await admin.get(`${USERS}/${account.id}`)).status === 404, 'the account is gone')
  await isDone(account.id, wanted)
  t.match(await erasing, { code: 0, out: `Nothing of ${account.email} is left but ${account.id} in the audit` })
  await isErased(t, place)

  const his = await accountOf(bob)
  const answer = await admin.post(`${USERS}/${his.id}/erase`)
  t.match(answer, { status: 202, body: { success: true, job: { kind: 'departure', key: his.id } } })
  t.equal((await bob.get('/api/v1/auth/me')).status, 401)
  await isDone(his.id, place.his)
  const { body } = await admin.get(`/api/v1/admin/audit?user_id=${his.id}`)
  t.match(listIn(body, 'entries')[0], {
    action: 'account_erased',
    actor: `user:${boss.id}`,
    target: `user:${his.id}`,
    address: null
  })
  const words = place.his.slice(1)
  await until(() => filesWith(home, words).length === 0, 'the log of the database is emptied by itself')
  t.equal((await admin.post(`${USERS}/${boss.id}/erase`)).status, 409, 'but never the last administrator')
})

t.test('the line of the audit is written with the end of the job: both or neither', async (t) => {
  const groups: (readonly Op[])[] = []
  const entry = { at: '', action: 'account_erased', actor: 'operator', target: null, address: null, request_id: null }
  const deed = departureDeed({
    isHeld: async () => false,
    threadsOf: async () => [],
    removeThread: async () => {},
    agents: () => [],
    forget: async () => false,
    purge: async () => {},
    erased: () => ({ name: 'audit.add', entry: { ...entry, details: {} } }),
    write: async (ops) => groups.push(ops)
  })
  const { due: _, ...made } = departureOf('ann', { actor: 'operator', request_id: null })
  // What the deed reads of a job.
  await deed({ ...made, owner: 'self', attempts: 1 } as unknown as Job)
  t.strictSame(
    groups.map((ops) => ops.map(({ name }) => name)),
    [['user.forget', 'audit.add', 'job.finish']]
  )
})
