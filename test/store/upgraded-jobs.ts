// What was to be done later in databases of other days: webhooks, turns of crons and times to live were tables of their own. After the
// upgrade each is a job that is due when it was, and is done.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import type { Store } from '../../lib/store/store.ts'
import type { DatabaseSection } from '../fixtures/backends.ts'
import { homeOf, openSite, textIn, until } from '../fixtures/gateway.ts'
import { oldPostgres, oldSqlite } from '../fixtures/old-schema.ts'
import { createDatabase } from '../fixtures/postgres.ts'
import { openReceiver } from '../fixtures/receiver.ts'

const THEN = '2026-01-01T00:00:00.000000+00:00'
const EVER = '2096-01-01T00:00:00.000000+00:00'
const NEXT = /-02-29T00:00:00/
const SCHEDULE = '0 0 29 2 *'
/** Versions of the schema that had them, of both databases: the first, the first with times to live, and the last. */
const SCHEMAS = { sqlite: { first: 13, ttls: 14, last: 17 }, postgres: { first: 11, ttls: 12, last: 15 } } as const
const BACKENDS = ['sqlite', 'postgres'] as const

/** What such a program has left. One run was at work when it ended, and one turn was claimed. */
function rowsOf(url: string, hasTtls: boolean): string {
  const kwargs = JSON.stringify({ webhook: url })
  const input = JSON.stringify({ input: { messages: [{ role: 'user', content: '/demo deltas=1 rate=0' }] } })
  const run = (id: string, status: string, ordinal: number) =>
    `('${id}', 't', 'u', '${status}', ${ordinal}, '${kwargs}', '${THEN}', '${THEN}')`
  const cron = (id: string, next: string, claimed: string, enabled = 1) =>
    `('${id}', 'u', '${SCHEDULE}', '${input}', '{}', 'keep', ${enabled}, '${next}', ${claimed}, '${THEN}', '${THEN}')`
  const thread = (id: string) => `('${id}', 'u', '{}', '${THEN}', '${THEN}', 1, 3)`
  const sent = (id: string) => JSON.stringify({ run_id: id })
  return `
    INSERT INTO users (id, email, created_at) VALUES ('u', 'ann@example.com', '${THEN}');
    INSERT INTO threads_meta (thread_id, user_id, metadata_json, created_at, updated_at, next_seq, next_ordinal)
      VALUES ${['t', 'old', 'young', 'anew'].map(thread).join(', ')};
    INSERT INTO runs (run_id, thread_id, user_id, status, ordinal, kwargs_json, created_at, updated_at)
      VALUES ${run('ended', 'success', 1)}, ${run('cut', 'running', 2)};
    INSERT INTO webhooks (run_id, url, attempts, payload, next_at) VALUES ('ended', '${url}', 2, NULL, '${THEN}'),
      ('cut', '${url}', 0, NULL, '${THEN}'), ('gone', '${url}', 1, '${sent('gone')}', '${THEN}'),
      ('later', '${url}', 3, '${sent('later')}', '${EVER}');
    INSERT INTO crons (cron_id, user_id, schedule, payload_json, metadata_json, on_run_completed, enabled, next_run_date,
        claimed_until, created_at, updated_at)
      VALUES ${cron('due', THEN, 'NULL')}, ${cron('claimed', THEN, `'${EVER}'`)}, ${cron('coming', EVER, 'NULL')},
        ${cron('off', THEN, 'NULL', 0)};
    ${
      hasTtls
        ? `INSERT INTO thread_ttls (thread_id, made_at, minutes, expires_at) VALUES ('old', '${THEN}', 5, '${THEN}'),
             ('young', '${THEN}', 7, '${EVER}'), ('anew', '${EVER}', 5, '${THEN}');`
        : ''
    }`
}

/** Where a database of this schema stands, and how it is opened by today's program. */
async function madeBy(t: Test, backend: 'sqlite' | 'postgres', version: number, rows: string) {
  const home = homeOf(t)
  if (backend === 'sqlite') {
    const path = join(home, 'data', 'colloquy.db')
    mkdirSync(join(home, 'data'))
    const db = oldSqlite(path, version)
    db.exec(rows)
    db.close()
    return { home, database: { backend } as DatabaseSection, open: () => openSqliteStore(path) }
  }
  const { url, remove } = await createDatabase()
  t.teardown(remove)
  const line = await PgConnection.open(url)
  await oldPostgres(line, version)
  await line.rows(rows)
  await line.close()
  const database: DatabaseSection = { backend, postgres_url: url }
  return { home, database, open: () => openPostgresStore(url) }
}

/** Jobs as `kind key minutes`, and whether each is due. */
async function jobsOf(store: Store): Promise<Record<string, string>> {
  const jobs = await store.jobs.list({ limit: 99, offset: 0 })
  return Object.fromEntries(
    jobs.map(({ kind, key, due_at, attempts, user_id }) => {
      const due =
        Date.parse(due_at ?? '') === Date.parse(THEN)
          ? 'then'
          : Date.parse(due_at ?? '') === Date.parse(EVER)
            ? 'ever'
            : due_at
      return [`${kind} ${key}`, `${due} ${attempts} ${user_id}`]
    })
  )
}

for (const backend of BACKENDS)
  for (let version: number = SCHEMAS[backend].first; version <= SCHEMAS[backend].last; version++)
    t.test(`what was to be done later is a job, and is done (${backend}, schema ${version})`, async (t) => {
      const hook = await openReceiver(t)
      const hasTtls = version >= SCHEMAS[backend].ttls
      const { home, database, open } = await madeBy(t, backend, version, rowsOf(hook.url, hasTtls))
      const opened = await open()
      t.strictSame(
        await jobsOf(opened),
        {
          'webhook ended': 'then 2 u',
          'webhook gone': 'then 1 null',
          'webhook later': 'ever 3 null',
          'turn due': 'then 0 u',
          'turn claimed': 'then 0 u',
          'turn coming': 'ever 0 u',
          ...(hasTtls && { 'removal old': 'then 0 u', 'removal young': 'ever 0 u' })
        },
        'due when they were'
      )
      t.match(await opened.jobs.get('removal', 'young'), hasTtls ? { payload: /"minutes" ?: ?7/ } : null)
      await opened.close()

      let store!: Store
      const behind = (one: Store) => {
        store = one
        return one
      }
      await openSite(t, { home, config: { database, webhooks: { allowed_networks: ['127.0.0.0/8'] } }, behind })
      const left = [...(hasTtls ? ['removal young'] : []), 'turn claimed', 'turn coming', 'turn due', 'webhook later']
      const isDone = async () =>
        Object.keys(await jobsOf(store))
          .toSorted()
          .join() === left.join()
      await until(async () => (await isDone()) && hook.bodies.length === 3, 'what is due is done')
      t.strictSame(
        hook.bodies.map((body) => textIn(JSON.parse(body), 'run_id')).toSorted(),
        ['cut', 'ended', 'gone'],
        'each receiver is told, also of the run that the process before has left'
      )
      t.match(await jobsOf(store), {
        'webhook later': 'ever 3 null',
        'turn coming': 'ever 0 u',
        ...(hasTtls && { 'removal young': 'ever 0 u' })
      })
      for (const cron of ['due', 'claimed']) {
        await until(async () => NEXT.test((await store.crons.get(cron, null))?.next_run_date ?? ''), 'it goes on')
        const { threads } = await store.threads.search({ metadata: { cron_id: cron }, limit: 9, offset: 0 }, 'u')
        t.equal(threads.length, 1, 'one turn for all that were missed')
        t.equal((await store.runs.list(threads[0]!.thread_id, { limit: 9, offset: 0 }, 'u')).length, 1)
      }
      t.equal(Date.parse((await store.crons.get('coming', null))?.next_run_date ?? ''), Date.parse(EVER))
      t.match(await store.crons.get('off', null), { enabled: false, next_run_date: null })
      t.equal((await store.threads.get('old', null)) === null, hasTtls)
      for (const thread of ['t', 'young', 'anew']) t.ok(await store.threads.get(thread, null), thread)
    })
