// Databases of other days: of every schema that we have had, of a program to come, of one that was killed in the middle of it, and of
// a time before users.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t, { type Test } from 'tap'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { openDatabase } from '../../lib/store/open.ts'
import type { Migrated, MigrationProgress } from '../../lib/store/sql/migrations.ts'
import { migrate } from '../../lib/store/sqlite/schema.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import { StoreUnavailable } from '../../lib/store/store.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { addThread, idsOf } from '../contract/harness.ts'
import { oldSqlite, SQLITE_STEPS as STEPS } from '../fixtures/old-schema.ts'

/** Steps after which the version of the program before them would read or write something wrong. */
const BREAKING = [5, 6, 8, 9, 16, 18, 19, 21, 24, 29, 30, 31]
/** Rows enough that a migration takes some time. */
const MANY = 60_000

/** More threads: whose, and with which metadata. */
const THREADS: readonly [id: string, user: string | null, metadata: JsonObject][] = [
  ['same', 'u', { a: 1 }],
  ['nobodys', null, { a: 1 }],
  ['other', 'v', { a: true }],
  ['nested', 'u', { a: { b: [1.5, null, 'x'] }, '$."': true }],
  ['strange', 'u', { 'a\u0000': '\ud800\u0000\u2028' }],
  ['long', 'u', { a: 'x'.repeat(1_000_000) }]
]

/** A file as the first `version` steps of the schema leave it, with a row or more in every table that they have. */
function madeBy(t: Test, version: number, bodies = 3): string {
  const path = join(t.testdir(), 'old.db')
  const db = oldSqlite(path, version)
  db.exec(`
    INSERT INTO users (id, email, password_hash, created_at) VALUES ('u', 'ann@example.com', 'hash', '2026-01-01T00:00:00.000000+00:00');
    INSERT INTO threads_meta (thread_id, user_id, metadata_json, created_at, updated_at, next_seq, next_ordinal)
      VALUES ('t', 'u', '{"a":1}', '2026-01-01T00:00:00.000000+00:00', '2026-01-01T00:00:00.000000+00:00', 2, 1);
    INSERT INTO checkpoints (thread_id, checkpoint_id, metadata_json, next_json, messages_json, channels_json, created_at)
      VALUES ('t', 'c', '{}', '[]', '[[0,1]]', '{"title":2}', '2026-01-01T00:00:00.000000+00:00');`)
  const thread = db.prepare(
    `INSERT INTO threads_meta (thread_id, user_id, metadata_json, created_at, updated_at) VALUES (?, ?, ?, '', '')`
  )
  for (const [id, user, metadata] of THREADS) thread.run(id, user, JSON.stringify(metadata))
  // From here on whoever writes a thread writes its terms.
  if (version >= 5)
    db.exec(`INSERT INTO thread_terms SELECT coalesce(user_id, 0), term.value, threads_meta.key
      FROM threads_meta, json_each(terms_of(metadata_json)) AS term`)
  const body = db.prepare('INSERT INTO checkpoint_bodies (thread_id, no, json) VALUES (?, ?, ?)')
  db.transaction(() => {
    for (let no = 0; no < bodies; no++)
      body.run('t', no, no === 2 ? '"A title"' : `{"type":"human","id":"m${no}","content":"${no}"}`)
  })()
  if (version >= 12) addGraph(db)
  db.close()
  return path
}

/** What a graph has kept of thread `t` that waits for an answer, as tables were before their last step. */
function addGraph(db: ReturnType<typeof oldSqlite>): void {
  db.exec(`
    INSERT INTO graph_checkpoints (thread_id, ns, checkpoint_id, run_id, checkpoint, metadata, names_json)
      VALUES ('t', '', 'c', 'r', '{}', '{"step":1}', '["items 1"]');
    INSERT INTO graph_values (thread_id, ns, name, type, data) VALUES ('t', '', 'items 1', 'json', '["in"]');`)
  const columns = db.prepare("SELECT name FROM pragma_table_info('graph_writes') WHERE name = 'run_id'").all()
  const [name, value] = columns.length > 0 ? [', run_id', `, ''`] : ['', '']
  const pending = db.prepare(`INSERT INTO graph_writes
    (thread_id, ns, checkpoint_id, task_id, task_path, idx, channel, type, data${name}) VALUES ('t', '', 'c', ?, '', ?, ?, 'json', ?${value})`)
  pending.run('b', 0, 'items', '["n1"]')
  pending.run('a', -3, '__interrupt__', '"which?"')
}

const PENDING = [
  { task_id: 'a', task_path: '', idx: -3, channel: '__interrupt__', type: 'json', data: '"which?"' },
  { task_id: 'b', task_path: '', idx: 0, channel: 'items', type: 'json', data: '["n1"]' }
]

/** All rows of tables, but for the numbers that rows have since a later schema. */
function rowsOf(path: string, tables: readonly string[]): unknown {
  const db = new Sqlite(path, { readonly: true })
  const columns = db
    .prepare<[string], string>(
      "SELECT name FROM pragma_table_info(?) WHERE name NOT IN ('key', 'is_temporary', 'disabled_at', 'stored_bytes', 'groups_json', 'quota_json')"
    )
    .pluck()
  const rows = tables.map((table) => {
    const names = columns.all(table).join(', ')
    return [table, db.prepare(`SELECT ${names} FROM ${table} ORDER BY 1, 2`).all()]
  })
  db.close()
  return rows
}

const TABLES = ['users', 'threads_meta', 'checkpoints', 'checkpoint_bodies']

for (const version of STEPS.map((_, index) => index + 1)) {
  t.test(`a database of schema ${version} opens, and has all that it had`, async (t) => {
    const path = madeBy(t, version)
    const before = rowsOf(path, TABLES)
    const told: Migrated[] = []
    const store = await openSqliteStore(path, { onMigrated: (what) => void told.push(what) })
    const breaking = BREAKING.some((step) => step > version)
    t.match(
      told,
      version < STEPS.length ? [{ from: version, to: STEPS.length, breaking }] : [],
      'what was done is told'
    )
    t.match(await store.users.byEmail('ann@example.com'), { id: 'u' })
    t.match(await store.threads.get('t', 'u'), { metadata: { a: 1 } })
    t.strictSame(await idsOf(store, { metadata: { a: 1 } }, 'u'), ['t', 'same', 'nobodys'])
    for (const [id, user, metadata] of THREADS.slice(2)) t.strictSame(await idsOf(store, { metadata }, user), [id], id)
    const state = await store.checkpoints.load('t', null)
    t.match(state, { messageBodies: [{ json: /"m0"/ }, { json: /"m1"/ }], channelBodies: [{ json: '"A title"' }] })
    const values = [{ name: 'items 1', type: 'json', data: '["in"]' }]
    const graph = { checkpoint_id: 'c', metadata: '{"step":1}', values, writes: PENDING }
    t.match(await store.graphStates.load('t', '', null), version >= 12 ? graph : null)
    await store.close()
    t.strictSame(rowsOf(path, TABLES), before)
  })
}

t.test('a migration that is killed in the middle is whole at the next start', async (t) => {
  const original = madeBy(t, 1, MANY)
  const before = rowsOf(original, TABLES)
  const imported = (file: string) =>
    `await import(${JSON.stringify(new URL(`../../lib/store/sqlite/${file}.js`, import.meta.url).href)})`
  // Killed by its own count, behind a step's last statement and before its commit: how long a step takes is the machine's affair.
  const program = `const { connect } = ${imported('connection')}; const { migrate } = ${imported('schema')};
    const [, path, cutAfter] = process.argv, db = connect(path), exec = db.exec.bind(db)
    let count = 0
    db.exec = (sql) => {
      exec(sql)
      if (++count === Number(cutAfter)) process.kill(process.pid, 'SIGKILL')
      return db
    }
    migrate(db)
    console.log(count)`
  const migrated = async (path: string, cutAfter = 0) => {
    const args = ['--input-type=module', '-e', program, path, String(cutAfter)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.on('data', (bytes) => {
      said += String(bytes)
    })
    const [code, signal] = await once(child, 'close')
    return { code, signal, said }
  }
  const whole = `${original}.whole`
  copyFileSync(original, whole)
  const { code, said } = await migrated(whole)
  t.equal(code, 0)
  const count = Number(said)
  t.ok(count >= STEPS.length - 1, `${count} statements or scripts`)
  for (const share of [0.1, 0.4, 0.7, 1]) {
    const path = `${original}.${share}`
    copyFileSync(original, path)
    t.equal((await migrated(path, Math.ceil(count * share))).signal, 'SIGKILL')
    const again = connect(path)
    const steps = again.prepare<[], number>('SELECT count(*) FROM migrations').pluck()
    t.ok(steps.get()! < STEPS.length, `cut after ${steps.get()} steps`)
    migrate(again)
    t.equal(steps.get(), STEPS.length)
    t.equal(again.pragma('integrity_check', { simple: true }), 'ok')
    again.close()
    t.strictSame(rowsOf(path, TABLES), before)
  }
})

t.test('a database that was created before user isolation is refused, with what can be done', async (t) => {
  const path = join(t.testdir(), 'early.db')
  const db = new Sqlite(path)
  db.exec(`
    CREATE TABLE threads_meta (thread_id VARCHAR(64) PRIMARY KEY, assistant_id VARCHAR(128), display_name VARCHAR(256));
    CREATE TABLE runs (run_id VARCHAR(64) PRIMARY KEY, thread_id VARCHAR(64), status VARCHAR(20))`)
  db.close()
  await t.rejects(openSqliteStore(path), {
    message:
      /before user isolation: threads_meta, runs without user_id\. No migration exists for it: use a fresh database, or alter it by hand/
  })
  const after = new Sqlite(path, { readonly: true })
  t.strictSame(after.prepare('SELECT name FROM sqlite_master').pluck().all().length, 4, 'and is left as it was')
  after.close()
})

t.test('a database of another program with tables of our names is refused, and left alone', async (t) => {
  const path = join(t.testdir(), 'foreign.db')
  const db = new Sqlite(path)
  db.exec('CREATE TABLE runs (run_id TEXT, user_id TEXT)')
  db.close()
  await t.rejects(openSqliteStore(path), { message: /has runs, and was created by another program/ })
})

// ------------------------------------------------------------------------- a newer program beside an older one

t.test('before a schema is changed the file is copied, and what was done is told', async (t) => {
  const path = madeBy(t, 5)
  const before = rowsOf(path, TABLES)
  const told: Migrated[] = []
  const steps: string[] = []
  const onProgress = ({ phase, version, bytes }: MigrationProgress) => steps.push(`${phase} ${version} ${bytes! > 0}`)
  const options = { hasBackup: true, onProgress, onMigrated: (what: Migrated) => void told.push(what) }
  await (await openSqliteStore(path, options)).close()
  const changes = STEPS.slice(5).map((_, index) => `expand ${index + 6} true`)
  t.strictSame(steps, ['copy 5 true', ...changes], 'each part is said before it is done')
  t.match(told, [{ from: 5, to: STEPS.length, breaking: true, duration_ms: Number, backup: String }])
  const { backup } = told[0]!
  t.match(backup, /\.schema-5\.\d+\.bak$/)
  t.strictSame(rowsOf(backup!, TABLES), before, 'the copy is the database as it was')
  await (await openSqliteStore(path, options)).close()
  t.equal(told.length, 1, 'once')
  await (await openSqliteStore(`${path}.new`, options)).close()
  t.equal(told.length, 1, 'a new database is no change')
  const plain = madeBy(t, 5)
  await (await openSqliteStore(plain, { ...options, hasBackup: false })).close()
  t.match(told[1], { from: 5, backup: null }, 'unless it is told not to')
})

t.test(
  '`database.migration_backup` decides whether there is a copy of the file: yes, unless it is false',
  async (t) => {
    for (const [migration_backup, copies] of [
      [undefined, 1],
      [true, 1],
      [false, 0]
    ] as const) {
      const home = join(t.testdir(), String(migration_backup))
      mkdirSync(home)
      const sqlite_path = join(home, 'colloquy.db')
      oldSqlite(sqlite_path, 5).close()
      const told: object[] = []
      const database = {
        backend: 'sqlite',
        sqlite_path,
        ...(migration_backup !== undefined && { migration_backup })
      } as const
      const options = { home, database, run_events: { backend: 'db' } } as const
      await (await openDatabase(options, (fields) => 'from' in fields && told.push(fields))).close()
      t.match(told, [{ from: 5, to: STEPS.length, backup: copies === 0 ? null : String }], home)
      t.equal(readdirSync(home).filter((name) => name.endsWith('.bak')).length, copies, home)
    }
  }
)

t.test('a schema is not changed when no copy can be made of the file', async (t) => {
  const path = madeBy(t, 5)
  const db = new Sqlite(path)
  // As if there were no room for it.
  const full = new Proxy(db, {
    get(_, name) {
      if (name === 'name') return join(path, 'no folder')
      const member: unknown = Reflect.get(db, name)
      return typeof member === 'function' ? member.bind(db) : member
    }
  })
  t.throws(() => migrate(full, { hasBackup: true }), {
    message: /No copy of the database could be made.*migration_backup/
  })
  t.equal(db.prepare('SELECT max(version) FROM migrations').pluck().get(), 5)
  db.close()
})

t.test(
  'a database that a server of another version has is left as it is by every command of a newer program',
  async (t) => {
    const [home, elsewhere] = [
      mkdtempSync(join(tmpdir(), 'colloquy-old-')),
      mkdtempSync(join(tmpdir(), 'colloquy-old-'))
    ]
    t.teardown(() => {
      for (const folder of [home, elsewhere]) rmSync(folder, { recursive: true, force: true })
    })
    const path = join(home, 'colloquy.db')
    copyFileSync(madeBy(t, 5), path)
    const program = `const { lockPremises } = await import(${JSON.stringify(new URL('../../lib/files/home.js', import.meta.url).href)})
    lockPremises({ home: process.argv[1], canShare: false, databaseFile: process.argv[2] || null })
    console.log('locked'); setInterval(() => {}, 1000)`
    const database = { backend: 'sqlite', sqlite_path: path } as const
    const options = { home, database, run_events: { backend: 'db' } } as const
    // One that locks its home alone, as versions before this did, and one that locks the file as well.
    for (const [at, file] of [
      [home, ''],
      [elsewhere, path]
    ] as const) {
      const server = spawn(process.execPath, ['--input-type=module', '-e', program, at, file], {
        stdio: ['ignore', 'pipe', 'inherit']
      })
      await once(server.stdout, 'data')
      await t.rejects(
        openDatabase(options, () => {}),
        { message: /schema version 5.*a server of another version is using it/ }
      )
      const closed = once(server, 'close')
      server.kill('SIGKILL')
      await closed
    }
    const told: object[] = []
    await (await openDatabase(options, (fields) => 'from' in fields && told.push(fields))).close()
    t.match(told, [{ from: 5, to: STEPS.length }], 'when it has stopped')
  }
)

t.test('a process whose database was changed by a newer program takes no more writes, and says why', async (t) => {
  const path = join(t.testdir(), 'colloquy.db')
  const store = await openSqliteStore(path)
  const { thread_id } = await addThread(store)
  const newer = new Sqlite(path)
  newer.prepare('INSERT INTO migrations (version, applied_at) VALUES (999, ?)').run(new Date().toISOString())
  const error: unknown = await addThread(store).catch((error: unknown) => error)
  t.ok(error instanceof StoreUnavailable, String(error))
  t.match(error, {
    code: 'SCHEMA_NEWER',
    passes: false,
    message: /schema version 999, and this one knows \d+: start the newer one/
  })
  t.match(await store.threads.get(thread_id, null), { thread_id }, 'what is there can be read')
  newer.prepare('DELETE FROM migrations WHERE version = 999').run()
  newer.close()
  await addThread(store)
  await store.close()
})
