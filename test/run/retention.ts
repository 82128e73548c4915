// What is kept of frames: little when they are small, nothing when they are old; and forgetting them keeps nobody waiting.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t from 'tap'
import { Committer } from '../../lib/run/commit/committer.ts'
import { daysKept, Sweeper } from '../../lib/run/commit/sweeper.ts'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { migrate } from '../../lib/store/sqlite/schema.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import type { Store, Writer } from '../../lib/store/store.ts'
import { newThread } from '../../lib/thread/thread.ts'
import { timestamp } from '../../lib/base/types.ts'
import { command } from '../fixtures/child.ts'
import { asked, configFile, openSite, signIn, until } from '../fixtures/gateway.ts'
import { LongestTurn } from '../fixtures/longest-turn.ts'

const DELTAS = 10_000
const SIZE = 5
const RUNS = 10_000
const SEGMENTS_A_RUN = 3
const HOUR_MS = 3_600_000
const NEVER = { events_days: 0, runs_days: 0, threads_days: 0, audit_days: 0 }
/** What no turn of the loop should take longer, in ms. The test allows ten times as much. */
const DELAY_MS = 20

t.test('ten thousand deltas of five bytes cost three times their text at most, once they are compacted', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, asked(`/demo deltas=${DELTAS} size=${SIZE} rate=0`))
  const db = new Sqlite(join(site.home, 'data', 'colloquy.db'), { readonly: true })
  const bytes = db.prepare<[], number>('SELECT sum(length(idx) + length(data)) FROM frames').pluck()
  const plain = db.prepare<[], number>('SELECT count(*) FROM frames WHERE format = 1').pluck()
  await until(() => plain.get() === 0, 'all of it is compacted')
  const cost = bytes.get()! / (DELTAS * SIZE)
  t.ok(cost <= 3, `${cost.toFixed(2)} bytes of frames a byte of text`)
  t.comment(`${cost.toFixed(2)} bytes of frames a byte of text`)
  db.close()
})

/** A file with the frames of many runs that have ended long ago. */
function seed(path: string): void {
  const db = connect(path)
  migrate(db)
  db.exec(`
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${RUNS})
    INSERT INTO runs (key, run_id, thread_id, ordinal, status, created_at, updated_at)
      SELECT i, 'run ' || i, 'thread ' || i, 1, 'success', '2020-01-01', '2020-01-01' FROM n;
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${RUNS * SEGMENTS_A_RUN - 1})
    INSERT INTO frames (run_key, first_n, last_n, epoch, format, idx, data)
      SELECT 1 + i / ${SEGMENTS_A_RUN}, 10 * (i % ${SEGMENTS_A_RUN}), 10 * (i % ${SEGMENTS_A_RUN}) + 9, 1, 1, zeroblob(50), zeroblob(2000) FROM n;`)
  db.close()
}

t.test('what is kept for longer than time has been is kept, and keeps nothing else from going', async (t) => {
  const befores: string[] = []
  const writer = {
    // Only `before` is looked at; nothing is found.
    write: async (op: object) => {
      befores.push(String(Reflect.get(op, 'before')))
      return 'after' in op ? { removed: 0, next: null } : 0
    }
  } as unknown as Writer
  const days = daysKept({ ...NEVER, events_days: 1e9, threads_days: 10 })
  const now = Date.parse('2026-01-31T00:00:00Z')
  await new Sweeper(writer, { frameHours: Number.MAX_SAFE_INTEGER, days }, (error) => t.fail(String(error))).sweep(now)
  t.strictSame(befores, [0, 0, Date.parse('2026-01-21T00:00:00Z')].map(timestamp))
})

t.test(`a sweep of ${RUNS} runs keeps no commit waiting`, async (t) => {
  const path = join(t.testdir(), 'colloquy.db')
  seed(path)
  const store = await openSqliteStore(path)
  let steps = 0
  const apply: Store['apply'] = (groups) => {
    steps += groups.flatMap(({ ops }) => ops).filter(({ name }) => name === 'frames.sweep').length
    return store.apply(groups)
  }
  const committer = new Committer(apply, { flushMs: 20 })
  const failures: unknown[] = []
  const sweeper = new Sweeper(
    committer,
    { frameHours: 24, days: daysKept(NEVER) },
    (error) => void failures.push(error)
  )
  t.teardown(async () => {
    await sweeper.stop()
    committer.stop()
    await store.close()
  })
  const write = () => {
    const given = { thread_id: randomUUID(), user_id: 'ann', assistant_id: null, metadata: {} }
    return committer.write({ name: 'thread.create', ...newThread(given, timestamp()) })
  }
  const turns = new LongestTurn()
  turns.start()
  let isOver = false
  const sweeping = sweeper.sweep(Date.now() + HOUR_MS).finally(() => {
    isOver = true
  })
  /** Of each commit: how many steps of the sweep began between its begin and its end. */
  const beside: number[] = []
  while (!isOver) {
    const before = steps
    await write()
    beside.push(steps - before)
    await sleep(2)
  }
  turns.stop()
  t.equal(await sweeping, RUNS * SEGMENTS_A_RUN, 'everything old is gone')
  t.same(failures, [])
  t.ok(beside.length > 100)
  const most = Math.max(...beside)
  t.comment(
    `${beside.length} commits beside ${steps} steps, ${most} at most beside one; a turn of the loop took ${turns.max.toFixed(1)} ms at most`
  )
  t.ok(steps >= 100, 'it goes in small steps')
  // The one under way, and the one that is in line before it.
  t.ok(most <= 2, 'none waits for more than a step')
  t.ok(turns.max < 10 * DELAY_MS, `${turns.max.toFixed(1)} ms`)
})

t.test(
  'a thread that nobody has used for so many days goes with its files, and one that is used again meanwhile stays',
  async (t) => {
    const site = await openSite(t)
    const person = await signIn(site)
    const [old, used] = [await person.thread(), await person.thread()]
    for (const thread of [old, used]) await person.post(`/api/threads/${thread}/runs/wait`, asked('hello'))
    const config = { retention: { threads_days: 30, runs_days: 10, audit_days: 10 } }
    await site.stop()
    const db = new Sqlite(join(site.home, 'data', 'colloquy.db'))
    const longAgo = timestamp(Date.now() - 31 * 24 * HOUR_MS)
    db.prepare('UPDATE threads_meta SET updated_at = ?').run(longAgo)
    db.prepare('UPDATE audit SET at = ?').run(longAgo)
    db.prepare(
      "INSERT INTO jobs (kind, key, user_id, thread_id, due_at, payload, attempts, set_at) SELECT 'removal', thread_id, user_id, thread_id, ?, ?, 0, ? FROM threads_meta WHERE thread_id = ?"
    ).run(longAgo, JSON.stringify({ unused_since: longAgo }), longAgo, used)
    db.prepare('UPDATE threads_meta SET updated_at = ? WHERE thread_id = ?').run(timestamp(), used)
    const lines = () => db.prepare<[string], number>('SELECT count(*) FROM audit WHERE at <= ?').pluck().get(longAgo)
    t.ok(lines()! > 0)
    configFile(site.home, config)
    t.match(await command(site.home, 'prune', '--dry-run'), {
      code: 0,
      out: /^threads\t1\t/m
    })
    const again = await openSite(t, { home: site.home, config })
    person.url = again.url
    await until(async () => (await person.get(`/api/threads/${old}`)).status === 404, 'it is gone')
    await until(() => lines() === 0, 'lines of the audit go too')
    const removals = db.prepare<[], number>("SELECT count(*) FROM jobs WHERE kind = 'removal'").pluck()
    await until(() => removals.get() === 0, 'no removal is left')
    db.close()
    t.equal((await person.get(`/api/threads/${used}`)).status, 200)
    t.equal((await person.get(`/api/threads/${used}/runs`)).status, 200)
  }
)
