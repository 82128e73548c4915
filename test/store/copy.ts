// The copier: what goes from SQLite to PostgreSQL and back is the same, row for row, and can be served on either side.
import { join } from 'node:path'
import t from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { checkRows, type CopiedTable, CopyDiffers, copyRows, type CopySource } from '../../lib/store/copy.ts'
import { PartCopier } from '../../lib/store/copy-part.ts'
import { copiedTables, openCopySource, openCopyTarget, openDatabase, openPartTarget } from '../../lib/store/open.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import type { Store } from '../../lib/store/store.ts'
import { addThread, aUser, idsOf, write } from '../contract/harness.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { asked, homeOf, openSite, type Person, signIn } from '../fixtures/gateway.ts'
import { graphLife, personLife, threadLife } from '../fixtures/life.ts'
import { createDatabase, migratedDatabase } from '../fixtures/postgres.ts'

/** Texts that PostgreSQL does not store as they are. */
const STRANGE = 'NUL \u0000 and SUB \u001a, \u2028 and 😀'

async function shownOf(person: Person, thread: string): Promise<unknown> {
  const answers = await Promise.all(
    ['', '/state', '/messages', '/runs?limit=100'].map((path) => person.get(`/api/threads/${thread}${path}`))
  )
  const history = await person.post(`/api/threads/${thread}/history`, { limit: 100 })
  return [...answers, history].map(({ status, body }) => [status, body])
}

const sqliteOf = (sqlite_path: string) => ({ backend: 'sqlite' as const, sqlite_path })
const postgresOf = (postgres_url: string) => ({ backend: 'postgres' as const, sqlite_path: '', postgres_url })

t.test('PostgreSQL has every column that SQLite copies, and no others but those that it makes itself', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await PgConnection.open(database.url)
  const rows = await line.rows<{ name: string; columns: string }>(
    `SELECT table_name AS name, string_agg(column_name, ',' ORDER BY column_name) AS columns
     FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY 1`
  )
  await line.close()
  const own = { threads_meta: ['metadata_terms'], frames: ['bytes'] } as Record<string, string[]>
  const known = new Map(rows.map(({ name, columns }) => [name, columns]))
  for (const { name, columns } of copiedTables())
    t.equal(known.get(name), [...columns, ...(own[name] ?? [])].sort().join(), name)
  const copied = copiedTables().map(({ name }) => name)
  const others = [...known.keys()].filter((name) => !copied.includes(name)).sort()
  t.strictSame(others, ['former_writers', 'migrations', 'search_blocks', 'search_queue', 'search_shelves', 'writers'])
})

t.test('there and back again', async (t) => {
  const home = homeOf(t)
  const { site, person } = await graphSite(t, { home })
  const threads = [await graphLife(person), await person.thread()]
  await person.ask('PATCH', `/api/threads/${threads[1]}`, { body: { metadata: { about: STRANGE, here: 'yes' } } })
  await site.stop()
  const plain = await openSite(t, { home })
  person.url = plain.url
  threads.push(await threadLife(person))
  await personLife(person, threads[2]!)
  const before = await Promise.all(threads.map((thread) => shownOf(person, thread)))
  await plain.stop()

  const tables = copiedTables()
  const database = await createDatabase()
  t.teardown(() => database.remove())
  const file = join(home, 'data', 'colloquy.db')
  const copy = async (from: Parameters<typeof openCopySource>[0], to: Parameters<typeof openCopyTarget>[0]) => {
    const source = await openCopySource(from)
    const target = await openCopyTarget(to, tables)
    const sums = await copyRows(source, target, tables)
    await target.close()
    await source.close()
    return sums
  }
  const sums = await copy(sqliteOf(file), postgresOf(database.url))
  t.ok(sums.filter(({ rows }) => rows > 0).length > 15, 'most tables have rows')
  const config = { database: { backend: 'postgres', postgres_url: database.url } }
  const served = await openSite(t, { home, config })
  person.url = served.url
  t.strictSame(await Promise.all(threads.map((thread) => shownOf(person, thread))), before, 'the same is served')
  const found = await person.post('/api/threads/search', { metadata: { about: STRANGE } })
  t.match(found.body, [{ thread_id: threads[1] }], 'and found by its metadata')
  const other = await signIn(served, 'later')
  const { status } = await other.post(`/api/threads/${await other.thread()}/runs/wait`, asked('/demo deltas=3 rate=0'))
  t.equal(status, 200, 'and it goes on')
  await served.stop()

  const back = join(home, 'back.db')
  const again = await copy(postgresOf(database.url), sqliteOf(back))
  const source = await openCopySource(sqliteOf(back))
  await checkRows(source, again)
  const [users] = again.filter(({ name }) => name === 'users')
  await t.rejects(checkRows(source, [{ ...users!, rows: users!.rows + 1 }]), CopyDiffers)
  await source.close()
  const last = await openSite(t, { home, config: { database: { sqlite_path: back } } })
  person.url = last.url
  t.strictSame(await Promise.all(threads.map((thread) => shownOf(person, thread))), before, 'and on the way back')
  await last.stop()

  await t.rejects(openCopyTarget(postgresOf(database.url), tables), { message: /is not empty/ })
})

t.test('a copy that was cut goes on, and is served by nobody until it is whole', async (t) => {
  const home = homeOf(t)
  const site = await openSite(t, { home })
  await threadLife(await signIn(site))
  await site.stop()
  const tables = copiedTables()
  const database = await createDatabase()
  t.teardown(() => database.remove())
  const from = sqliteOf(join(home, 'data', 'colloquy.db'))
  const source = await openCopySource(from)
  const cut: CopySource = {
    ...source,
    async *rows(table: CopiedTable) {
      if (table.name === 'runs') throw new Error('cut')
      yield* source.rows(table)
    }
  }
  const first = await openCopyTarget(postgresOf(database.url), tables)
  await t.rejects(copyRows(cut, first, tables), { message: 'cut' })
  await first.close()
  const url = { home, database: postgresOf(database.url), run_events: { backend: 'db' as const } }
  await t.rejects(
    openDatabase(url, () => {}),
    { message: /is not finished/ }
  )
  const target = await openCopyTarget(postgresOf(database.url), tables)
  // Of a table that has changed since.
  await target.clear(tables.find(({ name }) => name === 'checkpoints')!)
  const sums = await copyRows(source, target, tables)
  await checkRows(target, sums)
  await target.close()
  await source.close()
  await (await openDatabase(url, () => {})).close()
})

t.test(
  'a thread that is made for one run is found by its metadata in no copy, and comes back with no user',
  async (t) => {
    const home = homeOf(t)
    const [file, other] = [join(home, 'first.db'), join(home, 'other.db')]
    const store = await openSqliteStore(file)
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const metadata = { about: 'it' }
    const { thread_id } = await addThread(store, { user_id: user.id, metadata })
    await addThread(store, { user_id: user.id, metadata }, { isTemporary: true })
    const found = async (of: Store, owner: string | null = user.id) => idsOf(of, { metadata }, owner)
    t.strictSame(await found(store), [thread_id])
    await store.close()

    const tables = copiedTables()
    const database = await createDatabase()
    t.teardown(() => database.remove())
    const copies = [sqliteOf(join(home, 'copy.db')), postgresOf(database.url)]
    for (const place of copies) {
      const source = await openCopySource(sqliteOf(file))
      const target = await openCopyTarget(place, tables)
      await copyRows(source, target, tables)
      await target.close()
      await source.close()
      const options = { home, database: place, run_events: { backend: 'db' as const } }
      const copy = await openDatabase(options, () => {})
      t.strictSame(await found(copy), [thread_id], place.backend)
      await copy.close()
    }

    await (await openSqliteStore(other)).close()
    const source = await openCopySource(sqliteOf(file))
    const target = await openPartTarget(sqliteOf(other))
    const { threads } = await new PartCopier({ source, target, tables }).user(user.id)
    await target.close()
    await source.close()
    t.strictSame(threads, [thread_id], 'of nothing that no job would remove any more')
  }
)

t.test('a file of another version is refused', async (t) => {
  const home = homeOf(t)
  const site = await openSite(t, { home })
  await site.stop()
  const file = join(home, 'data', 'colloquy.db')
  const db = new Sqlite(file)
  db.exec("INSERT INTO migrations VALUES (999, '2026-01-01')")
  db.close()
  await t.rejects(openCopySource(sqliteOf(file)), { message: /schema version 999/ })
  await t.rejects(openCopySource(sqliteOf(join(home, 'none.db'))), { message: /There is no database/ })
})
