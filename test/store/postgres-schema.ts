// The schema of PostgreSQL: made when it is missing, by one process of many, in whole steps; refused when it is not ours.
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { prepareDatabase } from '../../lib/store/postgres/connection.ts'
import { Line } from '../../lib/store/postgres/line.ts'
import { migrationsIn } from '../../lib/store/sql/migrations.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { addThread } from '../contract/harness.ts'
import { createDatabase, migratedDatabase, newName, onServer, removeDatabase, urlOf } from '../fixtures/postgres.ts'

const STEPS = migrationsIn(new URL('../../lib/store/postgres/migrations/', import.meta.url))

async function lineTo(t: Test, url: string): Promise<Line> {
  const line = await Line.open(url)
  t.teardown(() => line.close())
  return line
}

async function freshName(t: Test): Promise<string> {
  const name = newName()
  t.teardown(() => removeDatabase(name))
  return name
}

t.test('a database that is missing is made, in UTF-8, also when its name is strange', async (t) => {
  const name = `${await freshName(t)} "Ä%`
  t.teardown(() => removeDatabase(name))
  const store = await openPostgresStore(await urlOf(name))
  await addThread(store)
  await store.close()
  const sql = 'SELECT pg_encoding_to_char(encoding) AS encoding FROM pg_database WHERE datname = $1'
  t.strictSame(await onServer((line) => line.rows(sql, [name])), [{ encoding: 'UTF8' }])
})

t.test('of several processes that start at once on a missing database each finds it ready', async (t) => {
  const url = await urlOf(await freshName(t))
  const stores = await Promise.all(Array.from({ length: 5 }, () => openPostgresStore(url)))
  const thread = await addThread(stores[0]!)
  for (const store of stores) t.strictSame(await store.threads.get(thread.thread_id, null), thread)
  await Promise.all(stores.map((store) => store.close()))
  const line = await lineTo(t, url)
  t.strictSame(
    await line.rows('SELECT version FROM migrations'),
    STEPS.map(({ version }) => ({ version }))
  )
})

t.test('who may not make a database is told what to do', async (t) => {
  const name = newName()
  const user = `colloquy_user_${process.pid}`
  await onServer((line) => line.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' NOCREATEDB`))
  t.teardown(() => onServer((line) => line.rows(`DROP ROLE ${user}`)))
  const url = new URL(await urlOf(name))
  url.username = user
  url.password = 'secret'
  await t.rejects(prepareDatabase(url.href), {
    message: `The database ${name} does not exist and this user may not create it: create it (encoding UTF8), or grant CREATEDB`
  })
})

t.test('a database that is newer than this program is refused, with both versions named', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await lineTo(t, database.url)
  await line.rows('INSERT INTO migrations (version, applied_at) VALUES (999, now())')
  await t.rejects(openPostgresStore(database.url), {
    message: `The database has schema version 999, this program knows versions up to ${STEPS.length}: start a newer one`
  })
})

t.test('tables of another service are refused and left as they are', async (t) => {
  const database = await createDatabase()
  t.teardown(() => database.remove())
  const line = await lineTo(t, database.url)
  await line.rows('CREATE TABLE threads_meta (thread_id varchar(64) PRIMARY KEY, status varchar(20))')
  await t.rejects(openPostgresStore(database.url), {
    message: /no migration exists for them: use a fresh database, or alter/
  })
  t.strictSame(await line.rows("SELECT to_regclass('runs')::text AS runs"), [{ runs: null }])
})

t.test('a database in another encoding is refused: texts would be lost', async (t) => {
  const database = await createDatabase("ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
  t.teardown(() => database.remove())
  await t.rejects(openPostgresStore(database.url), { message: /encoding SQL_ASCII: it must be UTF8/ })
})

t.test('a step that is broken off has not happened, and the next start does it', async (t) => {
  const database = await createDatabase()
  t.teardown(() => database.remove())
  const line = await lineTo(t, database.url)
  // What a process had done that was killed before its COMMIT.
  const killed = await Line.open(database.url)
  const sql = new URL('../../lib/store/postgres/migrations/000001.sql', import.meta.url)
  await killed.rows('BEGIN')
  await killed.rows(readFileSync(sql, 'utf8'))
  const starting = openPostgresStore(database.url)
  await line.rows('SELECT pg_terminate_backend($1)', [killed.pid])
  const store = await starting
  await addThread(store)
  await store.close()
  t.strictSame(
    await line.rows('SELECT version FROM migrations'),
    STEPS.map(({ version }) => ({ version }))
  )
})

t.test('opening again changes nothing', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const first = await openPostgresStore(database.url)
  const thread = await addThread(first)
  const second = await openPostgresStore(database.url)
  t.strictSame(await second.threads.get(thread.thread_id, null), thread)
  t.ok(((await second.size?.())?.database ?? 0) > 1e6, 'and its size can be asked for')
  await Promise.all([first.close(), second.close()])
})

/** Whether a statement can be answered from a range of an index, in order: without a sort, without a scan of the table. */
async function isRangeScan(line: Line, sql: string): Promise<boolean> {
  const plan = (await line.rows<{ 'QUERY PLAN': string }>(`EXPLAIN ${sql}`)).map((row) => row['QUERY PLAN']).join('\n')
  return !/Seq Scan|Sort/.test(plan) && /Index/.test(plan)
}

t.test('every list is a range of an index, in the order in which it is asked for', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await lineTo(t, database.url)
  await line.rows(`INSERT INTO threads_meta (thread_id, user_id, created_at, updated_at)
    SELECT 't' || n, 'u' || n % 50, now(), now() + n * interval '1 second' FROM generate_series(1, 5000) AS n`)
  await line.rows(`INSERT INTO runs (run_id, thread_id, user_id, status, ordinal, created_at, updated_at)
    SELECT 'r' || n, 't' || n % 100, 'u', 'success', n / 100, now(), now() FROM generate_series(1, 5000) AS n`)
  await line.rows(`INSERT INTO run_events (thread_id, run_id, event_type, category, seq, k, message_id, created_at)
    SELECT 't' || n % 10, 'r' || n % 100, 'x', CASE n % 3 WHEN 0 THEN 'message' ELSE 'trace' END, n, n, 'm' || n, now()
    FROM generate_series(1, 20000) AS n`)
  await line.rows(`INSERT INTO frames (run_key, first_n, last_n, epoch, bytes, idx, data)
    SELECT n % 100, n, n, 1, 10, '', '' FROM generate_series(1, 20000) AS n`)
  await line.rows('ANALYZE')
  // On so few rows a sort may be cheaper: the question is whether an index has the order.
  for (const way of ['seqscan', 'bitmapscan', 'sort']) await line.rows(`SET enable_${way} = off`)
  const lists = {
    'runs of a thread':
      "SELECT * FROM runs WHERE thread_id = 't1' AND (user_id = 'u' OR user_id IS NULL) ORDER BY ordinal DESC LIMIT 10",
    'newest messages of a thread':
      "SELECT * FROM run_events WHERE thread_id = 't1' AND category = 'message' AND seq < 9000 ORDER BY seq DESC LIMIT 50",
    'messages of a run':
      "SELECT * FROM run_events WHERE thread_id = 't1' AND run_id = 'r1' AND category = 'message' AND seq > 40 ORDER BY seq LIMIT 50",
    'events of a run':
      "SELECT * FROM run_events WHERE thread_id = 't1' AND run_id = 'r1' AND seq > 40 ORDER BY seq LIMIT 50",
    'frames of a run': 'SELECT * FROM frames WHERE run_key = 1 AND last_n >= 400 ORDER BY last_n LIMIT 50',
    'checkpoints of a thread':
      "SELECT * FROM checkpoints WHERE thread_id = 't1' AND checkpoint_id < 'x' ORDER BY checkpoint_id DESC LIMIT 10",
    'one sweep of frames': 'SELECT * FROM frames WHERE id > 100 ORDER BY id LIMIT 10',
    'threads of a user':
      "SELECT * FROM threads_meta WHERE user_id = 'u1' ORDER BY updated_at DESC, thread_id DESC LIMIT 10"
  }
  for (const [name, sql] of Object.entries(lists)) t.ok(await isRangeScan(line, sql), name)
})
