// Two servers on one database: what they may not share is refused at the start of the second, and what they disagree in is said.
import { mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { databaseSection } from '../fixtures/backends.ts'
import { startChild } from '../fixtures/child.ts'
import { homeOf, openSite, signIn, until } from '../fixtures/gateway.ts'

t.test('two homes on one SQLite file: the second server is refused, and the runs of the first go on', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-neighbours-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'shared.db')
  const auth = { jwt_secret: 'a-secret-of-the-tests-a-secret-of-the-tests' }
  const first = await openSite(t, { config: { auth, database: { backend: 'sqlite', sqlite_path: path } } })
  const person = await signIn(first)
  const stream = await person.stream(await person.thread(), '/demo deltas=40 rate=100')
  await stream.untilFrames(5)
  symlinkSync(path, join(folder, 'link.db'))
  symlinkSync(folder, join(folder, 'folder'))
  for (const name of [path, join(folder, 'link.db'), join(folder, 'folder', 'shared.db')]) {
    const config = { database: { backend: 'sqlite', sqlite_path: name } }
    await t.rejects(openSite(t, { config }), {
      message: `Another server is running on the database ${name}: stop it, or choose`
    })
  }
  const frames = await stream.whole()
  t.equal(frames.at(-1)?.event, 'end')
  t.match((await person.get(stream.runPath)).body, { status: 'success' })
  await first.stop()
  const second = await openSite(t, { config: { auth, database: { backend: 'sqlite', sqlite_path: path } } })
  person.url = second.url
  t.equal((await person.get(stream.runPath)).status, 200, 'when the first has stopped, another may start')
})

t.test('two homes on one PostgreSQL database keep their events in one place, or the second is refused', async (t) => {
  for (const [one, other, isRefused] of [
    ['db', 'db', false],
    ['jsonl', 'jsonl', true],
    ['jsonl', 'db', true],
    ['db', 'jsonl', true],
    ['memory', 'memory', true]
  ] as const) {
    const database = await databaseSection(t, 'postgres')
    const files = { shared: false }
    const first = await openSite(t, { config: { database, files, run_events: { backend: one } } })
    const starting = openSite(t, { config: { database, files, run_events: { backend: other } } })
    if (isRefused)
      await t.rejects(
        starting,
        { message: /^Another process on this database stores its run events/ },
        `${one}, ${other}`
      )
    else await (await starting).stop()
    await first.stop()
    const alone = await openSite(t, { config: { database, run_events: { backend: other } } })
    await alone.stop()
  }
})

const OTHER_HOME =
  /^Another process on this database has another home, so .+: give both one home, set files\.shared to false if it is meant, or/

t.test('two homes on one PostgreSQL database: the second is refused, unless it says that it is meant', async (t) => {
  const database = await databaseSection(t, 'postgres')
  const home = homeOf(t)
  const first = await openSite(t, { home, config: { database } })
  t.equal(statSync(join(home, '.home_id')).mode & 0o777, 0o600)
  await t.rejects(openSite(t, { config: { database } }), { message: OTHER_HOME })
  const meant = await openSite(t, { config: { database, files: { shared: false } } })
  await meant.stop()
  const sameHome = await openSite(t, { home, config: { database } })
  await first.stop()
  await (await openSite(t, { home, config: { database } })).stop()
  await t.rejects(openSite(t, { config: { database } }), { message: OTHER_HOME }, 'also after a rolling restart')
  await sameHome.stop()
  await openSite(t, { config: { database } })
})

t.test('a process that was killed holds its database for its home no longer than its lease', async (t) => {
  const config = { database: await databaseSection(t, 'postgres'), runs: { lease_ms: 2000 } }
  const child = await startChild(t, { config })
  await child.kill()
  const started = () =>
    openSite(t, { config }).then(
      () => true,
      (error: Error) => {
        t.match(error.message, OTHER_HOME)
        return false
      }
    )
  await until(started, 'another home on the same database', 30_000)
})

t.test('two processes that sign sessions with different secrets: the second one says so at its start', async (t) => {
  const database = await databaseSection(t, 'postgres')
  const [one, other] = ['one-secret-of-the-tests-one-secret-of-the-tests', 'another-secret-of-the-tests-another-secret']
  const config = (jwt_secret: string) => ({ database, auth: { jwt_secret }, files: { shared: false } })
  await openSite(t, { config: config(one) })
  const said = ({ logged }: { readonly logged: readonly [string, object, string][] }) =>
    logged.filter(([, , text]) => /signs sessions with another secret/.test(text))
  t.equal(said(await openSite(t, { config: config(one) })).length, 0)
  const apart = await openSite(t, { config: config(other) })
  t.match(said(apart), [['error', { others: 2 }, String]])
  t.notMatch(JSON.stringify(apart.logged), /of-the-tests/, 'and tells neither')
})
