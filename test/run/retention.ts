// What is kept of frames: little when they are small, nothing when they are old; and forgetting them keeps nobody waiting.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t from 'tap'
import { Committer } from '../../lib/run/commit/committer.ts'
import { Sweeper } from '../../lib/run/commit/sweeper.ts'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { migrate } from '../../lib/store/sqlite/schema.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import type { Store } from '../../lib/store/store.ts'
import { newThread } from '../../lib/thread/thread.ts'
import { timestamp } from '../../lib/base/types.ts'
import { asked, openSite, signIn, until } from '../fixtures/gateway.ts'
import { LongestTurn } from '../fixtures/longest-turn.ts'

const DELTAS = 10_000
const SIZE = 5
const RUNS = 10_000
const SEGMENTS_A_RUN = 3
const HOUR_MS = 3_600_000
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
  const sweeper = new Sweeper(committer, 24, (error) => void failures.push(error))
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
