// Whose fault it is when a write fails: of the data of one group, which is refused and the others are kept [Store 2]; or of the
// database, and then nothing is dropped, whatever is wrong with it, and all is written when it is mended [Store 3].
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import { type Group, type Store, StoreUnavailable } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import { addRun, addThread, anEvent, eventsOf, messageCount } from '../contract/harness.ts'
import { homeOf, listIn, openSite, signIn, until } from '../fixtures/gateway.ts'
import { migratedDatabase } from '../fixtures/postgres.ts'

/** What two actors hand over. */
function records(runs: readonly Run[]): Group[] {
  return runs.map(({ thread_id, run_id }) => ({
    ops: [{ name: 'events.append', thread_id, run_id, user_id: null, events: [anEvent(0)] }]
  }))
}

async function twoRuns(store: Store): Promise<Run[]> {
  const runs = []
  for (let n = 0; n < 2; n++) runs.push(await addRun(store, (await addThread(store)).thread_id))
  return runs
}

/** While `harm` lasts nothing is refused, nothing is lost, and reads say what writes say. */
async function survives(t: Test, store: Store, harm: () => Promise<() => Promise<void>>): Promise<void> {
  const runs = await twoRuns(store)
  const mend = await harm()
  const failure = await store.apply(records(runs)).catch((error: unknown) => error)
  t.type(failure, StoreUnavailable, `${JSON.stringify(failure)}: the batch may be handed over again`)
  t.notMatch(failure, { passes: true }, 'and somebody has to act')
  await mend()
  t.match(await store.apply(records(runs)), [{ ok: true }, { ok: true }])
  for (const run of runs) t.equal((await eventsOf(store, run)).length, 1, 'nothing was dropped')
}

async function openPostgres(t: Test): Promise<{ store: Store; line: PgConnection; url: string }> {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await PgConnection.open(database.url)
  t.teardown(() => line.close())
  const store = await openPostgresStore(database.url)
  t.teardown(() => store.close())
  return { store, line, url: database.url }
}

/** The server answers every event with this SQLSTATE. */
async function failingWith(line: PgConnection, code: string): Promise<() => Promise<void>> {
  await line.rows(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'as a test wants it' USING ERRCODE = '${code}'; END $$`)
  await line.rows('CREATE TRIGGER fails BEFORE INSERT ON run_events EXECUTE FUNCTION fail()')
  return async () => {
    await line.rows('DROP TRIGGER fails ON run_events')
    await line.rows('DROP FUNCTION fail')
  }
}

const BROKEN = {
  XX000: 'an internal error',
  XX001: 'damaged data',
  XX002: 'a damaged index',
  '0A000': 'what it does not do'
}

for (const [code, what] of Object.entries(BROKEN))
  t.test(`postgres answers ${code}, ${what}: nothing is refused [Store 3]`, async (t) => {
    const { store, line } = await openPostgres(t)
    await survives(t, store, () => failingWith(line, code))
  })

t.test(
  'postgres, a table is renamed under the server: nothing is refused, reads say that they may be repeated',
  async (t) => {
    const { store, line } = await openPostgres(t)
    await survives(t, store, async () => {
      await line.rows('ALTER TABLE run_events RENAME TO away')
      await t.rejects(messageCount(store, 'any', null), { name: 'StoreUnavailable', code: '42P01' })
      return async () => void (await line.rows('ALTER TABLE away RENAME TO run_events'))
    })
  }
)

t.test('postgres, the right to INSERT is revoked: nothing is refused, and it goes on when it is granted', async (t) => {
  const { line, url } = await openPostgres(t)
  const user = `writer_${process.pid}`
  await line.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`)
  for (const kind of ['TABLES', 'SEQUENCES']) await line.rows(`GRANT ALL ON ALL ${kind} IN SCHEMA public TO ${user}`)
  await line.rows(`GRANT CREATE ON SCHEMA public TO ${user}`)
  const own = new URL(url)
  own.username = user
  own.password = 'secret'
  const store = await openPostgresStore(own.href)
  t.teardown(async () => {
    await store.close()
    await line.rows(`DROP OWNED BY ${user}`)
    await line.rows(`DROP ROLE ${user}`)
  })
  await survives(t, store, async () => {
    await line.rows(`REVOKE INSERT ON run_events FROM ${user}`)
    return async () => void (await line.rows(`GRANT INSERT ON run_events TO ${user}`))
  })
})

for (const code of ['22003', '22P05', '23514', '54000'])
  t.test(
    `postgres answers ${code}, which is about the data: that group is refused, the others are kept [Store 2]`,
    async (t) => {
      const { store, line } = await openPostgres(t)
      const [bad, good] = await twoRuns(store)
      await line.rows(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.run_id = '${bad!.run_id}' THEN RAISE EXCEPTION 'as a test wants it' USING ERRCODE = '${code}'; END IF;
      RETURN NEW; END $$`)
      await line.rows('CREATE TRIGGER fails BEFORE INSERT ON run_events FOR EACH ROW EXECUTE FUNCTION fail()')
      t.match(await store.apply(records([bad!, good!])), [{ ok: false, message: /as a test wants it/ }, { ok: true }])
      t.equal((await eventsOf(store, good!)).length, 1)
    }
  )

async function openSqlite(t: Test): Promise<{ store: Store; path: string }> {
  const path = join(t.testdir(), 'colloquy.db')
  const store = await openSqliteStore(path)
  t.teardown(() => store.close())
  return { store, path }
}

/** Done to the file beside the store. */
function onFile(path: string, sql: string): void {
  const db = connect(path)
  db.exec(sql)
  db.close()
}

t.test('sqlite, a table is renamed under the server: nothing is refused', async (t) => {
  const { store, path } = await openSqlite(t)
  await survives(t, store, async () => {
    onFile(path, 'ALTER TABLE run_events RENAME TO away')
    return async () => onFile(path, 'ALTER TABLE away RENAME TO run_events')
  })
})

t.test('sqlite, a page is damaged: nothing is refused, and all is written when the page is whole', async (t) => {
  const { store, path } = await openSqlite(t)
  await survives(t, store, async () => {
    const db = connect(path)
    db.pragma('wal_checkpoint(TRUNCATE)')
    const root = db
      .prepare("SELECT rootpage FROM sqlite_master WHERE name = 'uq_events_thread_seq'")
      .pluck()
      .get() as number
    const size = db.pragma('page_size', { simple: true }) as number
    db.close()
    const offset = (root - 1) * size
    const before = pageAt(path, offset, size)
    writePage(path, offset, Buffer.alloc(size, 0xff))
    return async () => writePage(path, offset, before)
  })
})

function pageAt(path: string, offset: number, size: number): Buffer {
  const file = openSync(path, 'r')
  const bytes = Buffer.alloc(size)
  readSync(file, bytes, 0, size, offset)
  closeSync(file)
  return bytes
}

function writePage(path: string, offset: number, bytes: Buffer): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, offset)
  closeSync(file)
}

t.test(
  'a table that is away: readiness says so, and the run that was going on ends whole when it is back',
  async (t) => {
    const home = homeOf(t)
    const site = await openSite(t, { home, config: { database: { backend: 'sqlite' } } })
    const person = await signIn(site)
    const thread = await person.thread()
    const path = join(home, 'data', 'colloquy.db')
    const stream = await person.stream(thread, '/demo deltas=100 rate=100', { stream_mode: ['messages-tuple'] })
    await stream.untilFrames(10)
    onFile(path, 'ALTER TABLE run_events RENAME TO away')
    await until(async () => (await person.get('/readyz')).status === 503, 'readiness says so')
    onFile(path, 'ALTER TABLE away RENAME TO run_events')
    const frames = await stream.whole()
    t.equal(frames.at(-1)?.event, 'end')
    t.match((await person.get(stream.runPath)).body, { status: 'success' })
    t.equal(listIn((await person.get(`/api/threads/${thread}/messages`)).body).length, 2)
    await until(async () => (await person.get('/readyz')).status === 200, 'it is ready again')
  }
)
