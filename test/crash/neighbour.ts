// A neighbour who locks the database for seconds, again and again, while runs stream and an operator changes an account: nobody is
// refused, nothing is lost, and nobody notices but by waiting.
//
//   NEIGHBOUR=200x50x30 node dist/test/crash/neighbour.js     200 runs at 50 deltas a second for 30 s; default 30x20x10
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t from 'tap'
import { command, startChild } from '../fixtures/child.ts'
import { at, listIn, type Person, signIn } from '../fixtures/gateway.ts'
import { type Stream, textOf } from '../fixtures/stream.ts'

const [RUNS = 30, RATE = 20, SECONDS = 10] = (process.env.NEIGHBOUR ?? '').split('x').filter(Boolean).map(Number)
const LOCKED_MS = 4000
const FREE_MS = 4000
const HEARTBEAT_MS = 1000
const DELTAS = RATE * SECONDS

/** Holds the write lock for four seconds of every eight, until told to stop. */
async function lockNowAndThen(path: string, isOver: () => boolean): Promise<number> {
  const db = new Sqlite(path, { timeout: 5000 })
  let times = 0
  while (!isOver()) {
    db.exec('BEGIN IMMEDIATE')
    times++
    await sleep(LOCKED_MS)
    db.exec('ROLLBACK')
    if (!isOver()) await sleep(FREE_MS)
  }
  db.close()
  return times
}

/** Requests of all kinds that write, one after the other; answers the statuses and the longest that one took, in ms. */
async function write(person: Person, isOver: () => boolean): Promise<{ statuses: Set<number>; longest: number }> {
  const statuses = new Set<number>()
  let longest = 0
  while (!isOver()) {
    const begun = performance.now()
    const made = await person.post('/api/threads', { metadata: { some: 'thing' } })
    const changed = await person.ask('PATCH', `/api/threads/${at(made.body, 'thread_id')}`, {
      body: { metadata: { n: 1 } }
    })
    for (const { status } of [made, changed]) statuses.add(status)
    longest = Math.max(longest, performance.now() - begun)
    await sleep(50)
  }
  return { statuses, longest }
}

/** The longest that the stream was silent, in ms. */
function longestSilence({ beats }: Stream): number {
  return Math.max(0, ...beats.slice(1).map((beat, index) => beat - beats[index]!))
}

t.test(`${RUNS} runs at ${RATE}/s for ${SECONDS} s beside a neighbour who locks the database`, async (t) => {
  const child = await startChild(t, { config: { streams: { heartbeat_ms: HEARTBEAT_MS } } })
  const person = await signIn(child)
  const boss = await signIn(child, 'boss')
  await boss.post('/api/v1/auth/initialize', { email: 'chief@example.com', password: 'correct-horse-42' })
  const threads = await Promise.all(Array.from({ length: RUNS }, () => person.thread()))

  let isOver = false
  const locking = lockNowAndThen(join(child.home, 'data', 'colloquy.db'), () => isOver)
  const writing = write(person, () => isOver)
  await sleep(100)
  child.measure()
  const streams = await Promise.all(
    threads.map((thread) =>
      person.stream(thread, `/demo deltas=${DELTAS} rate=${RATE}`, { stream_mode: ['messages-tuple'] })
    )
  )
  const resets = command(child.home, 'reset-admin')
  const frames = await Promise.all(streams.map((stream) => stream.whole()))
  const delay = await child.measured()
  isOver = true
  const [times, { statuses, longest }, reset] = await Promise.all([locking, writing, resets])

  t.ok(times >= 2, `the lock was held ${times} times`)
  t.strictSame([...statuses], [200], 'no request was refused')
  t.equal(reset.code, 0, reset.errors)
  const expected = textOf(frames[0]!)
  t.equal(expected.split(' ').length - 1, DELTAS)
  for (const one of frames) if (textOf(one) !== expected) t.fail('a stream lacks something')
  for (const [index, thread] of threads.entries()) {
    if (index % 10 !== 0) continue
    const messages = listIn((await person.get(`/api/threads/${thread}/messages`)).body)
    t.match(messages.at(-1), { event_type: 'ai_message', content: { content: expected } })
  }
  t.notMatch(child.log, /SQLITE_BUSY|database is locked/)
  const silence = Math.max(...streams.map(longestSilence))
  t.ok(silence < 10 * HEARTBEAT_MS, `heartbeats came in time: ${Math.round(silence)} ms at most`)
  // Beside others that keep the machine busy any turn may be late; then it tells that none was long.
  t.ok(
    Math.min(delay.p99, delay.own) < 200,
    `loop delay p99 ${delay.p99.toFixed(1)} ms, max ${delay.max.toFixed(1)} ms`
  )
  t.comment(
    `loop delay p99 ${delay.p99.toFixed(1)} ms; a write took ${Math.round(longest)} ms at most; silence ${Math.round(silence)} ms`
  )
})
