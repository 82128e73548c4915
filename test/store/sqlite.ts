// The SQLite store under all suites, on real files.
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type Database from 'better-sqlite3'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t from 'tap'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { frameWrites } from '../../lib/store/sqlite/frames.ts'
import { type Reader, ReaderThread } from '../../lib/store/sqlite/reader.ts'
import { migrate } from '../../lib/store/sqlite/schema.ts'
import { migrationsIn } from '../../lib/store/sql/migrations.ts'
import { openSqliteStore, pruneFile, readsOf } from '../../lib/store/sqlite/open.ts'
import { framesOf } from '../../lib/run/log/segment.ts'
import { type Group, type Segment, type Store, StoreUnavailable, type ThreadQuery } from '../../lib/store/store.ts'
import type { Json, Run } from '../../lib/base/types.ts'
import { addEndedRun, addRun, addThread, anEvent, aRun, aSettlement, aUser, eventsOf } from '../contract/harness.ts'
import { type Opened, storeContract, write } from '../contract/index.ts'
import { logSlowStatements } from '../../lib/store/slow-statements.ts'
import { WriteAheadLog } from '../../lib/store/sqlite/wal.ts'
import { until } from '../fixtures/until.ts'

const STEPS = migrationsIn(new URL('../../lib/store/sqlite/migrations/', import.meta.url))

/** What a foreign process does that holds the write lock. */
async function jam(path: string): Promise<() => Promise<void>> {
  const db = new Sqlite(path)
  db.exec('BEGIN IMMEDIATE')
  return async () => {
    db.exec('ROLLBACK')
    db.close()
  }
}

async function open(): Promise<Opened> {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-sqlite-'))
  const path = join(folder, 'colloquy.db')
  let store = await openSqliteStore(path)
  return {
    store,
    async reopen() {
      await store.close()
      store = await openSqliteStore(path)
      return store
    },
    jam: () => jam(path),
    async close() {
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

storeContract(t, 'sqlite', open)

t.test(
  'every connection journals ahead, synchronous NORMAL, with foreign keys, and waits five seconds for a lock',
  async (t) => {
    const folder = t.testdir()
    const db = connect(join(folder, 'settings.db'))
    t.equal(db.pragma('journal_mode', { simple: true }), 'wal')
    t.equal(db.pragma('synchronous', { simple: true }), 1)
    t.equal(db.pragma('foreign_keys', { simple: true }), 1)
    t.equal(db.pragma('busy_timeout', { simple: true }), 5000)
    db.close()
  }
)

t.test('a database that is newer than this program is refused, with both versions named', async (t) => {
  const path = join(t.testdir(), 'newer.db')
  const db = connect(path)
  migrate(db)
  db.prepare('INSERT INTO migrations (version, applied_at) VALUES (999, ?)').run('later')
  db.close()
  await t.rejects(openSqliteStore(path), {
    message: `The database has schema version 999, this program knows versions up to ${STEPS.length}: start a newer one`
  })
})

t.test('what is committed is carried over into the file, though nothing else is written', async (t) => {
  const folder = t.testdir()
  const path = join(folder, 'colloquy.db')
  const store = await openSqliteStore(path)
  t.teardown(() => store.close())
  const { thread_id } = await addThread(store)
  t.equal((await store.threads.get(thread_id, null))?.thread_id, thread_id)
  let copies = 0
  const isInFile = () => {
    // Without the log that lies beside it.
    const copy = join(folder, `copy-${copies++}.db`)
    copyFileSync(path, copy)
    const db = new Sqlite(copy)
    const found = db.prepare('SELECT 1 FROM threads_meta WHERE thread_id = ?').get(thread_id)
    db.close()
    return found !== undefined
  }
  t.notOk(isInFile(), 'a commit does not wait for it')
  await until(isInFile, 'it is in the file')
})

t.test('migrating twice changes nothing', async (t) => {
  const db = connect(join(t.testdir(), 'twice.db'))
  migrate(db)
  migrate(db)
  t.same(
    db.prepare('SELECT version FROM migrations').all(),
    STEPS.map(({ version }) => ({ version }))
  )
  db.close()
})

t.test('a row that may be large has a rowid, or every search that comes past it reads all of it', async (t) => {
  const path = join(t.testdir(), 'large.db')
  const db = connect(path)
  // As the second version left it.
  for (const name of ['000001.sql', '000002.sql'])
    db.exec(readFileSync(new URL(`../../lib/store/sqlite/migrations/${name}`, import.meta.url), 'utf8'))
  db.exec('CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)')
  db.exec("INSERT INTO migrations VALUES (1, ''), (2, '')")
  db.exec(`
    INSERT INTO threads_meta (thread_id, user_id, metadata_json, created_at, updated_at, next_seq) VALUES ('t', 'u', '{"a":1}', 'c', 'd', 7);
    INSERT INTO checkpoints VALUES ('t', 'c1', NULL, 'r', '{}', '[]', '[[0,1]]', '{"title":2}', 'e');
    INSERT INTO checkpoint_bodies VALUES ('t', 0, '"zero"'), ('t', 1, '"one"'), ('t', 2, '"two"')`)
  const tables = ['threads_meta', 'checkpoints', 'checkpoint_bodies']
  const rows = () => tables.map((table) => db.prepare<[], object>(`SELECT * FROM ${table}`).all())
  const before = rows()
  migrate(db)
  t.match(rows(), before, 'nothing is lost on the way')
  const clustered = db
    .prepare<[], { name: string; sql: string }>("SELECT name, sql FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%'")
    .all()
  t.strictSame(
    clustered.filter(({ sql }) => /json|content|BLOB/i.test(sql)).map(({ name }) => name),
    []
  )
  db.close()
})

t.test('[Auth 6] a thread that was taken from its user by hand is found by its metadata, by everybody', async (t) => {
  const path = join(t.testdir(), 'by-hand.db')
  const first = await openSqliteStore(path)
  const { thread_id } = await addThread(first, { user_id: 'ann', metadata: { word: 'one' } })
  await first.close()
  const db = connect(path)
  db.prepare('UPDATE threads_meta SET user_id = NULL WHERE thread_id = ?').run(thread_id)
  db.close()
  const store = await openSqliteStore(path)
  t.teardown(() => store.close())
  for (const user of ['ann', 'bob']) {
    const page = await store.threads.search({ metadata: { word: 'one' }, limit: 10, offset: 0 }, user)
    t.match(page, { threads: [{ thread_id, user_id: null }], total: 1 }, user)
  }
})

t.test('frames read the same before and after they are compressed, from any n', async (t) => {
  const { store, close } = await open()
  t.teardown(close)
  const thread_id = (await addThread(store)).thread_id
  const { key } = await addEndedRun(store, thread_id)
  for (let first = 0; first < 600; first += 3) {
    await write(store, { name: 'frames.append', run_key: key, thread_id, segment: segment(first) })
  }
  const before = await framesFrom(store, key, 0)
  for (let from: number | null = 0; from !== null; ) {
    from = (await write(store, { name: 'frames.compact', run_key: key, from })).next
  }
  t.same(await framesFrom(store, key, 0), before)
  t.ok(
    (await store.frames.read(key, 0, 1)).length === 1 && (await store.frames.read(key, 0, 1))[0]!.last > 100,
    'they are together'
  )
  t.same(await framesFrom(store, key, 301), before.slice(301))
})

/** A connection that notes what it is asked, and a thread for long reads that is none. */
function noting(db: Database.Database): { db: Database.Database; reader: Reader; asked: Set<string> } {
  const asked = new Set<string>()
  const noting = new Proxy(db, {
    get(target, name) {
      if (name !== 'prepare') return Reflect.get(target, name, target)
      return (sql: string) => {
        asked.add(sql)
        return target.prepare(sql)
      }
    }
  })
  const reader: Reader = {
    // What the statement answers.
    rows: async <Row>(sql: string, params: object) => noting.prepare<object>(sql).all(params) as Row[]
  }
  return { db: noting, reader, asked }
}

t.test('every list is a range of an index, in the order in which it is asked for', async (t) => {
  const file = connect(join(t.testdir(), 'lists.db'))
  t.teardown(() => file.close())
  migrate(file)
  const { db, reader, asked } = noting(file)
  const { threads, runs, events, feedback } = readsOf(db, reader).reads
  const page = { limit: 10, offset: 20 }
  for (const sortBy of ['updated_at', 'created_at', 'thread_id'] as const)
    for (const sortOrder of ['asc', 'desc'] as const) await threads.search({ ...page, sortBy, sortOrder }, 'u')
  await threads.search({ ...page, status: 'error' }, 'u')
  await threads.get('t', 'u')
  await threads.ownerOf('t')
  await runs.get('r', 'u')
  await runs.byKey('k', 'u')
  await runs.list('t', page, 'u')
  await runs.after('t', 1, 'u')
  await runs.inFlight('t')
  await runs.unfinished('u')
  await runs.tokens('t', 'u')
  for (const seqPage of [{ limit: 10 }, { limit: 10, after: 3 }]) {
    await events.listMessages('t', seqPage, 'u')
    await events.listMessagesByRun('t', 'r', seqPage, 'u')
    await events.listEvents('t', 'r', seqPage, 'u')
  }
  await events.listEvents('t', 'r', { limit: 10, types: ['x'] }, 'u')
  await events.nextSeq('t')
  await events.lastK('t', 'r')
  await feedback!.list('t', 'r', 'u')
  await feedback!.stats('t', 'r')
  await feedback!.byRuns('t', ['r'], 'u')
  await feedback!.newest(10)
  t.ok(asked.size > 20, `${asked.size} statements`)
  for (const sql of asked) {
    const names = [...sql.matchAll(/[@$](\w+)/g)].map(([, name]) => [name, null])
    const plan = file
      .prepare<object, { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
      .all(sql.includes('?') ? [...sql.matchAll(/\?/g)].map(() => null) : Object.fromEntries(names))
      .map(({ detail }) => detail)
    const scans = plan.filter((step) => /^SCAN (threads_meta|runs|run_events|frames|checkpoints|feedback)\b/.test(step))
    t.strictSame(
      scans.filter((step) => !/USING (COVERING )?INDEX/.test(step)),
      [],
      `${sql} reads no table through`
    )
    // Ids of equal times are put in order by themselves, and the few rows of both parts of a page.
    const isSorted = plan.some(
      (step, at) =>
        /USE TEMP B-TREE FOR (LAST \d+ TERMS OF )?ORDER BY/.test(step) && !/^SCAN part_/.test(plan[at - 1] ?? '')
    )
    if (/FROM run_events INDEXED BY|AS part_0/.test(sql)) t.notOk(isSorted, `${sql} has its order from the index`)
  }
})

t.test('reads that may be long are made beside the event loop, which turns meanwhile', async (t) => {
  const { store, close } = await open()
  t.teardown(close)
  const { thread_id } = await addThread(store, { user_id: 'ann', metadata: { a: 1, b: 2 } })
  const run = await addRun(store, thread_id)
  const isAtOnce = async (work: () => Promise<unknown>) => {
    let isDone = false
    const working = work().then(() => {
      isDone = true
    })
    // Within one turn of the loop.
    for (let n = 0; n < 100; n++) await null
    const wasDone = isDone
    await working
    return wasDone
  }
  const search = (query: Partial<ThreadQuery>) => () => store.threads.search({ limit: 10, offset: 0, ...query }, 'ann')
  t.ok(await isAtOnce(search({})), 'a page of the newest is read at once')
  const long: Record<string, () => Promise<unknown>> = {
    'a page far behind': search({ offset: 50_000 }),
    'in an order that no index has': search({ sortBy: 'status' }),
    'by a status in another order': search({ status: 'idle', sortBy: 'created_at' }),
    'by metadata, counted': search({ metadata: { a: 1, b: 2 } }),
    'events of some types': () => store.events.listEvents(thread_id, run.run_id, { types: ['x'], limit: 10 }, null)
  }
  for (const [name, work] of Object.entries(long)) t.notOk(await isAtOnce(work), name)
})

/** A thread of so many events that its removal in one go would hold up everybody for seconds. */
const LONG = 100_000

t.test('a very long thread is removed step by step, commits go between, and a restart goes on with it', async (t) => {
  const path = join(t.testdir(), 'long.db')
  const first = await openSqliteStore(path)
  const run = await addRun(first, (await addThread(first)).thread_id)
  await first.close()
  const file = connect(path)
  t.teardown(() => file.close())
  file
    .prepare(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${LONG - 1})
      INSERT INTO run_events (thread_id, run_id, event_type, category, content, seq, k, message_id, created_at)
      SELECT ?, ?, 'ai_message', 'message', printf('%.500c', 'x'), i + 1, i, 'message ' || i, '' FROM n`)
    .run(run.thread_id, run.run_id)
  const left = () => file.prepare<[], number>('SELECT count(*) FROM run_events').pluck().get()!
  const store = await openSqliteStore(path)
  const started = performance.now()
  await write(store, { name: 'thread.remove', thread_id: run.thread_id, user: null })
  await write(store, { name: 'store.ping' })
  t.comment(`answered, and another commit behind it, after ${(performance.now() - started).toFixed(0)} ms`)
  t.ok(left() > 0, 'all others are written before it is gone')
  t.strictSame(await store.events.listMessages(run.thread_id, { limit: 1 }, null), [])
  await store.close()
  const before = left()
  t.ok(before > 0)
  const again = await openSqliteStore(path)
  t.teardown(() => again.close())
  let longest = 0
  while (left() > 0) {
    const begun = performance.now()
    await write(again, { name: 'store.ping' })
    longest = Math.max(longest, performance.now() - begun)
  }
  t.comment(`the longest commit beside the removal of ${before} events took ${longest.toFixed(0)} ms`)
  await until(() => file.prepare('SELECT 1 FROM removed_threads').get() === undefined, 'it is forgotten')
  for (const table of ['runs', 'checkpoints', 'checkpoint_bodies'])
    t.equal(file.prepare(`SELECT count(*) FROM ${table}`).pluck().get(), 0, table)
})

t.test('a sweep looks at runs that have ended, and at those once', async (t) => {
  const file = connect(join(t.testdir(), 'sweep.db'))
  t.teardown(() => file.close())
  migrate(file)
  const { db, asked } = noting(file)
  frameWrites(db)
  const step = [...asked].find((sql) => sql.includes('is_swept = 0'))!
  const [plan] = file.prepare<[null], { detail: string }>(`EXPLAIN QUERY PLAN ${step}`).all(null)
  t.match(plan?.detail, /USING (COVERING )?INDEX ix_runs_to_sweep/)
  t.notOk([...asked].some((sql) => /FROM frames AS f LEFT JOIN/.test(sql)))

  const path = join(t.testdir(), 'swept.db')
  const store = await openSqliteStore(path)
  await addEndedRun(store, (await addThread(store)).thread_id, { now: '2026-01-01T00:00:00+00:00' })
  await write(store, { name: 'frames.sweep', before: '2026-02-01T00:00:00+00:00', after: 0, limit: 10 })
  await store.close()
  const swept = connect(path)
  t.strictSame(swept.prepare('SELECT is_swept FROM runs').pluck().all(), [1], 'the next sweep does not look at it')
  swept.close()
})

t.test('runs in flight are found by their status, not among all runs of their thread', async (t) => {
  const db = connect(':memory:')
  t.teardown(() => db.close())
  migrate(db)
  const seen = noting(db)
  const { runs } = readsOf(seen.db, seen.reader).reads
  seen.asked.clear()
  await runs.inFlight('thread')
  const [sql] = seen.asked
  const plan = db.prepare<object, { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
  t.match(plan.all({ 1: 'thread' })[0]?.detail, /USING INDEX ix_runs_thread_status \(thread_id=\? AND status=\?\)/)
})

t.test('the frames of a short run are compressed in one step, which says that it was the last', async (t) => {
  const { store, close } = await open()
  t.teardown(close)
  const thread_id = (await addThread(store)).thread_id
  const { key } = await addEndedRun(store, thread_id)
  for (const first of [0, 3])
    await write(store, { name: 'frames.append', run_key: key, thread_id, segment: segment(first) })
  const before = await framesFrom(store, key, 0)
  t.same(await write(store, { name: 'frames.compact', run_key: key, from: 0 }), { next: null })
  t.same(await framesFrom(store, key, 0), before)
  t.equal((await store.frames.read(key, 0, 1))[0]?.last, before.length - 1, 'they are one row')
})

t.test(
  'an event that is no JSON is about its group: nothing of the batch is written, the rest can be [Store 3]',
  async (t) => {
    const { store, close } = await open()
    t.teardown(close)
    const runs = [
      await addRun(store, (await addThread(store)).thread_id),
      await addRun(store, (await addThread(store)).thread_id)
    ]
    const append = ({ thread_id, run_id }: Run, content: Json) =>
      ({ name: 'events.append', thread_id, run_id, user_id: null, events: [anEvent(0, { content })] }) as const
    // As a runtime might leave it there: no type would let it pass.
    const itself: Record<string, Json> = {}
    itself.member = itself
    const good = append(runs[0]!, 'kept')
    const error = await store.apply([{ ops: [good] }, { ops: [append(runs[1]!, itself)] }]).catch((reason) => reason)
    t.match(error, { message: /circular/i })
    t.notOk(error instanceof StoreUnavailable, 'so it is not handed over again as it is')
    t.same(await eventsOf(store, runs[0]!), [])
    t.equal(await write(store, good), 1)
    t.match(await eventsOf(store, runs[0]!), [{ content: 'kept' }])
  }
)

t.test('a frame is refused with its reason: its run is gone, or it is there already', async (t) => {
  const { store, close } = await open()
  t.teardown(close)
  const { key, thread_id } = await addRun(store, (await addThread(store)).thread_id)
  const append = { name: 'frames.append', run_key: key, thread_id, segment: segment(0) } as const
  await write(store, append)
  const ops = [append, { ...append, run_key: key + 1 }, { ...append, thread_id: 'another' }]
  const outcomes = await store.apply(ops.map((op) => ({ ops: [op] })))
  t.match(outcomes, [
    { ok: false, message: /UNIQUE/ },
    { ok: false, message: /is gone/ },
    { ok: false, message: /is gone/ }
  ])
})

for (const moment of ['before', 'after'] as const)
  t.test(
    `a writer thread that dies ${moment} the commit and before its answer: the batch is there once [Store 3]`,
    async (t) => {
      const path = join(t.testdir(), 'colloquy.db')
      const worker = new URL('../fixtures/dying-writer.js', import.meta.url)
      const store = await openSqliteStore(path, { worker })
      t.teardown(() => store.close())
      const { thread_id } = await addThread(store)
      const run = await addRun(store, thread_id)
      const { key, run_id } = run
      const groups: Group[] = [
        {
          ops: [
            { name: 'frames.append', run_key: key, thread_id, segment: segment(0) },
            { name: 'events.append', thread_id, run_id, user_id: null, events: [anEvent(0)] },
            aSettlement(run)
          ]
        },
        { ops: [{ name: 'user.create', user: aUser({ email: 'ann@example.com' }) }] },
        { ops: [{ name: 'run.create', run: aRun(thread_id), autoFollowUp: true }] }
      ]
      writeFileSync(`${path}.dies-${moment}`, '')
      const first = await store.apply(groups).catch((error: unknown) => error)
      if (moment === 'before') t.match(first, { name: 'StoreUnavailable', code: 'WRITER_GONE' })
      t.match(moment === 'before' ? await store.apply(groups) : first, [
        { ok: true, results: [null, 1, true] },
        { ok: true, results: ['created'] },
        { ok: true, results: [{ outcome: 'created', run: { ordinal: 2, follow_up_to_run_id: run_id } }] }
      ])
      t.equal(store.trouble, null)
      t.equal((await eventsOf(store, run)).length, 1)
      t.same((await framesFrom(store, key, 0)).length, 3)
      t.match(await store.runs.get(run_id, null), { status: 'success' })
      t.match(await store.apply([{ ops: [{ name: 'store.ping' }] }]), [{ ok: true }], 'and it goes on')
    }
  )

/** Three frames of 100 bytes each. */
function segment(first: number): Segment {
  const index = Buffer.alloc(15)
  for (const i of [0, 1, 2]) index.writeUInt32LE(100, i * 5 + 1)
  const data = Buffer.concat([0, 1, 2].map((i) => Buffer.from(`frame ${first + i} `.padEnd(100, '.'))))
  return { epoch: 1, first, last: first + 2, index, data }
}

async function framesFrom(store: Store, key: number, n: number): Promise<string[]> {
  const segments = await store.frames.read(key, n, Number.MAX_SAFE_INTEGER)
  const frames = segments.flatMap((one) => [...framesOf(one)])
  return frames
    .filter((frame) => frame.n >= n)
    .map(({ n, epoch, kind, bytes }) => `${epoch}-${n} ${kind} ${bytes.toString()}`)
}

/** What stands in the database's files, as text. */
function bytesIn(file: string): string {
  return ['', '-wal'].map((end) => (existsSync(file + end) ? readFileSync(file + end, 'latin1') : '')).join('')
}

async function writeAndDelete(store: Store, secret: string): Promise<void> {
  const { thread_id } = await addThread(store, { metadata: { secret } })
  const run = await addRun(store, thread_id)
  const events = Array.from({ length: 50 }, (_, n) => ({
    ...anEvent(n),
    content: { text: `${secret} ${'x'.repeat(500)}` }
  }))
  await write(store, { name: 'events.append', thread_id, run_id: run.run_id, user_id: null, events })
  await write(store, aSettlement(run))
  await write(store, { name: 'thread.remove', thread_id, user: null })
}

t.test('what was deleted is in no file: overwritten, and gone from the log when that is emptied', async (t) => {
  const file = join(t.testdir(), 'colloquy.db')
  const secret = 'a-secret-of-somebody-who-left'
  const store = await openSqliteStore(file, { truncateMs: 100 })
  t.teardown(() => store.close())
  await writeAndDelete(store, secret)
  await until(() => !bytesIn(file).includes(secret), 'the secret is gone')
  t.pass('it is')
})

t.test(
  'words of removed texts leave the file and the filter of their shelf, which is made anew, and every SQLite reads the file',
  async (t) => {
    const file = join(t.testdir(), 'colloquy.db')
    const store = await openSqliteStore(file, { truncateMs: 100 })
    t.teardown(() => store.close())
    const put = (n: number, words: readonly string[]) => {
      const texts = [{ seq: 1, at: '2026-01-01T00:00:00.000Z', words }]
      return write(store, { name: 'search.put', thread_id: `t${n}`, texts, done: null })
    }
    for (let n = 0; n < 130; n++) {
      await addThread(store, { thread_id: `t${n}` })
      await put(n, n === 10 ? ['heffalump'] : Array.from({ length: 9 }, (_, i) => `word${n * i}`))
    }
    const look = <Row>(sql: string): Row[] => {
      const db = new Sqlite(file, { readonly: true })
      const rows = db.prepare<[], Row>(sql).all()
      db.close()
      return rows
    }
    const shelves = () =>
      look<{ blocks: number; has: number }>('SELECT blocks, filter IS NOT NULL AS has FROM search_shelves ORDER BY id')
    t.strictSame(shelves(), [
      { blocks: 64, has: 1 },
      { blocks: 64, has: 1 },
      { blocks: 2, has: 0 }
    ])
    const [packed] = look<{ words: Buffer }>("SELECT words FROM search_blocks WHERE thread_id = 't10'")
    t.ok(bytesIn(file).includes(packed!.words.toString('latin1')))
    await write(store, { name: 'thread.remove', thread_id: 't10', user: null })
    t.match(shelves()[0], { blocks: 63, has: 0 })
    await until(() => !bytesIn(file).includes(packed!.words.toString('latin1')), 'its words are gone')
    const found = async (word: string) =>
      (await store.search!.find({ words: [word], prefix: null, limit: 10, offset: 0 }, null)).total
    t.strictSame([await found('word19'), await found('heffalump')], [1, 0], 'the others are found')
    await put(129, ['word1'])
    t.match(shelves()[0], { blocks: 63, has: 1 })
    t.strictSame([await found('word19'), await found('heffalump')], [1, 0])
    const remove = async (from: number, to: number) => {
      for (let n = from; n < to; n++)
        if (n !== 10) await write(store, { name: 'thread.remove', thread_id: `t${n}`, user: null })
      for (let times = 0; times < 3; times++) await put(129, ['word1'])
    }
    await remove(0, 60)
    t.strictSame(
      shelves().map(({ blocks, has }) => [blocks, has]),
      [
        [4, 1],
        [64, 1],
        [2, 0]
      ]
    )
    await remove(64, 90)
    await remove(60, 61)
    t.strictSame(
      shelves().map(({ blocks, has }) => [blocks, has]),
      [
        [41, 1],
        [2, 0]
      ],
      'the rest of a shelf goes to another one'
    )
    t.equal(await found('word427'), 1, 'of thread 61, which moved')
    t.strictSame(look("SELECT name FROM sqlite_master WHERE sql LIKE '%VIRTUAL%'"), [])
  }
)

t.test(
  'a file that another version has written is freed of what that one deleted by `prune`, beside a server',
  async (t) => {
    const file = join(t.testdir(), 'colloquy.db')
    const secret = 'a-secret-of-long-ago'
    const store = await openSqliteStore(file)
    t.teardown(() => store.close())
    const old = new Sqlite(file)
    old.pragma('secure_delete = OFF')
    old.exec(`CREATE TABLE old (text TEXT); INSERT INTO old VALUES ('${secret}')`)
    old.exec('DELETE FROM old')
    old.pragma('wal_checkpoint(TRUNCATE)')
    old.close()
    t.match(bytesIn(file), secret)
    await pruneFile(file)
    t.notMatch(bytesIn(file), secret)
    await addThread(store)
  }
)

t.test('a log that cannot be emptied is said so at once, and not tried again', async (t) => {
  const path = join(t.testdir(), 'strange.db')
  writeFileSync(path, 'x'.repeat(8192))
  const wal = new WriteAheadLog(path)
  await t.rejects(wal.empty(), { message: /not a database/, code: 'SQLITE_NOTADB' })
  await wal.stop()
})

t.test('a slow read beside the event loop has a line, and a fast one behind it has none', async (t) => {
  const path = join(t.testdir(), 'slow.db')
  connect(path).close()
  const lines: object[] = []
  logSlowStatements(100, (fields) => lines.push(fields))
  t.teardown(() => logSlowStatements(0, () => {}))
  const reader = new ReaderThread(path)
  const slow =
    'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000000) SELECT max(i) AS n FROM n'
  await Promise.all([reader.rows(slow, {}), reader.rows('SELECT 1 AS fast', {})])
  await reader.stop()
  t.match(lines, [{ statement: slow }])
  t.equal(lines.length, 1)
})
