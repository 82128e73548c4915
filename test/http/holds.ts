// Legal holds over HTTP and the command line: whatever deletes something of a held thread or user refuses, or passes over it.
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Backend, BACKENDS, databaseSection, type DatabaseSection, onEachBackend } from '../fixtures/backends.ts'
import { command } from '../fixtures/child.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { upload } from '../fixtures/form.ts'
import {
  asked,
  at,
  homeOf,
  listIn,
  type Options,
  openSite,
  PASSWORD,
  Person,
  type Site,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { FOREIGN } from '../fixtures/openapi.ts'
import { ask, places, SECRET, statusOf } from '../fixtures/place.ts'
import { filesWith } from '../fixtures/remains.ts'
import { tablesOf } from '../fixtures/rows.ts'

const HOLDS = '/api/v1/admin/holds'
const HELD = { status: 409, body: { detail: /legal hold/ } }
const reason = 'Case 42'
/** Stores that a second process can open. */
const SHARED = BACKENDS.filter((one) => one !== 'memory')

/** Tables whose rows go for other reasons than that somebody deletes something; of an assistant every version stays. */
const PASSING =
  /^(frames|jobs|holds|writers|search_.*|quota_.*|assistants|api_tokens|push_.*|share_.*|thread_links|.*sessions)$/
const CREDENTIAL = 'a credential'

/** Routes that delete nothing which a hold keeps, and why. */
const FREE: Readonly<Record<string, string>> = {
  'DELETE /api/v1/auth/me': 'asked with the right password below',
  'DELETE /api/v1/auth/tokens/{token_id}': CREDENTIAL,
  'DELETE /api/v1/auth/sessions/{session_id}': CREDENTIAL,
  'DELETE /api/v1/auth/push/subscriptions/{subscription_id}': 'where a browser is told',
  'DELETE /api/threads/{thread_id}/links/{link_id}': CREDENTIAL,
  'DELETE /api/threads/{thread_id}/goal': 'a new state, and the earlier ones stay',
  'DELETE /a2a/{agent}/tasks/{task}/pushNotificationConfigs/{config}': 'where a client is told',
  'DELETE /api/ai/chat/{id}/stream': 'ends a run, which stays'
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: object }>>>>
}

function documented(paths: Document['paths'], name: string): boolean {
  const [method = '', path = ''] = name.split(' ')
  return Object.hasOwn(paths[path]?.[method.toLowerCase()]?.responses ?? {}, '409')
}

async function siteOf(t: Test, backend: Backend, config: Options = {}, home = homeOf(t)) {
  const database = await databaseSection(t, backend)
  const site = await openSite(t, { home, config: { database, ...config } })
  const admin = await adminOf(site)
  return { site, home, database, admin }
}

async function adminOf(site: Site): Promise<Person> {
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  return admin
}

async function signedIn(site: Site, name: string) {
  const person = await signIn(site, name)
  const { id, email } = (await person.get('/api/v1/auth/me')).body as { id: string; email: string }
  return { person, id, email }
}

async function hold(admin: Person, about: object): Promise<string> {
  return textIn((await admin.post(HOLDS, { ...about, reason })).body, 'hold_id')
}

onEachBackend(
  t,
  'every route that deletes refuses what is held, and deletes it when the hold is lifted',
  async (t, backend) => {
    const { site, admin } = await siteOf(t, backend)
    const { person, id } = await signedIn(site, 'ann')
    const placeOf = places(person, backend)
    const names = Object.keys(EXPECTED).filter(
      (name) => name.startsWith('DELETE ') && EXPECTED[name]?.reach !== 'admin'
    )
    t.ok(names.length > 15)
    const { paths } = (await person.get('/openapi.json')).body as Document
    for (const name of names.filter((one) => !(one in FREE))) {
      const place = { ...(await placeOf(name)) }
      const there = name.includes('/copilotkit/') ? { ...place, id: await person.thread() } : place
      const held = await hold(admin, { user_id: id })
      const { status, body } = await ask(person, name, there)
      t.match({ status, ...(!FOREIGN.has(name) && { body }) }, FOREIGN.has(name) ? { status: 409 } : HELD, name)
      t.ok(documented(paths, name), `${name} is documented with it`)
      await admin.ask('DELETE', `${HOLDS}/${held}`)
      const allowed = name.includes('/copilotkit/') ? 200 : statusOf(EXPECTED[name]!, backend)
      t.equal((await ask(person, name, there)).status, allowed, `${name} afterwards`)
    }
  },
  SHARED
)

/** How much of each table and of the files is there, and how much of it has the secret in it. */
async function kept(home: string, database: DatabaseSection) {
  const tables = [...(await tablesOf(home, database))].filter(([table]) => !PASSING.test(table))
  const [text, digits] = [SECRET, Buffer.from(SECRET).toString('hex')]
  const counts = tables.flatMap(([table, rows]) => [
    [table, rows.length] as const,
    [`${table} with it`, rows.filter((row) => row.includes(text) || row.includes(digits)).length] as const
  ])
  return new Map([...counts, ['files', filesWith(home, [SECRET]).filter((file) => !file.startsWith('data/')).length]])
}

const ITEM = { namespace: ['own'], key: 'k', value: { SECRET } }

onEachBackend(
  t,
  'no route takes away or replaces what is stored of who is held',
  async (t, backend) => {
    const { site, admin, home, database } = await siteOf(t, backend)
    const { person, id } = await signedIn(site, 'ann')
    const placeOf = places(person, backend)
    const isHis = (name: string) => !name.startsWith('GET ') && !['admin', 'public'].includes(EXPECTED[name]!.reach)
    const names = Object.keys(EXPECTED).filter((name) => isHis(name) && FREE[name] !== CREDENTIAL)
    t.ok(names.length > 60)
    for (const name of names) {
      const place = await placeOf(name)
      await person.ask('PUT', '/api/store/items', { body: ITEM })
      const held = await hold(admin, { user_id: id })
      const before = await kept(home, database)
      await ask(person, name, place)
      const after = await kept(home, database)
      const lost = [...before].filter(([what, count]) => (after.get(what) ?? 0) < count)
      t.strictSame(lost, [], name)
      await admin.ask('DELETE', `${HOLDS}/${held}`)
    }
  },
  SHARED
)

t.test('of who is held a schedule is paused, and the same may be said again', async (t) => {
  const { site, admin } = await siteOf(t, 'sqlite')
  const { person, id } = await signedIn(site, 'ann')
  const schedule = { schedule: '0 0 1 1 *', metadata: { about: 'x' } }
  const cron = `/api/runs/crons/${textIn((await person.post('/api/runs/crons', schedule)).body, 'cron_id')}`
  const item = { namespace: ['own'], key: 'k', value: { said: 'x' } }
  const put = (value: object) => person.ask('PUT', '/api/store/items', { body: { ...item, value } })
  await put(item.value)
  await hold(admin, { user_id: id })
  t.match(await person.ask('PATCH', cron, { body: { enabled: false, metadata: { about: 'x' } } }), { status: 200 })
  t.match(await person.ask('PATCH', cron, { body: { input: { said: 'y' } } }), HELD)
  t.equal((await put(item.value)).status, 204)
  t.match(await put({ said: 'y' }), HELD)
  t.equal((await person.ask('PUT', '/api/store/items', { body: { ...item, key: 'another' } })).status, 204)
})

onEachBackend(
  t,
  'other ways to lose what is held are refused, and runs go on',
  async (t, backend) => {
    const { site, admin } = await siteOf(t, backend)
    const { person, id, email } = await signedIn(site, 'ann')
    const other = await signedIn(site, 'bob')
    const thread = await person.thread()
    const path = `/api/threads/${thread}`
    await person.post(`${path}/runs/wait`, asked('/demo deltas=1 rate=0'))
    const run = await person.run(thread, '/demo deltas=9999 rate=30')
    for (const about of [{ thread_id: thread }, { user_id: id }]) {
      const held = await hold(admin, about)
      const refused = {
        'DELETE thread': () => person.ask('DELETE', path),
        prune: () => person.post('/api/threads/prune', { thread_ids: [thread] }),
        'prune keep_latest': () => person.post('/api/threads/prune', { thread_ids: [thread], strategy: 'keep_latest' }),
        'DELETE run in flight': () => person.ask('DELETE', run),
        'cancel with rollback': () => person.post(`${run}/cancel?action=rollback`, {}),
        'a run that rolls back': () => person.post(`${path}/runs`, asked('hello', { multitask_strategy: 'rollback' })),
        'cancel at once with rollback': () =>
          person.post('/api/runs/cancel?action=rollback', { thread_id: thread, run_ids: [run.split('/').at(-1)] }),
        'DELETE account': () => admin.ask('DELETE', `/api/v1/admin/users/${id}`),
        erase: () => admin.post(`/api/v1/admin/users/${id}/erase`, {}),
        'DELETE me': () => person.ask('DELETE', '/api/v1/auth/me', { body: { current_password: PASSWORD } })
      }
      for (const [name, work] of Object.entries(refused)) {
        // Skips a thread with a run in flight before it asks.
        if (name === 'prune keep_latest') continue
        t.match(await work(), HELD, `${name}: ${Object.keys(about)}`)
      }
      t.match(await person.get(run), { body: { status: 'running' } }, 'the run was not ended for it')
      t.equal((await person.get('/api/v1/auth/me')).status, 200, 'nobody is signed out')
      t.equal((await other.person.ask('DELETE', `/api/threads/${await other.person.thread()}`)).status, 200)
      await admin.ask('DELETE', `${HOLDS}/${held}`)
    }
    const free = await person.thread()
    const heldThread = await hold(admin, { thread_id: thread })
    t.match(await person.post('/api/threads/prune', { thread_ids: [free, thread] }), HELD)
    t.equal((await person.get(`/api/threads/${free}`)).status, 200, 'a prune is refused as a whole')
    await admin.ask('DELETE', `${HOLDS}/${heldThread}`)

    const held = await hold(admin, { user_id: id })
    t.match(await person.post('/api/memory/import', { facts: [] }), { status: /409|422/ })
    await person.post(`${run}/cancel?wait=true`, {})
    const keepLatest = () => person.post('/api/threads/prune', { thread_ids: [thread], strategy: 'keep_latest' })
    t.match(await keepLatest(), HELD)
    await admin.ask('DELETE', `${HOLDS}/${held}`)
    t.match(await keepLatest(), { status: 200, body: { pruned_count: 1 } })
    t.equal((await admin.post(`/api/v1/admin/users/${id}/erase`, {})).status, 202, email)
  },
  SHARED
)

t.test('what is held is not lost by being replaced either', async (t) => {
  const config = { memory: { max_facts: 10 } }
  const { site, home, admin } = await siteOf(t, 'sqlite', config)
  const { person, id } = await signedIn(site, 'ann')
  const thread = await person.thread()
  const files = `/api/threads/${thread}/artifacts/mnt/user-data`
  const folder = join(home, 'users', id, 'threads', thread, 'user-data', 'outputs')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'a.md'), 'old')
  await upload(person, thread, [['a.txt', 'old']])
  const factOf = async () => at((await person.get('/api/memory')).body, 'facts', 0)
  await person.post('/api/memory/facts', { content: 'the first' })
  const fact = textIn(await factOf(), 'id')
  const expected_sha256 = createHash('sha256').update('old').digest('hex')
  const edit = () => person.ask('PUT', `${files}/outputs/a.md`, { body: { content: 'new', expected_sha256 } })
  const change = () => person.ask('PATCH', `/api/memory/facts/${fact}`, { body: { content: 'another' } })
  const add = () => person.post('/api/memory/facts', { content: 'more', confidence: 0.9 })

  for (const about of [{ thread_id: thread }, { user_id: id }]) {
    const held = await hold(admin, about)
    const sent = (await upload(person, thread, [['a.txt', 'new']])).body
    t.match(at(sent, 'files', 0), { original_filename: 'a.txt' }, 'an upload of its name is put beside a file')
    t.equal((await person.get(`${files}/uploads/a.txt`)).text, 'old')
    t.equal((await person.get(`${files}/uploads/${textIn(at(sent, 'files', 0), 'filename')}`)).text, 'new')
    t.match(await edit(), HELD)
    await admin.ask('DELETE', `${HOLDS}/${held}`)
  }
  const held = await hold(admin, { user_id: id })
  t.match(await change(), HELD)
  for (let facts = 1; facts < 10; facts++) t.equal((await add()).status, 200, 'there is room for another fact')
  t.match(await add(), HELD, 'one would go for it')
  t.match(await factOf(), { id: fact, content: 'the first' })
  await admin.ask('DELETE', `${HOLDS}/${held}`)
  t.equal((await change()).status, 200)
  t.equal((await add()).status, 200)
  t.equal((await edit()).status, 200)
  await upload(person, thread, [['a.txt', 'newer']])
  t.equal((await person.get(`${files}/uploads/a.txt`)).text, 'newer')
})

t.test('a hold names what there is, has a reason, and is in the audit', async (t) => {
  const { site, admin } = await siteOf(t, 'sqlite')
  const { person, id } = await signedIn(site, 'ann')
  const thread_id = await person.thread()
  for (const body of [
    {},
    { user_id: id },
    { user_id: id, reason: ' ' },
    { user_id: id, thread_id, reason },
    { reason }
  ])
    t.equal((await admin.post(HOLDS, body)).status, 422, JSON.stringify(body))
  t.equal((await admin.post(HOLDS, { user_id: 'nobody', reason })).status, 404)
  t.equal((await admin.post(HOLDS, { thread_id: 'none', reason })).status, 404)
  const made = await admin.post(HOLDS, { thread_id, reason })
  t.match(made, { status: 201, body: { thread_id, user_id: null, reason, created_by: /^user:/ } })
  t.match(await admin.get(`${HOLDS}?thread_id=${thread_id}`), { body: { holds: [made.body], has_more: false } })
  t.strictSame((await admin.get(`${HOLDS}?user_id=${id}`)).body, { holds: [], has_more: false })
  t.equal((await person.get(HOLDS)).status, 403)
  const hold_id = textIn(made.body, 'hold_id')
  t.match(await admin.ask('DELETE', `${HOLDS}/${hold_id}?reason=closed`), { status: 200, body: made.body })
  t.equal((await admin.ask('DELETE', `${HOLDS}/${hold_id}`)).status, 404)
  const lines = listIn((await admin.get('/api/v1/admin/audit')).body, 'entries')
  const target = `thread:${thread_id}`
  t.match(lines.slice(0, 2), [
    { action: 'hold_lifted', target, details: { hold_id, reason: 'closed' } },
    { action: 'hold_added', target, details: { hold_id, reason } }
  ])
})

for (const backend of SHARED)
  t.test(`the command line holds beside a server, whose jobs pass over what is held (${backend})`, async (t) => {
    const { site, home } = await siteOf(t, backend)
    const { person, email } = await signedIn(site, 'ann')
    const { body } = await person.post('/api/threads', { ttl: { ttl: 60, strategy: 'delete' } })
    const thread = textIn(body, 'thread_id')
    const added = await command(home, 'hold', 'add', '--user', email, '--reason', reason, '--json')
    t.match(
      [added.code, JSON.parse(added.out)],
      [0, { user_id: String, thread_id: null, reason, created_by: 'operator' }]
    )
    t.match(await person.ask('DELETE', `/api/threads/${thread}`), HELD)
    const dueIn = async () => {
      const { out } = await command(home, 'jobs', 'list')
      const line = out.split('\n').find((one) => one.startsWith(`removal\t${thread}`))
      return line === undefined ? null : Date.parse(line.split('\t')[2] ?? '') - Date.now()
    }
    await command(home, 'jobs', 'retry', 'removal', thread)
    const waits = async () => {
      const ms = (await dueIn()) ?? 0
      return ms > 5000 && ms < 120_000
    }
    await until(waits, 'its time has come, and the removal waits')
    t.equal((await person.get(`/api/threads/${thread}`)).status, 200)
    t.match(await command(home, 'user', 'erase', email), { code: 1, errors: /legal hold/ })
    t.match(await command(home, 'hold', 'list', '--user', email), { code: 0, out: /user.*operator.*Case 42/ })
    const { hold_id } = JSON.parse(added.out) as { hold_id: string }
    t.match(await command(home, 'hold', 'remove', hold_id), { code: 0 })
    t.match(await command(home, 'hold', 'remove', hold_id), { code: 1, errors: /not found/ })
    for (const wrong of [
      ['hold', 'add', '--user', email],
      ['hold', 'add', '--reason', reason],
      ['hold', 'remove']
    ])
      t.equal((await command(home, ...wrong)).code, 2, wrong.join(' '))
    await command(home, 'jobs', 'retry', 'removal', thread)
    await until(async () => (await dueIn()) === null, 'the removal goes on')
    t.equal((await person.get(`/api/threads/${thread}`)).status, 404)
  })

t.test(
  'of a held thread of a graph no question is edited: where the edit failed, what it has written would go',
  async (t) => {
    const { site, person } = await graphSite(t)
    const admin = await adminOf(site)
    const path = `/api/threads/${await person.thread()}`
    const edit = (replay_kind: string) =>
      person.post(`${path}/runs/wait`, { assistant_id: 'agent', input: { messages: [] }, metadata: { replay_kind } })
    await hold(admin, { thread_id: path.split('/').at(-1) })
    t.match(await edit('edit'), HELD)
    t.equal((await edit('another')).status, 200)
  }
)
