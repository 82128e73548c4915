// What is done later, and runs that end their process: whatever is killed, it is done, and not for ever.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { timestamp } from '../../lib/base/types.ts'
import { asked, at, homeOf, Person, signIn, until } from '../fixtures/gateway.ts'
import { Child, startChild } from '../fixtures/child.ts'

t.test(
  'a run that ends its process before anything of it is stored is begun three times at most, and then fails',
  async (t) => {
    const home = homeOf(t)
    const begun = join(home, 'begun')
    const path = join(home, 'agent.mjs')
    writeFileSync(
      path,
      `import { appendFileSync } from 'node:fs'
    export default { async start() { appendFileSync(${JSON.stringify(begun)}, 'x'); process.kill(process.pid, 'SIGKILL') } }`
    )
    const config = { agent: { runtime: 'module', path } }
    const first = await startChild(t, { home, config })
    const person = await signIn(first)
    const thread = await person.thread()
    // Its process may be gone before it has answered.
    await person.post(`/api/threads/${thread}/runs`, asked('hello')).catch(() => null)
    await first.exited
    let isGivenUp = false
    for (let starts = 0; !isGivenUp && starts < 4; starts++) {
      const child = new Child(home, { config })
      t.teardown(() => child.kill())
      // It may be gone before it listens.
      await child.listening().catch(() => {})
      const again = new Person(child.url, person.cookies)
      const statusOf = async () => at((await again.get(`/api/threads/${thread}/runs`)).body, 0, 'status')
      const isOver = async () => child.hasExited || (await statusOf().catch(() => null)) === 'error'
      await until(isOver, 'it ends, or its process does')
      isGivenUp = !child.hasExited
    }
    t.ok(isGivenUp)
    t.ok(readFileSync(begun, 'utf8').length <= 3, readFileSync(begun, 'utf8'))
  }
)

t.test('a thread that was made for one run, of a client or of a cron, goes when its process is killed', async (t) => {
  const home = homeOf(t)
  const config = { runs: { temporary_grace_ms: 200 }, memory: { enabled: false }, title: { enabled: false } }
  const file = join(home, 'data', 'colloquy.db')
  /** How many threads there are; sets what is due by hand. */
  const inDatabase = <T>(look: (db: InstanceType<typeof Sqlite>) => T): T => {
    const db = new Sqlite(file)
    const found = look(db)
    db.close()
    return found
  }
  const threads = () => inDatabase((db) => db.prepare('SELECT count(*) FROM threads_meta').pluck().get())
  const first = await startChild(t, { home, config })
  const person = await signIn(first)
  const long = asked('/demo deltas=100000 rate=20')
  const stream = await person.open('POST', '/api/runs/stream', { body: { ...long, on_completion: 'delete' } })
  await stream.untilFrames(1)
  t.equal((await person.post('/api/runs/crons', { ...long, schedule: '0 0 29 2 *' })).status, 200)
  await first.kill()
  t.equal(threads(), 1)
  const past = timestamp(Date.now() - 60_000)
  inDatabase((db) => db.prepare("UPDATE jobs SET due_at = ?, set_at = ? WHERE kind = 'turn'").run(past, past))

  const second = await startChild(t, { home, config })
  const again = new Person(second.url, person.cookies)
  await until(async () => (await again.get(stream.runPath)).status === 404, 'that of the client is gone')
  await until(() => second.log.includes('a cron has started a run'), 'the turn of the cron')
  await until(() => threads() === 1, 'it is in a thread of its own')
  await second.kill()
  await startChild(t, { home, config })
  await until(() => threads() === 0, 'that of the cron is gone')
})
