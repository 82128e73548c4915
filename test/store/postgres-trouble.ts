// The PostgreSQL store while its server, or the way to it, is in trouble: nothing is lost, nothing is written twice.
import { type AddressInfo, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { logSlowStatements } from '../../lib/store/slow-statements.ts'
import { type Group, type Store, StoreUnavailable } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  aRun,
  aSettlement,
  aThread,
  time,
  messageCount
} from '../contract/harness.ts'
import { migratedDatabase, postgresServer, useOwnServer } from '../fixtures/postgres.ts'
import { until } from '../fixtures/until.ts'
import { openWireTap, type WireTap } from '../fixtures/wire-tap.ts'

useOwnServer()

async function openStore(t: Test, url: string, answerMs = 35_000): Promise<Store> {
  const store = await openPostgresStore(url, { answerMs })
  t.teardown(() => store.close())
  return store
}

interface Place {
  readonly store: Store
  readonly url: string
  readonly wire: WireTap
}

/** A store that reaches its database by way of a wire that can be broken. */
async function onWire(t: Test, answerMs?: number): Promise<Place> {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const wire = await openWireTap(t, database.url)
  return { wire, url: database.url, store: await openStore(t, wire.url, answerMs) }
}

/** What an actor hands over: frames from n on, and as many events. */
function records(run: Run, n: number): Group {
  const { thread_id, run_id, key: run_key } = run
  const segment = { epoch: 1, first: n, last: n, index: Uint8Array.of(1, 1, 0, 0, 0), data: Uint8Array.of(7) }
  return {
    ops: [
      { name: 'frames.append', run_key, thread_id, segment },
      { name: 'events.append', thread_id, run_id, user_id: 'ann', events: [anEvent(n)] }
    ]
  }
}

/** As the committer does: the same groups again, until they are taken. */
async function applyUntilTaken(store: Store, groups: readonly Group[]) {
  for (;;) {
    try {
      return await store.apply(groups)
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

async function written(store: Store, { thread_id, run_id, key }: Run) {
  const events = await store.events.listEvents(thread_id, run_id, { limit: 1000 }, null)
  const segments = await store.frames.read(key, 0, 1e6)
  return { seqs: events.map(({ seq }) => seq), frames: segments.map(({ first }) => first) }
}

for (const moment of ['before', 'after'] as const)
  for (const how of ['end', 'reset'] as const) {
    const when = moment === 'before' ? 'before the server saw COMMIT' : 'after the server has committed'
    t.test(`a connection that breaks (${how}) ${when}: the batch is there once [Store 3]`, async (t) => {
      const { store, wire } = await onWire(t)
      const { thread_id } = await addThread(store)
      const run = await addRun(store, thread_id)
      await store.apply([records(run, 0)])
      wire.breakAt('COMMIT', moment, how)
      const created = aRun(thread_id)
      const outcomes = await applyUntilTaken(store, [
        records(run, 1),
        { ops: [{ name: 'run.create', run: created, autoFollowUp: false }] },
        { ops: [aSettlement(run)] }
      ])
      t.equal(wire.breaks, 1)
      t.match(outcomes, [
        { ok: true, results: [null, 2] },
        { ok: true, results: [{ outcome: 'created', run: { ordinal: 2 } }] },
        { ok: true, results: [true] }
      ])
      t.strictSame(await written(store, run), { seqs: [1, 2], frames: [0, 1] })
      t.equal((await store.runs.list(thread_id, { limit: 10, offset: 0 }, null)).length, 2)
      await store.apply([records(run, 2)])
      t.strictSame(await written(store, run), { seqs: [1, 2, 3], frames: [0, 1, 2] }, 'and it goes on')
    })
  }

for (const statement of ['BEGIN', 'UPDATE writers', 'INSERT INTO run_events', 'INSERT INTO frames'])
  for (const how of ['end', 'reset'] as const)
    t.test(
      `a connection that breaks (${how}) at ${statement}: nothing was written, the same batch is taken later`,
      async (t) => {
        const { store, wire } = await onWire(t)
        const run = await addRun(store, (await addThread(store)).thread_id)
        // Without statements that the connection knows by a number already.
        wire.reset()
        wire.breakAt(statement, 'after', how)
        await applyUntilTaken(store, [records(run, 0)])
        await applyUntilTaken(store, [records(run, 1)])
        t.equal(wire.breaks, 1)
        t.strictSame(await written(store, run), { seqs: [1, 2], frames: [0, 1] })
      }
    )

t.test('reads that lose their connection are asked again; those that cannot be say that they may be', async (t) => {
  const { store, wire } = await onWire(t)
  const thread = await addThread(store)
  const get = () => store.threads.get(thread.thread_id, null)
  for (let n = 0; n < 20; n++) {
    const reads = Array.from({ length: 12 }, get)
    wire.reset()
    const ends = await Promise.allSettled([...reads, get(), get()])
    for (const end of ends) {
      if (end.status === 'fulfilled') t.equal(end.value?.thread_id, thread.thread_id, 'an answer is the right one')
      else t.type(end.reason, StoreUnavailable)
    }
    t.equal((await get())?.thread_id, thread.thread_id)
  }
})

t.test('answers are never mixed up, however connections break', async (t) => {
  const { store, wire } = await onWire(t)
  const threads = await Promise.all(
    Array.from({ length: 20 }, (_, n) => addThread(store, { thread_id: `thread-${n}` }))
  )
  let answers = 0
  const asking = threads.map(async ({ thread_id }) => {
    while (answers < 500 || wire.resets < 3) {
      const found = await store.threads.get(thread_id, null).catch((error: unknown) => {
        if (!(error instanceof StoreUnavailable)) throw error
        return 'unavailable'
      })
      if (found === 'unavailable') continue
      answers++
      if (found === null || typeof found === 'string' || found.thread_id !== thread_id)
        return void t.fail(`asked for ${thread_id}, was told ${JSON.stringify(found)}`)
    }
  })
  const breaking = setInterval(() => wire.reset(), 100)
  await Promise.all(asking)
  clearInterval(breaking)
  t.ok(wire.resets > 0, `${wire.resets} resets`)
})

t.test(
  'a batch that meets a deadlock, or a lock that is held for long, is refused for the moment and passes',
  async (t) => {
    const database = await migratedDatabase()
    t.teardown(() => database.remove())
    const store = await openStore(t, database.url)
    const { thread_id } = await addThread(store)
    const other = await PgConnection.open(database.url)
    await other.rows('BEGIN')
    await other.rows('SELECT 1 FROM threads_meta WHERE thread_id = $1 FOR UPDATE', [thread_id])
    const patch = { name: 'thread.patch', thread_id, metadata: { n: 1 }, user: null, now: time(1) } as const
    const refused = store.apply([{ ops: [patch] }])
    await t.rejects(refused, { name: 'StoreUnavailable', code: '55P03', passes: true })
    await other.rows('ROLLBACK')
    await other.close()
    t.match(await store.apply([{ ops: [patch] }]), [{ ok: true }])
  }
)

t.test('a transaction that the server ends while it is open is written later, once', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const store = await openStore(t, database.url)
  const run = await addRun(store, (await addThread(store)).thread_id)
  const holder = await PgConnection.open(database.url)
  await holder.rows('BEGIN')
  await holder.rows('SELECT 1 FROM threads_meta FOR UPDATE')
  const batch = applyUntilTaken(store, [records(run, 0)])
  const kill =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
  // On a line of its own: in a transaction one sees who waits as at the first look.
  const line = await PgConnection.open(database.url)
  await until(async () => (await line.rows(kill)).length >= 1, 'it waits, and is ended')
  await line.close()
  await holder.rows('ROLLBACK')
  await holder.close()
  t.match(await batch, [{ ok: true, results: [null, 1] }])
  t.strictSame(await written(store, run), { seqs: [1], frames: [0] })
})

t.test('a server that speaks no TLS where the URL wants it is said so at start', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    // To the question whether it speaks TLS, and then it hangs up.
    socket.once('data', () => socket.write('N', () => socket.once('data', () => socket.destroy())))
  })
  t.teardown(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const url = `postgres://me:secret@127.0.0.1:${port}/none?sslmode=require`
  await t.rejects(openPostgresStore(url), { message: /cannot be used: it does not speak TLS.*sslmode/ })
})

t.test('a server that cannot be reached is said so at start, without the password', async (t) => {
  const refused = await openPostgresStore('postgres://me:secret@127.0.0.1:1/none').catch((error: Error) => error)
  t.match(refused, { message: /^PostgreSQL at 127\.0\.0\.1:1 cannot be used: .*ECONNREFUSED/ })
  t.notMatch(refused, { message: /secret/ })
  const url = new URL((await postgresServer()).url)
  url.password = 'wrong'
  await t.rejects(openPostgresStore(url.href), { message: /cannot be used: password authentication failed/ })
})

t.test('a store that is closed waits for what it was given and leaves no connection behind', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const store = await openPostgresStore(database.url)
  const thread = aThread()
  const creating = addThread(store, thread)
  await store.close()
  t.equal((await creating).thread_id, thread.thread_id)
  await t.rejects(store.threads.get(thread.thread_id, null), { name: 'StoreUnavailable', code: 'STORE_CLOSED' })
  const line = await PgConnection.open(database.url)
  const sql =
    'SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()'
  await until(async () => (await line.rows<{ n: number }>(sql))[0]?.n === 0, 'the server notices a moment later')
  t.strictSame(await line.rows('SELECT * FROM writers'), [], 'and its row is gone')
  await line.close()
})

// Last: others would be disturbed.
t.test(
  'the server restarts, in order and by a crash: reads and writes go on, nothing is lost or there twice',
  async (t) => {
    const { own } = await postgresServer()
    if (!own) return void t.pass('POSTGRES_URL names a server of somebody else', { skip: 'not our server' })
    const database = await migratedDatabase()
    t.teardown(() => database.remove())
    const store = await openStore(t, database.url)
    const run = await addRun(store, (await addThread(store)).thread_id)
    let n = 0
    let isDone = false
    const writing = (async () => {
      for (; !isDone; n++) await applyUntilTaken(store, [records(run, n)])
    })()
    const reading = (async () => {
      while (!isDone) {
        const seen = await messageCount(store, run.thread_id, null).catch((error: unknown) => {
          if (!(error instanceof StoreUnavailable)) throw error
          return null
        })
        if (seen !== null && seen > n + 1) t.fail(`${seen} of ${n}`)
      }
    })()
    for (const signal of ['SIGINT', 'SIGQUIT', 'SIGINT', 'SIGQUIT'] as const) {
      const before = n
      while (n < before + 20) await new Promise((resolve) => setTimeout(resolve, 5))
      await own.stop(signal)
      await t.rejects(store.threads.get('any', null), StoreUnavailable)
      await own.start()
    }
    const before = n
    while (n < before + 20) await new Promise((resolve) => setTimeout(resolve, 5))
    isDone = true
    await Promise.all([writing, reading])
    const { seqs, frames } = await written(store, run)
    t.strictSame(
      seqs,
      Array.from({ length: Math.min(n, 1000) }, (_, at) => at + 1)
    )
    t.strictSame(frames.length, Math.min(n, 128))
    t.equal(await addEvents(store, run, [anEvent(n)]), n + 1)
  }
)

t.test('a slow statement has a line in the log, and those that were sent behind it have none', async (t) => {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  const line = await PgConnection.open(database.url)
  const lines: object[] = []
  logSlowStatements(200, (fields) => lines.push(fields))
  t.teardown(() => logSlowStatements(0, () => {}))
  await Promise.all(['SELECT pg_sleep(0.4)::text', 'SELECT 1', 'SELECT 2'].map((sql) => line.rows(sql)))
  await line.close()
  t.match(lines, [{ statement: 'SELECT pg_sleep(0.4)::text' }])
  t.equal(lines.length, 1)
})
