// Two processes on one PostgreSQL, of which one dies, hangs or ends: what it had is ended or goes on, once [needs N13].
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { asked, at, listIn, textIn, until } from '../fixtures/gateway.ts'
import { scripted } from '../fixtures/model.ts'
import { postgresServer, useOwnServer } from '../fixtures/postgres.ts'
import { onOther, frameTexts, idsOf, startPair, statusOf } from '../fixtures/pair.ts'
import type { Frame } from '../fixtures/stream.ts'

// The one that all suites share is not to be stopped.
useOwnServer()

const MODES = { stream_mode: ['messages-tuple'] }
const LEASE_MS = 2000
/** Figures are wished for on a quiet machine, and asserted with ten times as much. */
const RULE_OF_TEN = 10

function endsOf(frames: readonly Frame[]): string[] {
  return frames.map(({ event }) => event).filter((event) => event === 'error' || event === 'end')
}

t.test(
  'a process that dies: the other one ends its runs, once, and takes those that wait',
  { timeout: 170_000 },
  async (t) => {
    const pair = await startPair(t, { leaseMs: LEASE_MS })
    const { onA, onB } = pair
    const threads = await Promise.all(Array.from({ length: 12 }, () => onA.thread()))
    const creators = await Promise.all(
      threads.map((thread) => onA.stream(thread, scripted({ deltas: 4000, rate: 100 }), MODES))
    )
    const readers = await Promise.all(creators.map(({ runPath }) => onB.join(runPath, null, ['messages-tuple'])))
    const waiting = await Promise.all(
      threads.map((thread) => onB.run(thread, scripted({ text: 'it was my turn' }), { multitask_strategy: 'enqueue' }))
    )
    await Promise.all(readers.map((reader) => reader.untilFrames(20)))
    await pair.a.kill()
    const died = performance.now()
    const seen = creators.map(({ frames }) => idsOf(frames))
    await Promise.all(readers.map((reader) => reader.whole()))
    const ended = performance.now() - died
    t.comment(`A's runs were ended on B after ${ended.toFixed(0)} ms with a lease of ${LEASE_MS}`)
    t.ok(ended < 2 * LEASE_MS * RULE_OF_TEN)
    for (const [n, reader] of readers.entries()) {
      t.same(endsOf(reader.frames), ['error', 'end'])
      t.equal(new Set(idsOf(reader.frames)).size, idsOf(reader.frames).length)
      t.equal(await statusOf(pair, creators[n]!.runPath), 'error')
      const again = await onB.join(creators[n]!.runPath, seen[n]!.at(-1), ['messages-tuple'])
      const rest = await again.whole()
      t.same(endsOf(rest), ['error', 'end'], 'who saw more than was stored is told the end as well')
      await until(async () => (await statusOf(pair, waiting[n]!)) === 'success', 'the run that waited')
      const events = listIn((await onB.get(`${creators[n]!.runPath}/events`)).body).map((event) =>
        at(event, 'event_type')
      )
      t.equal(events.filter((type) => type === 'run_error').length, 1)
    }
  }
)

t.test(
  'a process that is paused for two leases finds its runs ended, and writes nothing',
  { timeout: 170_000 },
  async (t) => {
    const pair = await startPair(t, { leaseMs: LEASE_MS })
    const { onA, onB } = pair
    const thread = await onA.thread()
    const creator = await onA.stream(thread, scripted({ deltas: 100_000, rate: 200 }), MODES)
    const reader = await onB.join(creator.runPath, null, ['messages-tuple'])
    await reader.untilFrames(20)
    pair.a.process.kill('SIGSTOP')
    const paused = performance.now()
    await reader.whole()
    t.comment(`ended on B ${(performance.now() - paused).toFixed(0)} ms after the pause`)
    await pause(Math.max(0, 2 * LEASE_MS - (performance.now() - paused)))
    const told = frameTexts(reader)
    t.same(endsOf(reader.frames), ['error', 'end'])
    const rows = async () => [
      await pair.database.rows('SELECT seq, event_type FROM run_events WHERE thread_id = $1 ORDER BY seq', [thread]),
      await pair.database.rows('SELECT status, stop_reason, last_cursor, updated_at FROM runs WHERE thread_id = $1', [
        thread
      ]),
      await pair.database.rows('SELECT epoch, max(last_n) FROM frames GROUP BY epoch ORDER BY 1'),
      await pair.database.rows('SELECT count(*) AS n FROM checkpoints WHERE thread_id = $1', [thread])
    ]
    const before = await rows()
    pair.a.process.kill('SIGCONT')
    t.match(await creator.ended, /reset|cut/, 'its readers are sent away')
    await until(() => pair.a.log.includes('lost its lease'), 'A knows')
    await pause(1000)
    t.same(await rows(), before, 'nothing was written')
    for (const person of [onA, onB]) {
      const again = await person.join(creator.runPath, null, ['messages-tuple'])
      await again.whole()
      t.same(frameTexts(again), told, 'one terminal frame, the same everywhere')
    }
    const next = await onA.post(`/api/threads/${thread}/runs/wait`, asked(scripted({ text: 'goes on', strict: true })))
    t.equal(at(listIn(next.body, 'messages').at(-1), 'content'), 'goes on', 'A works again')
    const last = listIn((await onB.get(`/api/threads/${thread}/messages`)).body)
    t.match(textIn(last.at(-1), 'content', 'content'), 'goes on')
  }
)

t.test('a run that waits behind a dead process comes here, and with it who waits here for its end', async (t) => {
  const pair = await startPair(t, { leaseMs: LEASE_MS })
  const { onA, onB } = pair
  const thread = await onA.thread()
  const first = await onA.stream(thread, scripted({ deltas: 4000, rate: 50 }), MODES)
  await first.untilFrames(3)
  const body = { ...asked(scripted({ text: 'it was my turn' })), multitask_strategy: 'enqueue' }
  const waiting = onB.post(`/api/threads/${thread}/runs/wait`, body)
  await until(
    async () => listIn((await onB.get(`/api/threads/${thread}/runs`)).body).length === 2,
    'the run that waits'
  )
  await pair.a.kill()
  const answer = await waiting
  t.equal(answer.status, 200)
  t.equal(at(listIn(answer.body, 'messages').at(-1), 'content'), 'it was my turn')
})

const { own } = await postgresServer()
const skip = own === null && 'POSTGRES_URL names a server that is not ours to stop'

for (const outage of ['is down', 'hangs'])
  t.test(`a database that ${outage} for longer than a lease takes nobody's runs away`, { skip }, async (t) => {
    const pair = await startPair(t, { leaseMs: LEASE_MS })
    const { onA, onB } = pair
    const streams = await Promise.all(
      [onA, onB].map(async (person) => person.stream(await person.thread(), scripted({ deltas: 400, rate: 50 }), MODES))
    )
    await Promise.all(streams.map((stream) => stream.untilFrames(20)))
    if (outage === 'hangs') {
      const sql =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
      const backends = await pair.database.rows<{ pid: number }>(sql)
      // The postmaster first: nobody gets a new line meanwhile.
      const all = [own!.pid, ...backends.map(({ pid }) => pid)]
      for (const pid of all) process.kill(pid, 'SIGSTOP')
      // One that starts meanwhile knows nothing of the others, and must not judge them either.
      const late = startChild(t, { home: pair.home, config: pair.config })
      await pause(2.5 * LEASE_MS)
      for (const pid of all) process.kill(pid, 'SIGCONT')
      t.notMatch((await late).log, /left behind/)
    } else {
      await own!.stop('SIGQUIT')
      await pause(2.5 * LEASE_MS)
      await own!.start()
    }
    for (const stream of streams) {
      const frames = await stream.whole()
      t.same(endsOf(frames), ['end'])
      const ids = idsOf(frames)
      t.equal(new Set(ids).size, ids.length)
      for (const person of [onA, onB]) t.match((await person.get(stream.runPath)).body, { status: 'success' })
    }
    for (const child of [pair.a, pair.b]) t.notMatch(child.log, /lost its lease|left behind/)
  })

t.test(
  'a process that ends in order leaves what waits to the other; one alone that was killed goes on at once',
  { timeout: 170_000 },
  async (t) => {
    const leaseMs = 60_000
    const pair = await startPair(t, { leaseMs })
    const { onA, onB } = pair
    const thread = await onA.thread()
    const first = await onA.stream(thread, scripted({ deltas: 4000, rate: 50 }), MODES)
    const waiting = await onB.run(thread, scripted({ text: 'it was my turn' }), { multitask_strategy: 'enqueue' })
    await first.untilFrames(3)
    await pair.a.stop()
    await until(async () => (await statusOf(pair, waiting)) === 'success', 'the run that waited')
    t.equal(at((await onB.get(first.runPath)).body, 'status'), 'interrupted')
    await pair.b.stop()
    const alone = await startChild(t, { home: pair.home, config: pair.config })
    const there = onOther(onA, alone)
    const cut = await there.stream(thread, scripted({ deltas: 4000, rate: 50 }), MODES)
    await cut.untilFrames(10)
    await alone.kill()
    const next = await startChild(t, { home: pair.home, config: pair.config })
    const back = onOther(onA, next)
    // Half of the lease: until the database has noticed that its connections are gone, nobody may take the run.
    const hasEnded = async () => at((await back.get(cut.runPath)).body, 'status') === 'error'
    await until(hasEnded, 'its end, long before its lease is over', leaseMs / 2)
  }
)
