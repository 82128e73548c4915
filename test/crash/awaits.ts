// Killed at each await of what works off the jobs: what was begun is done by the next process. And two processes at once do nothing twice.
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { departureOf } from '../../lib/jobs/departures.ts'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import type { Store } from '../../lib/store/store.ts'
import type { Cron } from '../../lib/base/types.ts'
import { aCron } from '../contract/crons.ts'
import { addRun, addThread, aSettlement, aUser, write } from '../contract/harness.ts'
import { aJob } from '../contract/jobs.ts'
import { numberedBuild, pointsOf } from '../fixtures/awaits.ts'
import { type DatabaseSection, databaseSection } from '../fixtures/backends.ts'
import { asked, homeOf, openSite, until } from '../fixtures/gateway.ts'
import { Child, startChild } from '../fixtures/child.ts'
import { openReceiver } from '../fixtures/receiver.ts'
import { filesOf } from '../fixtures/remains.ts'
import { tablesNaming, tablesOf } from '../fixtures/rows.ts'
import { sized } from '../fixtures/size.ts'

/** What works off the jobs, and what their deeds pass. */
const FILES = [
  'jobs/runner',
  'jobs/crons',
  'jobs/removals',
  'jobs/webhooks',
  'jobs/departures',
  'routes/remove-thread',
  'run/lifecycle/runs'
]
/** A look reads every table: more often it would take as much of the processor as who is looked at. */
const LOOK_MS = 150
const [GONE_USER, GONE_THREAD, OLD_THREAD] = ['departed-user', 'departed-thread', 'old-thread']

/** Jobs of every kind that are due: two webhooks, two turns, the removal of a thread and all that a user has left. */
async function seed(store: Store, url: string): Promise<void> {
  const ann = aUser({ id: 'ann' })
  const gone = aUser({ id: GONE_USER })
  for (const user of [ann, gone]) await write(store, { name: 'user.create', user })
  await addThread(store, { thread_id: 't' })
  await addThread(store, { thread_id: OLD_THREAD })
  await addThread(store, { thread_id: GONE_THREAD, user_id: GONE_USER })
  for (const thread of ['t', OLD_THREAD]) {
    const run = await addRun(store, thread, { run_id: `run-of-${thread}` })
    const payload = JSON.stringify({ url, run: { run_id: run.run_id } })
    const job = aJob(run.run_id, { thread_id: thread, payload })
    await write(store, aSettlement(run, { jobs: [job] }))
  }
  for (const [cron_id, thread_id] of [
    ['alone', null],
    ['bound', 't']
  ] as const) {
    const payload = asked('/demo deltas=1 rate=0')
    // The contract's own form of a cron.
    const cron = aCron({
      cron_id,
      thread_id,
      payload: payload as Cron['payload'],
      schedule: '0 0 29 2 *',
      metadata: {}
    })
    await write(store, { name: 'cron.create', cron: { ...cron, on_run_completed: 'keep' }, max: 9 })
  }
  const removal = aJob(OLD_THREAD, { kind: 'removal', thread_id: OLD_THREAD, payload: '{"minutes":1}' })
  await write(store, { name: 'job.put', job: removal })
  await write(store, { name: 'user.remove', id: GONE_USER, job: departureOf(GONE_USER) })
}

function seedFiles(home: string): void {
  for (const [user, thread] of [
    ['ann', OLD_THREAD],
    [GONE_USER, GONE_THREAD]
  ] as const) {
    const folder = join(home, 'users', user, 'threads', thread, 'user-data', 'outputs')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'report.md'), 'x')
  }
  writeFileSync(join(home, 'users', GONE_USER, 'memory.json'), '{}')
}

/** Nothing is due any more, and nobody is at anything. */
async function isDone(home: string, database: DatabaseSection): Promise<boolean> {
  const tables = await tablesOf(home, database)
  const jobs = tables.get('jobs')!
  const hasLeft = tablesNaming(tables, [GONE_THREAD, OLD_THREAD]).length > 0 || remaining(home).length > 0
  const isLeft = jobs.some((row) => /webhook|removal/.test(row)) || tables.get('crons')?.length !== 2
  return !hasLeft && !isLeft && jobs.filter((row) => /turn/.test(row) && /-02-29T00:00:00/.test(row)).length === 2
}

/** Files of what is to be removed. */
function remaining(home: string): string[] {
  return filesOf(home).filter((name) => name.includes(OLD_THREAD) || name.includes(GONE_USER))
}

/** What was done, and how often. */
async function judge(t: Test, store: Store, home: string, bodies: readonly string[], most: number): Promise<void> {
  const { threads } = await store.threads.search({ metadata: { cron_id: 'alone' }, limit: 9, offset: 0 }, 'ann')
  t.equal(threads.length, 1, 'one turn is one thread')
  t.equal((await store.runs.list(threads[0]!.thread_id, { limit: 9, offset: 0 }, 'ann')).length, 1, 'and one run')
  t.equal((await store.runs.list('t', { limit: 9, offset: 0 }, 'ann')).length, 2, 'one run in the thread of the other')
  for (const thread of ['t', OLD_THREAD]) {
    const sent = bodies.filter((body) => body.includes(`run-of-${thread}`)).length
    t.ok(sent >= 1 && sent <= most, `the end of the run of ${thread} was sent ${sent} times`)
  }
  t.equal(await store.threads.get(OLD_THREAD, null), null)
  t.strictSame(await store.threads.idsOf(GONE_USER, 9), [])
  t.strictSame(remaining(home), [])
}

const CONFIG = { webhooks: { allowed_networks: ['127.0.0.0/8'] }, memory: { enabled: false } }

t.test(
  'killed at any await of the jobs, their work is done at the next start: a turn and a removal once, a webhook at least once',
  { timeout: 1_200_000 },
  async (t) => {
    const hook = await openReceiver(t)
    const program = numberedBuild(t.testdir(), FILES)
    const template = homeOf(t)
    mkdirSync(join(template, 'data'))
    const store = await openSqliteStore(join(template, 'data', 'colloquy.db'))
    await seed(store, hook.url)
    await store.close()
    seedFiles(template)
    const all = FILES.flatMap((file) => pointsOf(file).map((words, n) => ({ file, n, words })))
    const points = all.filter((_, at) => at % sized(7, 1) === 0)
    const unreached: string[] = []
    t.jobs = 2
    await Promise.all(
      points.map(({ file, n, words }) =>
        t.test(`${file}: ${words}`, async (t) => {
          const own = await openReceiver(t)
          const home = homeOf(t)
          cpSync(template, home, { recursive: true })
          const db = new Sqlite(join(home, 'data', 'colloquy.db'))
          db.prepare('UPDATE jobs SET payload = replace(payload, ?, ?)').run(hook.url, own.url)
          db.close()
          const database = { backend: 'sqlite' } as const
          const done = () => isDone(home, database).catch(() => false)
          const broken = new Child(home, { config: CONFIG, program, env: { KILL_AT: `${file} ${n}` } })
          t.teardown(() => broken.kill())
          await until(async () => broken.hasExited || (await done()), 'it is killed, or done', 60_000, LOOK_MS)
          if (!broken.hasExited) unreached.push(`${file}: ${words}`)
          await broken.stop()
          t.ok(broken.process.signalCode === 'SIGKILL' || unreached.length > 0)
          const next = await openSite(t, { home, config: CONFIG })
          await until(done, 'what is left is done', 60_000, LOOK_MS)
          await next.stop()
          const left = await openSqliteStore(join(home, 'data', 'colloquy.db'))
          await judge(t, left, home, own.bodies, 2)
          await left.close()
        })
      )
    )
    t.comment(`not passed: ${unreached.join('; ')}`)
    t.ok(points.length - unreached.length >= sized(8, 60), 'enough of them are passed')
  }
)

t.test(
  'two processes whose clocks are an hour apart do nothing twice, and nothing before its time',
  { timeout: 120_000 },
  async (t) => {
    const hook = await openReceiver(t)
    const home = homeOf(t)
    const database = await databaseSection(t, 'postgres')
    // Nobody renews the lease of a store that no gateway runs on: the two would take it for dead.
    const store = await openPostgresStore(database.postgres_url!, { leaseMs: 600_000 })
    t.teardown(() => store.close())
    await seed(store, hook.url)
    seedFiles(home)
    await addThread(store, { thread_id: 'young' })
    const soon = aJob('young', { kind: 'removal', thread_id: 'young', due: 1_800_000, payload: '{"minutes":30}' })
    const config = { ...CONFIG, database }
    const both = await Promise.all([3_600_000, -3_600_000].map((aheadMs) => startChild(t, { home, config, aheadMs })))
    await until(() => isDone(home, database), 'all is done', 60_000, LOOK_MS)
    await write(store, { name: 'job.put', job: soon })
    // Each has looked again since: a second thread is removed by either.
    await addThread(store, { thread_id: 'last' })
    await write(store, { name: 'job.put', job: aJob('last', { kind: 'removal', thread_id: 'last' }) })
    await until(async () => (await store.jobs.ofThread('last')).length === 0, 'and what comes then')
    t.ok(await store.threads.get('young', null), 'it has half an hour left')
    await store.threads.get('young', null)
    await write(store, { name: 'job.remove', kind: 'removal', key: 'young', thread_id: 'young' })
    for (const child of both) await child.stop()
    await judge(t, store, home, hook.bodies, 1)
  }
)
