// The schema of PostgreSQL: made when it is missing, by one process of many, in whole steps; refused when it is not ours.
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { prepareDatabase } from '../../lib/store/postgres/schema.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openDatabase } from '../../lib/store/open.ts'
import { openPostgresStore, readsOf } from '../../lib/store/postgres/open.ts'
import type { Db, Param, Planning, ReadDb } from '../../lib/store/postgres/db.ts'
import { addThread, write } from '../contract/harness.ts'
import { homeOf } from '../fixtures/gateway.ts'
import { oldPostgres, POSTGRES_STEPS as STEPS } from '../fixtures/old-schema.ts'
import { createDatabase, migratedDatabase, newName, onServer, removeDatabase, urlOf } from '../fixtures/postgres.ts'

async function lineTo(t: Test, url: string): Promise<PgConnection> {
  const line = await PgConnection.open(url)
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
  const killed = await PgConnection.open(database.url)
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

/** A plan of the server, with its rows: what is below it, and how many rows it passes by. */
interface Plan {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

/** Rows that a plan has read. */
function rowsRead(plan: Plan): number {
  const own = (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops']
  const below = (plan.Plans ?? []).map(rowsRead)
  return below.length === 0 ? own : Math.max(...below) + below.slice(1).reduce((sum, rows) => sum + rows, 0)
}

function nodesOf(plan: Plan): string[] {
  return [plan['Node Type'], ...(plan.Plans ?? []).flatMap(nodesOf)]
}

/** A connection that explains what it is asked: as for these values, and as a statement that is kept for all values. */
class Explainer implements ReadDb {
  readonly plans: { readonly sql: string; readonly way: string; readonly plan: Plan }[] = []
  readonly #line: PgConnection
  #n = 0

  constructor(line: PgConnection) {
    this.#line = line
  }

  snapshot<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return work(this)
  }

  async rows<Row>(sql: string, params: readonly Param[] = [], planning: Planning = 'kept'): Promise<Row[]> {
    const rows = await this.#line.rows<Row>(sql, params, planning)
    const values = params.map((value) => (value === null ? 'NULL' : `'${String(value).replaceAll("'", "''")}'`))
    const name = `asked_${this.#n++}`
    await this.#line.rows(`PREPARE ${name} AS ${sql}`)
    const ways = planning === 'anew' ? ['force_custom_plan'] : ['force_custom_plan', 'force_generic_plan']
    for (const way of ways) {
      await this.#line.rows(`SET plan_cache_mode = ${way}`)
      const call = `${name}${values.length > 0 ? `(${values.join(', ')})` : ''}`
      const explained = `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE ${call}`
      const [row] = await this.#line.rows<{ 'QUERY PLAN': unknown }>(explained)
      const given = row!['QUERY PLAN']
      // As the server documents it.
      const [{ Plan: plan }] = (typeof given === 'string' ? JSON.parse(given) : given) as [{ Plan: Plan }]
      this.plans.push({ sql, way, plan })
    }
    return rows
  }

  changes(): Promise<number> {
    throw new Error('reads only')
  }
}

/** As many as nobody would like to have read through. */
const MANY = 30_000

t.test('every list reads about as many rows as it answers, from an index, however the server plans it', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await lineTo(t, database.url)
  const many = `generate_series(1, ${MANY}) AS n`
  // One user with as many threads as all others together; some that nobody owns.
  await line.rows(`INSERT INTO threads_meta (thread_id, user_id, status, created_at, updated_at, metadata_terms)
    SELECT 't' || n, CASE n % 20 WHEN 0 THEN NULL WHEN 1 THEN 'u' || n % 500 ELSE 'big' END, CASE n % 1000 WHEN 7 THEN 'error' ELSE 'idle' END,
      now() - n * interval '1 minute', now() - (n * 7919 % ${MANY}) * interval '1 second', ARRAY['term ' || n % 3000] FROM ${many}`)
  await line.rows(`INSERT INTO runs (run_id, thread_id, user_id, status, ordinal, created_at, updated_at)
    SELECT 'r' || n, 't' || n % 100, 'u', 'success', n / 100, now(), now() FROM ${many}`)
  await line.rows(`INSERT INTO run_events (thread_id, run_id, user_id, event_type, category, seq, k, message_id, created_at)
    SELECT 't' || n % 10, 'r' || n % 30, 'u', 'x', CASE n % 50 WHEN 0 THEN 'message' ELSE 'trace' END, n, n, 'm' || n, now() FROM ${many}`)
  await line.rows(
    `INSERT INTO frames (run_key, first_n, last_n, epoch, bytes, idx, data) SELECT n % 10, n, n, 1, 10, '', '' FROM ${many}`
  )
  await line.rows(`INSERT INTO checkpoints (thread_id, checkpoint_id, metadata_json, messages_json, channels_json, created_at)
    SELECT 't' || n % 10, 'c' || n, '{}', '[]', '{}', now() FROM ${many}`)
  await line.rows(`INSERT INTO feedback (feedback_id, run_id, thread_id, user_id, rating, created_at)
    SELECT 'f' || n, 'r' || n, 't' || n % 10, 'u', 1, now() FROM ${many}`)
  await line.rows('ANALYZE')

  const asked = new Explainer(line)
  const { threads, runs, events, frames, checkpoints, feedback } = readsOf(asked)
  const page = { limit: 10, offset: 20 }
  /** How many rows each may read, beyond which somebody waits. */
  const lists: Record<string, [work: () => Promise<unknown>, rows: number]> = {
    'threads of a user': [() => threads.search(page, 'big'), 100],
    'by the time of their creation, the oldest first': [
      () => threads.search({ ...page, sortBy: 'created_at', sortOrder: 'asc' }, 'big'),
      100
    ],
    'by id': [() => threads.search({ ...page, sortBy: 'thread_id' }, 'big'), 100],
    'with a status': [() => threads.search({ ...page, status: 'error' }, 'big'), 100],
    'with these ids': [() => threads.search({ ...page, ids: ['t1', 't2'] }, 'big'), 100],
    'with metadata': [() => threads.search({ ...page, offset: 0, metadata: { a: 1 } }, 'big'), 100],
    'threads of a user with few': [() => threads.search(page, 'u1'), 200],
    'a run': [() => runs.get('r7', 'u'), 1],
    'runs of a thread': [() => runs.list('t1', page, 'u'), 400],
    'runs in flight': [() => runs.unfinished(null), 1],
    'runs in flight of a thread': [() => runs.inFlight('t1'), 1],
    'newest messages of a thread': [() => events.listMessages('t0', { limit: 50 }, 'u'), 600],
    'messages of a thread before one': [() => events.listMessages('t0', { limit: 50, before: 900 }, 'u'), 100],
    'messages of a run': [() => events.listMessagesByRun('t0', 'r10', { limit: 5, after: 40 }, 'u'), 200],
    'a late page of the events of a run': [
      () => events.listEvents('t0', 'r10', { limit: 50, after: MANY - 3000 }, 'u'),
      100
    ],
    'where a run goes on': [() => events.lastK('t0', 'r10'), 10],
    'frames of a run': [() => frames.read(1, 400, 100), 600],
    'the newest checkpoint': [() => checkpoints.load('t1', null, []), 10],
    'checkpoints before one': [() => checkpoints.history('t1', { limit: 10, before: 'c20001' }), 20],
    'feedback of a run': [() => feedback!.list('t1', 'r1', 'u'), 10]
  }
  for (const [name, [work, rows]] of Object.entries(lists)) {
    asked.plans.length = 0
    await work()
    for (const { sql, way, plan } of asked.plans) {
      const about = `${name} (${way})`
      // To count is to look at all of them.
      if (sql.includes('count(*)')) continue
      t.notOk(nodesOf(plan).includes('Seq Scan') && rowsRead(plan) > rows, `${about}: no table is read through`)
      t.ok(rowsRead(plan) <= rows, `${about}: reads ${rowsRead(plan)} rows`)
    }
  }
})

/** Steps after which the version of the program before them would read or write something wrong. */
const BREAKING = [2, 6, 14, 16, 17, 19, 22, 26, 27, 28, 29]

t.test('a change of the schema is told once: from where to where, how long, and whether it breaks', async (t) => {
  const home = homeOf(t)
  for (const from of [0, 5, Math.max(...BREAKING)]) {
    const made = await createDatabase()
    t.teardown(() => made.remove())
    const line = await lineTo(t, made.url)
    await oldPostgres(line, from)
    const told: unknown[] = []
    const database = { backend: 'postgres', sqlite_path: '', postgres_url: made.url } as const
    const options = { home, database, run_events: { backend: 'db' } } as const
    // The second time there is nothing to be done.
    const note = (fields: object, text: string) => 'from' in fields && told.push([fields, text])
    for (let i = 0; i < 2; i++) await (await openDatabase(options, note)).close()
    const breaking = BREAKING.some((step) => step > from)
    const done = { from, to: STEPS.length, breaking, duration_ms: Number, backup: null }
    const isDone = from === 0 || from === STEPS.length
    t.match(told, isDone ? [] : [[done, 'the database was migrated to the schema of this version']], `from ${from}`)
    t.equal(told.length, isDone ? 0 : 1)
  }
})

t.test('pending writes of graphs from before they had a run are read as they were, and count', async (t) => {
  const made = await createDatabase()
  t.teardown(() => made.remove())
  const line = await lineTo(t, made.url)
  await line.rows('CREATE TABLE migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)')
  for (const { version, sql } of STEPS.slice(0, 13)) {
    await line.rows(sql)
    await line.rows('INSERT INTO migrations (version, applied_at) VALUES ($1, now())', [version])
  }
  await line.rows(`INSERT INTO threads_meta (thread_id, created_at, updated_at) VALUES ('t', now(), now())`)
  await line.rows(`INSERT INTO graph_checkpoints (thread_id, ns, checkpoint_id, run_id, checkpoint, metadata, names_json)
    VALUES ('t', '', 'c', 'r', '{}', '{}', '[]')`)
  const columns = 'thread_id, ns, checkpoint_id, task_id, task_path, idx, channel, type, data'
  await line.rows(`INSERT INTO graph_writes (${columns}) VALUES
    ('t', '', 'c', 'b', '', 0, 'items', 'json', '1'), ('t', '', 'c', 'a', '', -3, '__interrupt__', 'json', '2')`)
  const store = await openPostgresStore(made.url)
  const task = { task_path: '', type: 'json' }
  const asked = { ...task, task_id: 'a', idx: -3, channel: '__interrupt__', data: '2' }
  const done = { ...task, task_id: 'b', idx: 0, channel: 'items', data: '1' }
  t.strictSame((await store.graphStates.load('t', '', null))?.writes, [asked, done])
  const place = { thread_id: 't', ns: '', checkpoint_id: 'c', run_id: 'later' }
  await write(store, { name: 'graph.write', ...place, writes: [{ ...asked, data: '3' }] })
  t.strictSame((await store.graphStates.load('t', '', null))?.writes, [{ ...asked, data: '3' }, done])
  await write(store, { name: 'graph.removeRun', thread_id: 't', run_id: 'later' })
  t.strictSame((await store.graphStates.load('t', '', null))?.writes, [asked, done])
  await store.close()
})

t.test('a database that a server of another version has is left as it is by a newer program', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await lineTo(t, database.url)
  const to = STEPS.at(-1)!.version
  const from = Math.max(...BREAKING) - 1
  await line.rows('DELETE FROM migrations WHERE version > $1', [from])
  await line.rows("INSERT INTO writers (writer_id, lease_until) VALUES ('older', now() + interval '1 minute')")
  await t.rejects(openPostgresStore(database.url), {
    message: `The database has schema version ${from}, this program would bring it to ${to}, and a server of another version is using it`
  })
  t.equal((await line.rows('SELECT 1 FROM migrations')).length, from)
})

t.test('a process whose database was changed by a newer program takes no more writes, and says why', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const store = await openPostgresStore(database.url)
  t.teardown(() => store.close())
  const { thread_id } = await addThread(store)
  const line = await lineTo(t, database.url)
  const newer = 'INSERT INTO migrations (version, applied_at, min_reader, min_writer) VALUES (998, now(), 0, 0)'
  await line.rows(newer)
  await addThread(store)
  await (await openPostgresStore(database.url)).close()
  t.pass('but beside a newer schema that lets it, it opens and writes')
  await line.rows('INSERT INTO migrations (version, applied_at, min_reader) VALUES (999, now(), 0)')
  await t.rejects(openPostgresStore(database.url), { message: /schema version 999, this program knows versions up to/ })
  await (await openPostgresStore(database.url, { mayMigrate: false })).close()
  t.pass('who only reads may, where readers may')
  const error: unknown = await addThread(store).catch((error: unknown) => error)
  t.match(error, { name: 'StoreUnavailable', code: 'SCHEMA_NEWER', passes: false, message: /schema version 999/ })
  t.match(await store.threads.get(thread_id, null), { thread_id }, 'what is there can be read')
  await line.rows('DELETE FROM migrations WHERE version >= 998')
  await addThread(store)
})
