// A gateway whose PostgreSQL server goes away and comes back: requests are told to try again, runs go on and lose nothing.
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { at, listIn, openSite, signIn, until } from '../fixtures/gateway.ts'
import { postgresServer, useOwnServer } from '../fixtures/postgres.ts'
import { textOf } from '../fixtures/stream.ts'

// The one that all suites share is not to be stopped.
useOwnServer()

const DELTAS = 150
const WORDS = `/demo deltas=${DELTAS} rate=50`

for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
  const how = signal === 'SIGINT' ? 'is restarted' : 'crashes'
  t.test(
    `the server ${how} in the middle of a run: reads and writes are 503 meanwhile, the run ends whole`,
    async (t) => {
      const { own } = await postgresServer()
      if (!own) return void t.pass('POSTGRES_URL names a server of somebody else', { skip: 'not our server' })
      const site = await openSite(t, { config: { database: await databaseSection(t, 'postgres') } })
      const person = await signIn(site)
      const thread = await person.thread()
      const stream = await person.stream(thread, WORDS, { stream_mode: ['messages-tuple', 'values'] })
      await stream.untilFrames(20)

      await own.stop(signal)
      const read = await person.get(`/api/threads/${thread}`)
      t.equal(read.status, 503)
      t.match(read.body, { detail: /^The database does not answer at the moment: .+\. Try again\.$/ })
      t.equal(read.headers.get('retry-after'), '5')
      t.notMatch(read.text, /127\.0\.0\.1|postgres:\/\/|password/, 'and no more is told')
      await until(async () => (await person.get('/readyz')).status === 503, 'readiness says so')
      t.equal((await person.get('/health')).status, 200)
      await own.start()
      await until(async () => (await person.get('/readyz')).status === 200, 'it is ready again')

      const frames = await stream.whole()
      t.equal(frames.at(-1)?.event, 'end')
      const said = textOf(frames)
      t.match(said, new RegExp(`w0000 .*w0${DELTAS - 1} $`))
      t.strictSame(await (await person.join(stream.runPath)).whole(), frames, 'who joins later sees the same')
      const run = await person.get(stream.runPath)
      t.match(run.body, { status: 'success' })
      const seqs = listIn((await person.get(`${stream.runPath}/events`)).body).map((event) => at(event, 'seq'))
      t.strictSame(
        seqs,
        seqs.map((_, index) => index + 1)
      )
      const messages = listIn((await person.get(`/api/threads/${thread}/messages`)).body)
      t.equal(messages.length, 2)
      t.equal(at(messages.at(-1), 'content', 'content'), said)
    }
  )
}

/** Takes every connection that the server still has; returns them. What is left of them goes with the test. */
async function takeAll(t: Test, url: string): Promise<PgConnection[]> {
  const taken: PgConnection[] = []
  t.teardown(() => Promise.all(taken.map((connection) => connection.close())))
  for (;;) {
    const connection = await PgConnection.open(url).catch(() => null)
    if (!connection) return taken
    taken.push(connection)
  }
}

const TAKEN = 'PostgreSQL takes no more connections (max_connections)'
/** Without the address: what prepares the database still had a connection. */
const TAKEN_AT_START =
  /^PostgreSQL (at 127\.0\.0\.1:\d+ cannot be used: it )?takes no more connections \(max_connections\)$/

t.test('a server whose connections are all taken is told as that: at the start, and while it runs', async (t) => {
  const { own } = await postgresServer()
  if (!own) return void t.pass('POSTGRES_URL names a server of somebody else', { skip: 'not our server' })
  const database = await databaseSection(t, 'postgres')
  await own.stop()
  await own.start({ connections: 20 })
  const config = { database }

  await t.test('at the start', async (t) => {
    const taken = await takeAll(t, own.url)
    for (let free = 0; free < 3; free++) {
      await t.rejects(openSite(t, { config }), { message: TAKEN_AT_START }, `${free} free`)
      await taken.pop()!.close()
    }
  })

  await t.test('while it runs', async (t) => {
    const site = await openSite(t, { config })
    const person = await signIn(site)
    const line = await PgConnection.open(own.url)
    t.teardown(() => line.close())
    const taken: PgConnection[] = []
    let read = await person.get('/api/models')
    const readiness = async () => (await person.get('/readyz')).text
    // It may be faster than we are when its connections are ended, with any of them: then once more.
    await until(async () => {
      await line.rows(
        'SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE datname <> current_database()'
      )
      taken.push(...(await takeAll(t, own.url)))
      read = await person.get('/api/models')
      return read.status === 503 && (await readiness()).includes(TAKEN)
    }, 'no connection is left, and readiness says it too')
    t.match(read.body, { detail: `The database does not answer at the moment: ${TAKEN}. Try again.` })
    t.equal(read.headers.get('retry-after'), '5')
    for (const connection of taken) await connection.close()
    await until(async () => (await person.get('/readyz')).status === 200, 'it is ready again')
    t.equal((await person.get('/api/models')).status, 200)
  })
})
