// Backups by command: made beside a running server, of either database, and restored into either; and moves between the two.
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { backUp } from '../../lib/operator/backup.ts'
import { beside } from '../../lib/operator/operator.ts'
import { checkBackup, OPERATOR, restore, restorePart } from '../../lib/operator/restore.ts'
import { loadConfig } from '../../lib/config/config.ts'
import { type DatabaseSection, databaseSection } from '../fixtures/backends.ts'
import { command, commandWith } from '../fixtures/child.ts'
import { upload } from '../fixtures/form.ts'
import {
  asked,
  configFile,
  homeOf,
  listIn,
  openSite,
  type Options,
  PASSWORD,
  Person,
  signIn,
  type Site,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { threadLife } from '../fixtures/life.ts'
import { aUser } from '../contract/harness.ts'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { createDatabase } from '../fixtures/postgres.ts'
import { filesOf, filesWith } from '../fixtures/remains.ts'

const SECRET = 'sentinel-of-a-tool-server'

/** Something of everything that is to come back. */
async function lived(person: Person): Promise<string> {
  const thread = await person.thread()
  await upload(person, thread, [['note.txt', 'kept']])
  await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))
  return thread
}

/** Signed in anew: the secret of sessions may be another one. */
async function isBack(t: Test, site: Site, thread: string): Promise<Person> {
  const person = new Person(site.url)
  const answer = await person.post('/api/v1/auth/login/local', { username: 'boss@example.com', password: PASSWORD })
  t.equal(answer.status, 200, 'the account is there')
  t.ok(listIn((await person.get(`/api/threads/${thread}/messages`)).body).length >= 2)
  t.equal((await person.get(`/api/threads/${thread}/artifacts/mnt/user-data/uploads/note.txt`)).text, 'kept')
  const { status } = await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))
  t.equal(status, 200, 'and it goes on')
  return person
}

/** A copy of a backup in which this file is damaged. */
function withDamaged(backup: string, name: string): string {
  const bytes = readFileSync(backup)
  // The first place is in the head of the file, and its data is behind that.
  const end = bytes.indexOf(name) + name.length
  const data = end + bytes.readUInt16LE(bytes.lastIndexOf('PK\x03\x04', end) + 28)
  bytes[data + 4] = bytes[data + 4]! ^ 0xff
  const damaged = `${backup}.damaged`
  writeFileSync(damaged, bytes)
  return damaged
}

function configOf(home: string, config: Options) {
  return loadConfig({ file: configFile(home, config), home, env: {}, cwd: home })
}

async function livedIn(t: Test, database: DatabaseSection) {
  const home = homeOf(t)
  const site = await openSite(t, { home, config: { database } })
  const boss = new Person(site.url)
  await boss.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const server = {
    type: 'stdio',
    command: 'npx',
    args: ['-y', 'a-package', `--api-key=${SECRET}`],
    env: { A_KEY: SECRET }
  }
  const put = await boss.ask('PUT', '/api/mcp/config', {
    body: { mcp_servers: { tools: { ...server, enabled: false } } }
  })
  t.equal(put.status, 200, put.text)
  return { home, site, boss, thread: await lived(boss) }
}

for (const backend of ['sqlite', 'postgres'] as const) {
  t.test(`a backup that was made beside a running server comes back in either database (${backend})`, async (t) => {
    const { home, site, boss, thread } = await livedIn(t, await databaseSection(t, backend))
    const folder = homeOf(t)
    const file = join(folder, 'all.zip')
    const made = await command(home, 'backup', file, '--json')
    t.match(made, { code: 0 }, made.errors)
    t.match(JSON.parse(made.out), { file, backend, with_secrets: false, rows: Number, files: Number })
    t.strictSame(readdirSync(folder), ['all.zip'], 'and leaves nothing else')
    t.equal(statSync(file).mode & 0o777, 0o600)
    t.match(await command(home, 'backup', file), { code: 1, errors: /There is a file/ })
    t.match(await command(home, 'restore', file, '--check'), { code: 0, out: /is whole/ })
    const later = await lived(boss)
    await site.stop()

    const other = homeOf(t)
    configFile(other)
    const restored = await command(other, 'restore', file, '--json')
    t.match(restored, { code: 0 }, restored.errors)
    t.strictSame(filesWith(other, [SECRET]), [], 'without secrets')
    t.notOk(filesOf(other).includes('.jwt_secret'))
    const again = await openSite(t, { home: other })
    const back = await isBack(t, again, thread)
    t.equal((await back.get(`/api/threads/${later}`)).status, 404, 'what came after is not in it')
    t.match(await command(other, 'restore', file), { code: 1, errors: /is not empty/ })
    const { out } = await command(other, 'audit', '--json')
    t.match(out, /"action":"restore"/)
    t.match((await command(home, 'audit', '--json')).out, /"action":"backup"/)

    const database = await createDatabase()
    t.teardown(() => database.remove())
    const third = homeOf(t)
    const config = { database: { backend: 'postgres', postgres_url: database.url } }
    await restore(configOf(third, config), file, OPERATOR)
    await isBack(t, await openSite(t, { home: third, config }), thread)
  })
}

t.test(
  'a backup with secrets has them, and sessions go on; a damaged one is refused, and leaves the home empty',
  async (t) => {
    const { home, site, boss, thread } = await livedIn(t, await databaseSection(t, 'sqlite'))
    const file = join(homeOf(t), 'all.zip')
    const made = await backUp(configOf(home, {}), file, true, OPERATOR)
    await site.stop()
    const other = homeOf(t)
    await restore(configOf(other, {}), file, OPERATOR)
    const bytes = readFileSync(file)
    const at = bytes.length >> 1
    bytes[at] = bytes[at]! ^ 0xff
    const damaged = `${file}.damaged`
    writeFileSync(damaged, bytes)
    const third = homeOf(t)
    await t.rejects(restore(configOf(third, {}), damaged, OPERATOR))
    t.strictSame(
      filesOf(third).filter((name) => !/yaml$|lock$/.test(name)),
      []
    )
    const fourth = join(homeOf(t), 'new')
    // All others are there by then.
    const last = withDamaged(file, `files/${made.files.at(-1)!.path}`)
    await t.rejects(restore(loadConfig({ home: fourth, env: {}, cwd: homeOf(t) }), last, OPERATOR))
    t.strictSame(readdirSync(fourth), ['serve.lock'], "also of what is the operator's, where it came with the backup")
    await restore(loadConfig({ home: fourth, env: {}, cwd: homeOf(t) }), file, OPERATOR)
    t.ok(existsSync(join(fourth, 'colloquy.yaml')), 'and the next one has all')
    await t.rejects(checkBackup(damaged))
    writeFileSync(`${file}.db.part`, 'of one that was killed')
    await checkBackup(file)
    t.notOk(existsSync(`${file}.db.part`))
    t.equal(filesWith(other, [SECRET]).length, 1)
    boss.url = (await openSite(t, { home: other })).url
    t.equal((await boss.get(`/api/threads/${thread}`)).status, 200, 'the session is valid')
  }
)

t.test('a move takes all rows to PostgreSQL and back, while no server runs', async (t) => {
  const { home, site, thread } = await livedIn(t, await databaseSection(t, 'sqlite'))
  const database = await createDatabase()
  t.teardown(() => database.remove())
  t.match(await command(home, 'move', database.url), { code: 1, errors: /A server is using/ })
  await site.stop()
  const moved = await command(home, 'move', database.url, '--json')
  t.match(moved, { code: 0 }, moved.errors)
  const lines = moved.out.trim().split('\n')
  t.match(JSON.parse(lines.at(-1)!), { from: 'sqlite', to: 'postgres', rows: Number })
  t.match(JSON.parse(lines[0]!), { table: String, rows: Number, hash: /^[0-9a-f]{32}$/ })
  const config = { database: { backend: 'postgres', postgres_url: database.url } }
  const served = await openSite(t, { home, config })
  await isBack(t, served, thread)
  configFile(home, config)
  await served.stop()
  const back = join(homeOf(t), 'back.db')
  const again = await command(home, 'move', back)
  t.match(again, { code: 0, out: /Set database.backend to sqlite/ }, again.errors)
  await isBack(t, await openSite(t, { home, config: { database: { sqlite_path: back } } }), thread)
})

t.test('a move that is cut off in its last step is done again by the same command', async (t) => {
  const { home, site, thread } = await livedIn(t, await databaseSection(t, 'sqlite'))
  await site.stop()
  const database = await createDatabase()
  const watching = await PgConnection.open(database.url)
  const locking = await PgConnection.open(database.url)
  t.teardown(async () => {
    await Promise.all([watching.close(), locking.close()])
    await database.remove()
  })
  const moving = command(home, 'move', database.url)
  const has = async (from: string) => (await watching.rows(`SELECT 1 FROM ${from}`)).length > 0
  await until(() => has("pg_tables WHERE tablename = 'unfinished_copy'"), 'the copy to begin')
  // Statistics wait for it, and rows do not.
  await locking.rows('BEGIN')
  await locking.rows('LOCK TABLE users IN SHARE UPDATE EXCLUSIVE MODE')
  const waiting =
    "pg_stat_activity WHERE query = 'ANALYZE' AND wait_event_type = 'Lock' AND datname = current_database()"
  await until(() => has(waiting), 'statistics to be gathered')
  await watching.rows(`SELECT pg_terminate_backend(pid) FROM ${waiting}`)
  t.match(await moving, { code: 1 })
  await locking.rows('ROLLBACK')
  const again = await command(home, 'move', database.url)
  t.match(again, { code: 0 }, again.errors)
  await isBack(
    t,
    await openSite(t, { home, config: { database: { backend: 'postgres', postgres_url: database.url } } }),
    thread
  )
})

t.test('a move goes where a variable says, also one that a server would take for its own database', async (t) => {
  const { home, site } = await livedIn(t, await databaseSection(t, 'sqlite'))
  await site.stop()
  const databases = [await createDatabase(), await createDatabase()]
  t.teardown(() => Promise.all(databases.map((one) => one.remove())))
  const [DATABASE_URL = '', inFile = ''] = databases.map(({ url }) => url)
  const DATABASE_URL_FILE = join(home, 'database_url.txt')
  writeFileSync(DATABASE_URL_FILE, `${inFile}\n`)
  const move = (env: Readonly<Record<string, string>>) => commandWith(env, home, 'move', '$DATABASE_URL')
  t.match(await move({}), { code: 2, errors: /no environment variable DATABASE_URL/ })
  t.match(await move({ DATABASE_URL_FILE: `${DATABASE_URL_FILE}.none` }), { code: 1, errors: /cannot be read/ })
  const ways: readonly Readonly<Record<string, string>>[] = [{ DATABASE_URL }, { DATABASE_URL_FILE }]
  for (const env of ways) {
    const moved = await move(env)
    t.match(moved, { code: 0, out: /Set database.backend to postgres/ }, moved.errors)
  }
  configFile(home, { database: { backend: 'postgres', postgres_url: '$DATABASE_URL' } })
  t.match(await move({ DATABASE_URL }), { code: 1, errors: /names that as its database already/ })
})

for (const backend of ['sqlite', 'postgres'] as const) {
  t.test(
    `one thread or one user comes back beside the running server, and what is there stays (${backend})`,
    async (t) => {
      const { home, site, boss } = await livedIn(t, await databaseSection(t, backend))
      const ann = await signIn(site, 'ann')
      const account = (await ann.get('/api/v1/auth/me')).body as { readonly id: string; readonly email: string }
      const [thread, other] = [await threadLife(ann), await threadLife(ann)]
      const going = await ann.thread()
      await ann.stream(going, '/demo deltas=9999 rate=100')
      await ann.post('/api/runs/crons', { ...asked('x'), schedule: '0 0 1 1 *' })
      const shown = async () => {
        const answers = ['/state', '/messages', '/runs?limit=100'].map((path) =>
          ann.get(`/api/threads/${thread}${path}`)
        )
        const [state, messages, runs] = await Promise.all(answers)
        const run = listIn(runs!.body)
          .map((one) => textIn(one, 'run_id'))
          .sort()
        const replayed = await ann.get(`/api/threads/${thread}/runs/${run[0]}/stream`)
        return [state!.body, messages!.body, run, replayed.text]
      }
      const before = await shown()
      const file = join(homeOf(t), 'all.zip')
      t.equal((await command(home, 'backup', file)).code, 0)
      const restored = async (...args: readonly string[]) => {
        const done = await command(home, 'restore', file, ...args, '--json')
        t.equal(done.code, 0, done.errors)
        return JSON.parse(done.out) as object
      }
      t.match(await restored('--thread', thread), { threads: [], skipped: [thread], files: 0 })
      // Numbers of rows go on meanwhile.
      await threadLife(boss)
      t.equal((await ann.ask('DELETE', `/api/threads/${thread}`)).status, 200)
      t.match(await restored('--thread', thread), { threads: [thread], skipped: [], user: false })
      t.strictSame(await shown(), before, 'the same is shown, and its runs are streamed')
      const found = await ann.post('/api/threads/search', { metadata: { about: thread } })
      t.match(found.body, [{ thread_id: thread }])
      t.equal((await ann.get(`/api/threads/${thread}/artifacts/mnt/user-data/uploads/note.txt`)).text, 'some text')
      t.equal((await ann.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))).status, 200)

      t.equal((await ann.ask('DELETE', `/api/threads/${going}`)).status, 200)
      t.match(await restored('--thread', going), { threads: [going] })
      t.match((await ann.get(`/api/threads/${going}`)).body, { status: 'error' }, 'what was in flight is not any more')
      t.match(listIn((await ann.get(`/api/threads/${going}/runs`)).body), [{ status: 'error' }])

      t.equal((await command(home, 'user', 'delete', account.email)).code, 0)
      await until(() => !filesOf(home).some((name) => name.includes(account.id)), 'it is gone')
      const gone = await command(home, 'restore', file, '--thread', other)
      t.match(gone, { code: 1, errors: /restore the user/ })
      t.match(await command(home, 'restore', file, '--user', 'nobody@example.com'), { code: 1, errors: /has no user/ })
      const early = await command(home, 'restore', file, '--user', account.email)
      t.match(early, { code: 1, errors: /is being removed/ }, 'it would be removed again')
      t.equal((await command(home, 'jobs', 'drop', 'departure', account.id)).code, 0)
      t.match(await restored('--user', account.email), { user: true, skipped: [] })
      t.equal((await ann.get('/api/v1/auth/me')).status, 401, 'sessions of before have ended')
      const again = new Person(site.url)
      const signedIn = await again.post('/api/v1/auth/login/local', { username: account.email, password: PASSWORD })
      t.equal(signedIn.status, 200)
      t.equal((await again.get(`/api/threads/${other}/messages`)).status, 200)
      t.equal(listIn((await again.post('/api/threads/search', {})).body).length, 3)
    }
  )
}

for (const backend of ['sqlite', 'postgres'] as const)
  t.test(
    `agents and items that are gone come back, and versions of others are not mixed with them (${backend})`,
    async (t) => {
      const home = homeOf(t)
      const site = await openSite(t, {
        home,
        config: { database: await databaseSection(t, backend), items: { per_user: 3 } }
      })
      const [ann, bob] = [await signIn(site, 'ann'), await signIn(site, 'bob')]
      const { email } = (await ann.get('/api/v1/auth/me')).body as { readonly email: string }
      const [gone, taken] = [randomUUID(), randomUUID()]
      const made = (who: Person, id: string, name: string) =>
        who.post('/api/assistants', { assistant_id: id, graph_id: 'lead_agent', name })
      const renamed = (who: Person, id: string) =>
        who.ask('PATCH', `/api/assistants/${id}`, { body: { name: 'renamed' } })
      const versions = async (who: Person, id: string) =>
        listIn((await who.post(`/api/assistants/${id}/versions`)).body).map((one) => textIn(one, 'name'))
      const put = (key: string) =>
        ann.ask('PUT', '/api/store/items', { body: { namespace: ['notes'], key, value: { said: key } } })
      for (const id of [gone, taken]) {
        t.equal((await made(ann, id, 'of Ann')).status, 200)
        t.equal((await renamed(ann, id)).status, 200)
      }
      await ann.post('/api/agents', { name: 'writer', soul: 'Be brief.' })
      await ann.ask('PUT', '/api/agents/writer', { body: { soul: 'Be long.' } })
      for (const key of ['one', 'two']) t.equal((await put(key)).status, 204)
      const file = join(homeOf(t), 'all.zip')
      t.equal((await command(home, 'backup', file)).code, 0)
      for (const id of [gone, taken]) t.equal((await ann.ask('DELETE', `/api/assistants/${id}`)).status, 200)
      t.equal((await ann.ask('DELETE', '/api/agents/writer')).status, 204)
      t.equal((await ann.post('/api/agents', { name: 'writer', soul: 'Anew.' })).status, 201)
      t.equal((await made(bob, taken, 'of Bob')).status, 200)
      await ann.ask('DELETE', '/api/store/items', { body: { namespace: ['notes'], key: 'one' } })
      const restored = await command(home, 'restore', file, '--user', email)
      t.equal(restored.code, 0, restored.errors)
      t.same(await versions(ann, gone), ['renamed', 'of Ann'])
      t.same(await versions(bob, taken), ['of Bob'])
      t.equal((await renamed(bob, taken)).status, 200)
      t.match((await ann.ask('PUT', '/api/agents/writer', { body: { description: 'writes' } })).body, { soul: 'Anew.' })
      t.match((await ann.get('/api/store/items?namespace=notes&key=one')).body, { value: { said: 'one' } })
      t.equal((await put('three')).status, 204)
      t.equal((await put('four')).status, 409, 'they are counted')
    }
  )

t.test('a thread that is still being removed is not said to be there, and comes back when it is gone', async (t) => {
  const { home, site, boss, thread } = await livedIn(t, await databaseSection(t, 'sqlite'))
  const other = await lived(boss)
  const file = join(homeOf(t), 'all.zip')
  const config = configOf(home, {})
  await backUp(config, file, false, OPERATOR)
  await site.stop()
  // A long one, whose server was stopped in between.
  const db = new Sqlite(config.database.sqlite_path)
  for (const id of [thread, other]) db.prepare('DELETE FROM threads_meta WHERE thread_id = ?').run(id)
  db.prepare('INSERT INTO removed_threads (thread_id) VALUES (?)').run(thread)
  db.prepare('DELETE FROM frames WHERE run_key IN (SELECT key FROM runs WHERE thread_id = ?)').run(other)
  for (const table of ['runs', 'run_events', 'checkpoints', 'checkpoint_bodies', 'aliases'])
    db.prepare(`DELETE FROM ${table} WHERE thread_id = ?`).run(other)
  db.close()
  await t.rejects(restorePart(config, file, { user: 'boss@example.com' }, OPERATOR), new RegExp(`removing.*${thread}`))
  // Whoever opens the database goes on with it.
  const restored: object[] = []
  const restoreAgain = () =>
    restorePart(config, file, { thread }, OPERATOR).then(
      (done) => restored.push(done) > 0,
      () => false
    )
  await until(restoreAgain, 'it is gone')
  t.match(restored, [{ threads: [thread], skipped: [] }])
  boss.url = (await openSite(t, { home })).url
  for (const id of [thread, other]) t.ok(listIn((await boss.get(`/api/threads/${id}/messages`)).body).length >= 2)
})

t.test('a thread whose events are files comes back beside the running server that has deleted it', async (t) => {
  const home = homeOf(t)
  const site = await openSite(t, { home, config: { run_events: { backend: 'jsonl' } } })
  const ann = await signIn(site, 'ann')
  const thread = await lived(ann)
  const messages = async () => listIn((await ann.get(`/api/threads/${thread}/messages`)).body)
  const before = await messages()
  const file = join(homeOf(t), 'all.zip')
  t.equal((await command(home, 'backup', file)).code, 0)
  t.equal((await ann.ask('DELETE', `/api/threads/${thread}`)).status, 200)
  const restored = await command(home, 'restore', file, '--thread', thread)
  t.equal(restored.code, 0, restored.errors)
  t.same(await messages(), before)
  t.equal((await ann.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))).status, 200)
  t.equal((await messages()).length, before.length + 2, 'and it goes on')
})

t.test('a thread whose restore was cut comes back whole the next time, and no file of it in part', async (t) => {
  const { home, site, boss, thread } = await livedIn(t, await databaseSection(t, 'sqlite'))
  const file = join(homeOf(t), 'all.zip')
  const config = configOf(home, {})
  await upload(boss, thread, [['zz.txt', 'z'.repeat(100_000)]])
  await backUp(config, file, false, OPERATOR)
  const folder = join(home, 'users', textIn((await boss.get('/api/v1/auth/me')).body, 'id'), 'threads', thread)
  t.equal((await boss.ask('DELETE', `/api/threads/${thread}`)).status, 200)
  await until(() => !existsSync(folder), 'its files are gone')
  // A disk that is full, or a folder that cannot be written.
  writeFileSync(folder, '')
  await t.rejects(restorePart(config, file, { thread }, OPERATOR))
  rmSync(folder)
  const damaged = withDamaged(file, 'zz.txt')
  await t.rejects(restorePart(config, damaged, { thread }, OPERATOR))
  t.match(await restorePart(config, file, { thread }, OPERATOR), { threads: [thread], skipped: [] })
  for (const [name, text] of [
    ['note.txt', 'kept'],
    ['zz.txt', 'z'.repeat(100_000)]
  ] as const)
    t.equal((await boss.get(`/api/threads/${thread}/artifacts/mnt/user-data/uploads/${name}`)).text, text)
  t.strictSame(
    filesOf(folder).filter((name) => name.endsWith('.part')),
    []
  )
  await site.stop()
})

t.test('a backup within the home leaves itself out, and nothing that begins as its name does', async (t) => {
  const home = homeOf(t)
  await (await openSite(t, { home })).stop()
  mkdirSync(join(home, 'users', 'a'), { recursive: true })
  writeFileSync(join(home, 'users', 'a', 'memory.json'), '{}')
  const { files } = await backUp(configOf(home, {}), join(home, 'u'), false, OPERATOR)
  const names = files.map(({ path }) => path)
  t.ok(names.includes('users/a/memory.json'))
  t.notOk(names.some((name) => /^u($|\.)|^data\/colloquy\.db/.test(name)))
})

t.test('a restore has its home for itself, also where processes on PostgreSQL may share one', async (t) => {
  const home = homeOf(t)
  await (await openSite(t, { home })).stop()
  const file = join(homeOf(t), 'all.zip')
  await backUp(configOf(home, {}), file, false, OPERATOR)
  const database = await createDatabase()
  t.teardown(() => database.remove())
  const other = homeOf(t)
  const config = configOf(other, { database: { backend: 'postgres', postgres_url: database.url } })
  const outcomes = await Promise.allSettled([restore(config, file, OPERATOR), restore(config, file, OPERATOR)])
  t.strictSame(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  const why = outcomes.find((one) => one.status === 'rejected')
  t.match(String(why?.reason), /Another server is running|is not empty/)
  t.ok(existsSync(join(other, 'serve.lock')))
  await (
    await openSite(t, { home: other, config: { database: { backend: 'postgres', postgres_url: database.url } } })
  ).stop()
})

t.test(
  'somebody is found by any spelling of the address, and not made where the identity is another account’s',
  async (t) => {
    const homeWith = async (id: string | null) => {
      const home = homeOf(t)
      await (await openSite(t, { home })).stop()
      const config = configOf(home, {})
      const user = aUser({ id: id ?? '', email: `${id}@example.com`, oauth_provider: 'idp', oauth_id: 'subject' })
      if (id !== null) await beside(config, (_, writer) => writer.write({ name: 'user.create', user }))
      return config
    }
    const file = join(homeOf(t), 'all.zip')
    await backUp(await homeWith('ann'), file, false, OPERATOR)
    await t.rejects(restorePart(await homeWith('bob'), file, { user: 'ann' }, OPERATOR), /oauth/)
    const made = await restorePart(await homeWith(null), file, { user: 'Ann@EXAMPLE.com' }, OPERATOR)
    t.match(made, { user: true })
  }
)

t.test('run events are restored where the configuration looks for them, or not at all', async (t) => {
  const home = homeOf(t)
  await (await openSite(t, { home })).stop()
  const file = join(homeOf(t), 'all.zip')
  await backUp(configOf(home, {}), file, false, OPERATOR)
  const inFiles = { run_events: { backend: 'jsonl' } }
  await t.rejects(restore(configOf(homeOf(t), inFiles), file, OPERATOR), { message: /set run_events.backend to db/ })
  await t.rejects(restorePart(configOf(home, inFiles), file, { user: 'x' }, OPERATOR), /set run_events.backend to db/)
  const config = configOf(home, {})
  const backend = { module: '/their/events.js', options: {} }
  const theirs = { ...config, run_events: { ...config.run_events, backend } }
  await t.rejects(backUp(theirs, `${file}.2`, false, OPERATOR), /is a module/)
})
