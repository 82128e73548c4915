// The lease of a process on PostgreSQL, in trouble: what was committed under it is committed, slow reads do not cost it, and a server
// that forbids to listen is not asked to death [Store 10].
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openPostgresStore, type PostgresOptions } from '../../lib/store/postgres/open.ts'
import type { PeerListener, Store } from '../../lib/store/store.ts'
import { addThread, aUser, write } from '../contract/harness.ts'
import { type Database, migratedDatabase, OwnServer } from '../fixtures/postgres.ts'
import { until } from '../fixtures/until.ts'
import { openWireTap } from '../fixtures/wire-tap.ts'

const LEASE_MS = 500

async function databaseFor(t: Test): Promise<Database> {
  const database = await migratedDatabase()
  t.teardown(() => database.remove())
  return database
}

async function openStore(t: Test, url: string, options: PostgresOptions = {}): Promise<Store> {
  const store = await openPostgresStore(url, { leaseMs: LEASE_MS, ...options })
  t.teardown(() => store.close())
  return store
}

async function openLine(t: Test, url: string): Promise<PgConnection> {
  const line = await PgConnection.open(url)
  t.teardown(() => line.close())
  return line
}

/** Hears of everything, and counts it. */
const NOBODY = { secret: '', events: 'db' }

function listener(): PeerListener & { readonly heard: { told: number; missed: number; lost: number } } {
  const heard = { told: 0, missed: 0, lost: 0 }
  return { heard, onMessage: () => heard.told++, onGap: () => heard.missed++, onLeaseLost: () => heard.lost++ }
}

for (const moment of ['after', 'before'] as const)
  t.test(
    `a commit in doubt (${moment} the server saw it) whose lease is taken meanwhile: it is told the truth [Store 3]`,
    async (t) => {
      const { url } = await databaseFor(t)
      const wire = await openWireTap(t, url)
      const one = await openStore(t, wire.url, { answerMs: 3000 })
      const heard = listener()
      await one.peers!.start(heard, NOBODY, null)
      const { id } = one.peers!
      await write(one, { name: 'store.ping' })
      wire.breakAt('COMMIT', moment, moment === 'after' ? 'silence' : 'reset')
      const user = aUser()
      const writing = one.apply([{ ops: [{ name: 'user.create', user }] }]).catch((error: unknown) => error)
      const other = await openStore(t, url)
      await other.peers!.start(listener(), NOBODY, null)
      const line = await openLine(t, url)
      const isTaken = async () => (await line.rows('SELECT 1 FROM writers WHERE writer_id = $1', [id])).length === 0
      if (moment === 'after') {
        await until(async () => {
          await other.peers!.renew()
          await other.peers!.claim()
          return isTaken()
        }, 'the lease is taken while nobody has told what became of the batch')
        t.match(await writing, [{ ok: true, results: ['created'] }], 'it was written, and is told so')
        t.equal(heard.heard.lost, 1, 'and that the lease is lost')
        t.not(one.peers!.id, id)
      } else {
        const outcome = await writing
        t.match(outcome, { name: 'StoreUnavailable' }, 'nothing was written')
      }
      const again = await write(one, { name: 'user.create', user })
      t.equal(again, moment === 'after' ? 'email_taken' : 'created', 'it is there once')
    }
  )

t.test('eighty slow reads cost a healthy process neither its lease nor its commits', async (t) => {
  const { url } = await databaseFor(t)
  // Locks are waited for as long as they are held.
  const store = await openStore(t, `${url}?lock_timeout=0&statement_timeout=0`)
  await store.peers!.start(listener(), NOBODY, null)
  const line = await openLine(t, url)
  await line.rows('SET idle_in_transaction_session_timeout = 0')
  await line.rows('BEGIN')
  await line.rows('LOCK TABLE feedback IN ACCESS EXCLUSIVE MODE')
  let ended = 0
  const reads = Array.from({ length: 80 }, () => store.feedback!.stats('a thread', 'a run').finally(() => ended++))
  const waiting = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%feedback%'`
  const other = await openStore(t, url)
  await until(async () => (await line.rows(waiting)).length > 0, 'reads wait')
  await other.peers!.start(listener(), NOBODY, null)
  const { id } = store.peers!
  for (let n = 0; n < 3; n++) {
    await store.peers!.renew()
    await addThread(store)
    await store.peers!.claim()
  }
  t.equal(ended, 0, 'and all of that while not one read was answered')
  t.equal(store.peers!.id, id)
  await line.rows('ROLLBACK')
  await Promise.all(reads)
})

t.test('a server that has become a standby is asked to listen on one connection, less and less often', async (t) => {
  const server = await OwnServer.create()
  t.teardown(() => server.stop('SIGQUIT'))
  const store = await openPostgresStore(server.url, { leaseMs: LEASE_MS })
  const heard = listener()
  await store.peers!.start(heard, NOBODY, null)
  await server.stop()
  await server.start({ standby: true })
  const line = await PgConnection.open(server.url)
  t.strictSame(await line.rows('SELECT pg_is_in_recovery() AS standby'), [{ standby: true }])
  const sql = "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
  let tries = 0
  let most = 0
  const started = performance.now()
  // What is left open is there to be counted at any time: nothing hangs on the moment.
  while (performance.now() - started < 4000) {
    const [row] = await line.rows<{ n: number }>(sql)
    most = Math.max(most, row!.n)
    tries++
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.ok(most <= 2, `${most} connections at most, looked at ${tries} times`)
  t.equal(heard.heard.missed, 0)
  await line.close()
  await server.stop()
  await server.start()
  await until(() => heard.heard.missed === 1, 'it listens again', 60_000)
  await store.close()
})
