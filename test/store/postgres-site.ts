// A gateway whose PostgreSQL server goes away and comes back: requests are told to try again, runs go on and lose nothing.
import t from 'tap'
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
